"""Predictions as a table: one row a sample, one row a sample and step ahead, or one a row of the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leapcde.data.delimited import PARQUET
from leapcde.data.read import times_as_written
from leapcde.data.series import Series
from leapcde.data.windows import in_steps
from leapcde.errors import InputError, LeapWarning, need
from leapcde.estimators.base import Estimator
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.rows import not_of_rows
from leapcde.estimators.survival import LeapSurvival
from leapcde.files import atomic


def predictions_table(
    estimator: Estimator,
    table: Any,
    *,
    coverage: float | None = None,
    outputs: Callable[[Series], np.ndarray] | None = None,
) -> pd.DataFrame:
    """Predict for every sample of a long table.

    Parameters
    ----------
    estimator : Estimator
        Trained on a table with named columns; the target column need not be there.
    table : pandas or polars table
        New samples. Columns that training did not use are left out.
    coverage : float, optional
        Add the ends of intervals that hold the truth so often; for classes, the set that does.
    outputs : callable, optional
        Answers instead of the model in this process, such as `cluster.answers_of`.

    Returns
    -------
    pandas.DataFrame
        The id and the prediction, or a column for each of several targets; with probabilities for classes, with a row for
        each step for forecasts; with the time, and a row for each of the table's, of answers after each row. Of times to an
        event, the prediction is the risk; with the median, and the probability S(t) of no event up to five times.
    """
    series = estimator._new_series(table)
    each_row = estimator.fitted_.preprocessor.spec.each_row
    if coverage is not None and each_row:
        not_of_rows("row", f"coverage={coverage}", "leave it out")
    raw = estimator.fitted_.raw(series, outputs)
    said = estimator.fitted_.preprocessor.decode(raw)
    ends: dict[str, Any] = {}
    if coverage is not None and isinstance(estimator, LeapSurvival):
        raise InputError("there are no intervals around risks; S(t) says how probable times are: leave out coverage=")
    if coverage is not None and not isinstance(estimator, LeapClassifier):
        ends = dict(zip(("lower", "upper"), estimator.around(said, coverage, series), strict=True))
    name = estimator.id or "id"
    ids = np.arange(len(series)) if series.ids is None else np.asarray(series.ids)
    when = {}
    if each_row:
        ids, when = ids[series.owner], {estimator.time or "time": _times(estimator, table, series)}
    if isinstance(estimator, LeapForecaster):
        return _forecasts(estimator, name, ids, said, ends)
    if estimator.fitted_.preprocessor.task == "labels":
        return _labels(estimator, name, ids, said, raw, coverage)
    if targets := estimator.fitted_.preprocessor.target_names:
        return pd.DataFrame({name: ids, **_by_target(targets, said, ends)})
    found = pd.DataFrame({name: ids, **when, "prediction": said})
    if isinstance(estimator, LeapSurvival):
        return found.assign(**_survival(estimator, raw))
    if isinstance(estimator, LeapClassifier):
        shares = estimator.fitted_.preprocessor.probability(raw)
        found = found.assign(**{f"p({label})": share for label, share in zip(estimator.classes_, shares.T, strict=True)})
        return found if coverage is None else found.assign(set=_as_text(estimator.sets_around(shares, coverage)))
    return found.assign(**ends)


def _times(estimator: Estimator, table: Any, series: Series) -> np.ndarray:
    """Of each row, as the table has them; of rows that lie in a store, as numbers."""
    return series.times if isinstance(table, Series) else times_as_written(table, estimator.id, estimator.time or "time")


def _survival(estimator: LeapSurvival, raw: np.ndarray) -> dict[str, np.ndarray]:
    bins = estimator.fitted_.preprocessor.bins
    assert bins is not None
    times = np.unique(np.quantile(estimator.times_, [0.1, 0.25, 0.5, 0.75, 0.9], method="inverted_cdf"))
    curves = dict(zip((f"S({t:.4g})" for t in times), bins.survival(raw, times).T, strict=True))
    return {"median": bins.quantile(raw, 0.5), **curves}


def write_predictions(estimator: Estimator, data: Any, out: Path, **how: Any) -> int:
    """Predict for every sample of a table or a series, part by part, into a CSV or .parquet file; returns the number of rows.

    The file is there only when it is whole. `how` is that of `predictions_table`.
    """
    parts = data.blocks() if isinstance(data, Series) else [data]
    write, count = _write_parquet if out.suffix.lower() in PARQUET else _write_text, 0
    with atomic(out) as temporary, write(temporary) as add, warnings.catch_warnings():
        for part in parts:
            found = predictions_table(estimator, part, **how)
            add(found)
            count += len(found)
            warnings.simplefilter("ignore", LeapWarning)  # what was said of the first part need not be said of each
    return count


@contextmanager
def _write_text(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    with path.open("w", encoding="utf-8", newline="") as file:
        yield lambda table: for_spreadsheets(table).to_csv(file, index=False, header=file.tell() == 0)


@contextmanager
def _write_parquet(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    arrow, parquet = need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")
    with ExitStack() as stack:
        writers: list[Any] = []

        def add(table: pd.DataFrame) -> None:
            made = arrow.Table.from_pandas(table, preserve_index=False)
            if not writers:
                writers.append(stack.enter_context(parquet.ParquetWriter(path, made.schema)))
            writers[0].write_table(made.cast(writers[0].schema))

        yield add


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """With an apostrophe before text that a spreadsheet would run as a formula; numbers stay as they are.

    >>> for_spreadsheets(pd.DataFrame({"id": ["=1+1", "-5", "a"]}))["id"].tolist()
    ["'=1+1", '-5', 'a']
    """

    def plain(cell: Any) -> Any:
        formula = isinstance(cell, str) and cell.lstrip()[:1] in ("=", "+", "-", "@") and not _is_number(cell)
        return f"'{cell}" if formula or (isinstance(cell, str) and cell[:1] in ("\t", "\r")) else cell

    text = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
    safe = table.assign(**{name: [plain(cell) for cell in table[name]] for name in text})
    return safe.rename(columns=plain)


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _by_target(targets: tuple[str, ...], said: np.ndarray, ends: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A column for each of several targets, and behind it those of its interval."""
    parts = {"": said, **{f" {end}": values for end, values in ends.items()}}
    return {f"{target}{suffix}": part[:, j] for j, target in enumerate(targets) for suffix, part in parts.items()}


def _labels(estimator: Estimator, name: str, ids: np.ndarray, said: np.ndarray, raw: np.ndarray, coverage: float | None):
    """A column of 0 and 1 for each label, then their probabilities."""
    if coverage is not None:
        raise InputError("sets are of classes, of which one is true; labels have a probability each: leave out coverage=")
    of = estimator.fitted_.preprocessor
    shares = {f"p({label})": share for label, share in zip(of.target_names, of.probability(raw).T, strict=True)}
    return pd.DataFrame({name: ids, **dict(zip(of.target_names, said.T, strict=True)), **shares})


def _as_text(sets: list[np.ndarray]) -> list[str]:
    """Classes of each set in one cell, the most probable first.

    >>> _as_text([np.array(["a", "b"]), np.array(["b"])])
    ['a|b', 'b']
    """
    return ["|".join(map(str, some)) for some in sets]


def _forecasts(estimator: LeapForecaster, name: str, ids: np.ndarray, said: np.ndarray, ends: dict) -> pd.DataFrame:
    samples, rows, _ = said.shape
    horizon = estimator.horizon
    when = ("step", np.arange(1, rows + 1)) if in_steps(horizon) else ("after", np.asarray(horizon))
    table = pd.DataFrame({name: np.repeat(ids, rows), when[0]: np.tile(when[1], samples)})
    for suffix, values in {"": said, **{f" {end}": values for end, values in ends.items()}}.items():
        for c, channel in enumerate(estimator.fitted_.preprocessor.forecast):
            table[f"{channel}{suffix}"] = values[:, :, c].ravel()
    return table
