"""A trained model in a few lines: what it is, what it saw, how training went, how far it can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from leapcde.data.series import Series
from leapcde.training.calibration import Calibration
from leapcde.training.fitted import Fitted
from leapcde.training.history import History

NAMES = 8  # channels that are named; of more, their number is told
CLOCKS = ("seconds", "cpu_seconds")


def data_sizes(train: Series, held: Series | None) -> dict[str, Any]:
    """What a summary says about the data, as JSON can hold it.

    >>> from leapcde.data.read import as_series
    >>> data_sizes(as_series([np.ones((3, 1)), np.ones((5, 1))]), None)
    {'train': 2, 'validation': 0, 'rows': [3, 4.0, 5], 'observed': 1.0}
    """
    rows = [int(train.lengths.min()), float(np.median(train.lengths)), int(train.lengths.max())]
    seen = sum(int((~np.isnan(part.values)).sum()) for part in train.blocks()) / max(train.values.size, 1)
    return {"train": len(train), "validation": 0 if held is None else len(held), "rows": rows, "observed": round(seen, 4)}


def kept_history(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The history as a file holds it: without clocks, so that the same training makes the same file."""
    return [{key: value for key, value in row.items() if key not in CLOCKS} for row in rows]


def summary(
    title: str,
    fitted: Fitted,
    *,
    sizes: dict[str, Any] | None = None,
    history: list[dict[str, Any]] | None = None,
    stopped: str = "",
    more: dict[str, str] | None = None,
) -> str:
    """Lines with a name each; what is not known, as in older files, is left out."""
    several = [f"{weight:.2f} {one.name}" for weight, one in fitted.leaves()]
    made_of = f" ({', '.join(several)})" if len(several) > 1 else ""
    lines = {"model": f"{fitted.name}{made_of}, {fitted.parameters:,} parameters", "data": _data(fitted, sizes)}
    if options := ", ".join(f"{key}={value}" for key, value in fitted.options.items()):
        lines["options"] = options
    if history:
        best = History(history).best(fitted.metric)
        names = [name for name in best if name in ("val_loss", "accuracy", "auroc", "auprc", "mse", "mae")]
        lines["training"] = f"{len(history)} epochs, the best is number {int(best['epoch']) + 1}; {stopped}"
        lines["validation"] = ", ".join(f"{name} {best[name]:.4g}" for name in names)
    if isinstance(found := getattr(fitted, "calibration", None), Calibration):
        names = fitted.preprocessor.classes or fitted.preprocessor.target_names
        shifts = ", ".join(f"{c} {b:+.2f}" for c, b in zip(names, found.bias, strict=False))
        divided = ", ".join(f"{one:.3g}" for one in np.atleast_1d(found.temperature))
        lines["calibration"] = f"scores divided by {divided}, then shifted: {shifts}"
    lines |= more or {}
    width = max(map(len, lines))
    return "\n".join([title, *(f"  {name:<{width}}  {text}" for name, text in lines.items())])


def _data(fitted: Fitted, sizes: dict[str, Any] | None) -> str:
    found = fitted.preprocessor
    parts = [f"{len(found.channels)} channels{_named(found.channels)}"]
    if found.spec.static:
        parts.append(f"{found.spec.static} static features")
    if found.classes:
        parts.append(
            f"{len(found.classes)} classes" + (f" ({', '.join(map(str, found.classes))})" * (len(found.classes) <= NAMES))
        )
    if found.spec.task == "labels":
        parts.append(f"{len(found.target_names)} labels{_named(found.target_names)}")
    if sizes:
        low, middle, high = sizes["rows"]
        parts.append(f"{sizes['train']} samples train, {sizes['validation']} choose the weights")
        parts.append(f"{low} to {high} rows each (median {middle:g}), {100 * sizes['observed']:.0f} % of the cells observed")
    return "; ".join(parts)


def _named(names: Sequence[Any]) -> str:
    return f" ({', '.join(map(str, names))})" if len(names) <= NAMES else ""
