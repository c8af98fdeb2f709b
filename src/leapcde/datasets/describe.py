"""What a data set looks like, beside what has been published about it."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leapcde.data.dataset import Dataset
from leapcde.data.series import Series, known_targets
from leapcde.datasets.registry import find_data_dir, source_of
from leapcde.datasets.source import Source, make_dataset_options
from leapcde.errors import LeapError
from leapcde.explain.plots import plot_samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Finding(NamedTuple):
    """One thing that was checked: `ok` is None where a number differs for a reason that is known."""

    what: str
    ok: bool | None
    detail: str


def describe(name: str, *, data_dir: Path | str | None = None, **options: Any) -> dict[str, Any]:
    """Counts, lengths, channels, missing values, classes and ranges of all samples, before anything is dropped.

    >>> found = describe("hopper", sequences=30)
    >>> found["samples"], found["length"]["max"], found["published"][1]["same"]
    (30, 100, True)
    """
    source, series, data = _load(name, data_dir, options)
    seen = ~np.isnan(series.values)
    return {
        "name": name,
        "title": source.about.title,
        "licence": source.about.licence,
        "citation": source.about.citation,
        "task": data.task,
        "samples": len(series),
        "length": _summary(series.lengths),
        "time": {"first": float(series.times.min()), "last": float(series.times.max())},
        "missing": float(1 - seen.mean()),
        "channels": [_channel(series, seen, c) for c in range(len(series.channels))],
        "statics": 0 if series.static is None else series.static.shape[1],
        "classes": _classes(series) if data.task == "classification" else {},
        "splits": {part: len(found) for part, found in data.parts.items()},
        "options": data.options,
        "published": [_compare(figure, series) for figure in source.about.figures],
    }


def check(name: str, *, data_dir: Path | str | None = None, **options: Any) -> list[Finding]:
    """Whether the files can be read, agree with what is published, and are split without leaks.

    >>> [finding.ok for finding in check("hopper", sequences=30)]
    [None, True, True, True, True]
    """
    try:
        source, series, data = _load(name, data_dir, options)
    except LeapError as error:
        return [Finding("the files can be read", False, str(error))]
    found = [_finding(_compare(figure, series)) for figure in source.about.figures]
    found += [_finite(series), *_leaks(data)]
    return [*found, *_own_checks(source, data_dir, options)]


def plot(name: str, *, data_dir: Path | str | None = None, samples: int = 3, **options: Any) -> Figure:
    """A few samples, drawn channel by channel: of each class one, as far as there are samples."""
    series, _ = _read(source_of(name), data_dir, options)
    picked = _pick(series, samples)
    unnamed = series.target is None or series.per_row or np.ndim(series.target) > 1
    labels = [f"sample {i}" if unnamed else str(np.asarray(series.target)[i]) for i in picked]
    channels = np.argsort(np.isnan(series.values).mean(0), kind="stable")[:6]  # those that are observed most
    return plot_samples([series.sample(i) for i in picked], labels, [(int(c), series.channels[c]) for c in sorted(channels)])


def _load(name: str, data_dir: Path | str | None, options: dict[str, Any]) -> tuple[Source, Series, Dataset]:
    source = source_of(name)
    series, notes = _read(source, data_dir, options)
    return source, series, source.make(series, notes, 0.0, "times", make_dataset_options(name, source.options, options))


def _read(source: Source, data_dir: Path | str | None, options: dict[str, Any]):
    return source.read(find_data_dir(data_dir), make_dataset_options(source.name, source.options, options))


def _summary(values: np.ndarray) -> dict[str, int | float]:
    return {"min": int(values.min()), "median": float(np.median(values)), "max": int(values.max())}


def _channel(series: Series, seen: np.ndarray, c: int) -> dict[str, Any]:
    values = series.values[seen[:, c], c].astype(np.float64)
    never = {"min": None, "mean": None, "max": None, "std": None}
    stats = {key: float(getattr(values, key)()) for key in never} if len(values) else never
    return {"name": series.channels[c], "missing": float(1 - seen[:, c].mean()), **stats}


def _classes(series: Series) -> dict[str, int]:
    target = np.asarray(series.target)
    labels, counts = np.unique(target[known_targets(target)] if series.per_row else target, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {str(labels[i]): int(counts[i]) for i in order}


def _compare(figure: Any, series: Series) -> dict[str, Any]:
    found = figure.found(series)
    same = bool(found == figure.published)
    return {"what": figure.what, "published": figure.published, "found": found, "same": same, "why": "" if same else figure.why}


def _finding(row: dict[str, Any]) -> Finding:
    if row["same"]:
        return Finding(row["what"], True, f"{row['found']:,}")
    detail = f"{row['found']:,}, published {row['published']:,}"
    return Finding(row["what"], None if row["why"] else False, f"{detail}: {row['why']}" if row["why"] else detail)


def _finite(series: Series) -> Finding:
    wrong = int(np.isinf(series.values).sum())
    return Finding("every value is finite or missing", wrong == 0, "" if not wrong else f"{wrong} are infinite")


def _leaks(data: Dataset) -> Iterator[Finding]:
    """Windows of one sequence lie in one split; elsewhere, no two splits hold the same sample."""
    parts = list(data.parts.values())
    if data.task == "forecasting":
        ids = [set(np.asarray(part.ids).tolist()) for part in parts]
        yield _apart("no sequence in two splits", ids)
    else:
        yield _apart("no two splits hold equal samples", [_contents(part) for part in parts], "the source holds some twice")
    if str(data.options.get("split", "")).endswith("speaker"):
        yield _apart("no speaker in two splits", [set(np.asarray(part.ids).tolist()) for part in parts])


def _apart(what: str, sets: list[set], why: str = "") -> Finding:
    shared = sum(len(a & b) for i, a in enumerate(sets) for b in sets[i + 1 :])
    if not shared:
        return Finding(what, True, "")
    return Finding(what, None if why else False, f"{shared} are shared" + (f": {why}" if why else ""))


def _contents(series: Series) -> set[bytes]:
    pairs = (series.sample(i) for i in range(len(series)))
    return {blake2b(t.tobytes() + x.tobytes(), digest_size=16).digest() for t, x in pairs}


def _own_checks(source: Source, data_dir: Path | str | None, options: dict[str, Any]) -> list[Finding]:
    made = make_dataset_options(source.name, source.options, options)
    return [Finding(*row) for row in source.checks(find_data_dir(data_dir), made)]


def _pick(series: Series, count: int) -> list[int]:
    """The first sample of as many classes as asked for; without classes, samples spread over the whole."""
    count = min(count, len(series))
    if series.target is None or series.per_row or np.ndim(series.target) > 1 or np.asarray(series.target).dtype.kind == "f":
        return [int(i) for i in np.linspace(0, len(series) - 1, count)]
    first = np.sort(np.unique(np.asarray(series.target), return_index=True)[1])[:count]
    rest = [i for i in range(len(series)) if i not in set(first.tolist())][: count - len(first)]
    return [*first.tolist(), *rest]
