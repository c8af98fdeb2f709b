"""Models side by side on one data set, beside the baselines; each is a run, and those that are finished stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.data.dataset import DataRequest, Dataset
from leapcde.errors import CheckpointError, InputError, Problems, choose
from leapcde.estimators.base import Estimator
from leapcde.estimators.run import CONFIG, RESULT, run
from leapcde.files import DAMAGE
from leapcde.models.registry import MODELS


def compare_models(
    estimator: Estimator,
    data: Dataset,
    folder: Path,
    *,
    models: Sequence[str],
    request: DataRequest,
    seeds: Sequence[int] = (0,),
    on_run: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Train every model with every seed on the same split.

    Parameters
    ----------
    estimator : Estimator
        With the settings that all share; it is not trained itself.
    data, request : Dataset, DataRequest
        As for `run`.
    folder : Path
        Holds a run for each model and seed; those that are finished are not made again.
    models : sequence of str
        Names of models, or "auto".
    seeds : sequence of int
        Of the runs; numbers are means over them.
    on_run : callable
        Told how many runs are finished.

    Returns
    -------
    dict
        "metric", "models" and "baselines": by name, mean metrics by split; of models also seconds and parameters.
    """
    problems = Problems()
    for name in models:
        try:
            choose("model", name, [*MODELS, "auto"])
        except InputError as error:
            problems.add(str(error))
    problems.raise_if_any("cannot compare")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in models}
    done = 0
    for name in models:
        for seed in seeds:
            place = folder / f"{name}-{seed}"
            if not _finished(place, request):
                run(copy(estimator).set_params(model=name, seed=seed), data, request=request, folder=place)
            found[name].append(_read(place / RESULT))
            done += 1
            on_run(done)
    one = found[models[0]][0]
    return {"metric": one["metric"], "models": {k: _mean(v) for k, v in found.items()}, "baselines": one["baselines"]}


def _finished(place: Path, request: DataRequest) -> bool:
    """Whether a run is there already; one of other data is a mistake."""
    if not (place / RESULT).exists():
        return False
    there, asked = _read(place / CONFIG), json.loads(json.dumps(request.to_json()))
    if {key: there.get(key) for key in asked} != asked:
        raise InputError(f"{place} holds a run of other data; give another --out, or remove that folder")
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, *DAMAGE) as error:
        raise CheckpointError(f"{path} is damaged ({error}); remove {path.parent} to have its model trained again") from None


def _mean(results: list[dict[str, Any]]) -> dict[str, Any]:
    parts = {split: {key: [one["metrics"][split][key] for one in results] for key in of} for split, of in _splits(results)}
    nan = lambda numbers: [np.nan if number is None else number for number in numbers]
    means = {split: {key: float(np.mean(nan(values))) for key, values in of.items()} for split, of in parts.items()}
    return {**means, **{key: float(np.mean([one[key] for one in results])) for key in ("seconds", "parameters")}}


def _splits(results: list[dict[str, Any]]):
    return results[0]["metrics"].items()
