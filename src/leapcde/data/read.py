"""What people have (lists of pairs, arrays, long tables) -> `Series`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mode
from typing import Any

import numpy as np

from leapcde.data.dates import note_whole_dates, seconds_or_numbers
from leapcde.data.parse import (
    Categories,
    RowName,
    as_table,
    find_categories,
    is_missing,
    number_columns,
    numbers,
    one_hot,
    row_labels,
    row_names,
    row_targets,
    static_features,
    table_cells,
    target_column,
    told_apart,
    unmasked,
    value_columns,
    yes_no,
)
from leapcde.data.series import Series, check_and_raise, first_rows, name_of
from leapcde.errors import InputError, Problems, choose

ONE = "it must hold one value a sample; a target of each row needs target_per='row'"
PER = ("sample", "row")
LAYOUTS = ("channels_last", "channels_first")


def as_series(
    data: Any,
    *,
    times: Any = None,
    target: Any = None,
    static: Any = None,
    weights: Any = None,
    channels: Sequence[str] | None = None,
    layout: str = "channels_last",
    target_per: str = "sample",
) -> Series:
    """Make a `Series` from what people have.

    `data` is one of: a `Series`; a list of `(times, values)` pairs; a list of 2-D arrays (time, channel), or of 1-D
    arrays for one channel; a 3-D array (sample, time, channel) with NaN, or a 2-D array (sample, time). For arrays,
    `times` may be shared (time,) or per sample (sample, time), and rows at the end of a sample that are NaN in every
    channel are padding. Without times, observations count 0, 1, 2, … `layout="channels_first"` reads arrays as aeon
    has them: (sample, channel, time), or a list of (channel, time), with or without times. `weights` says how much each
    sample counts in training and in metrics. With `target_per="row"` the target is a list of arrays, one value a row of each
    sample, NaN or None where a row has none.

    >>> as_series(np.ones((4, 10, 3))).lengths.tolist()
    [10, 10, 10, 10]
    >>> as_series(np.ones((4, 3, 10)), layout="channels_first").values.shape
    (40, 3)
    """
    choose("layout", layout, LAYOUTS)
    problems = Problems()
    if isinstance(data, Series):
        series = data
    else:
        pairs = _pairs(data, times, layout == "channels_first", problems)
        if not pairs:
            raise InputError("there are no samples: the data is empty")
        series = _join(pairs, channels, problems)
    choose("target_per", target_per, PER)
    if target is not None and target_per == "row":
        series = replace(series, target=row_targets(target, series.lengths, problems), target_per="row")
    elif target is not None:
        series = replace(series, target=target_column(target, "target", problems), target_per="sample")
    if static is not None:
        series = replace(series, static=static_features(static, problems))
    if weights is not None:
        series = replace(series, weights=numbers(weights, "weights", problems, "give one number a sample"))
    return check_and_raise(series, problems, "the series cannot be used")


def from_table(
    table: Any,
    *,
    id: str | None = None,
    time: str,
    values: Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    static: Sequence[str] = (),
    weights: str | None = None,
    categories: Categories | None = None,
    time_format: str | None = None,
    target_per: str = "sample",
) -> Series:
    """Make a `Series` from a long table (pandas or polars): one row an observation time, one column a channel.

    Rows may come in any order. Without `id`, all rows are one sample. `target`, `static` and `weights` columns hold one
    value a sample, repeated on its rows; several targets are numbers, or yes and no. With `target_per="row"` the target is what
    stands in each row, and may be empty in some. A column of text becomes one of 0 and 1 for each of its categories ("sex=f"),
    those of the table or, so that new data is read as that of training was, `categories`: what `Series.categories` of the
    latter holds.
    Dates and times become seconds, those with a time zone in UTC; text is read as dates where that can be done in one way
    only, or as `time_format` says ("%d/%m/%Y %H:%M").

    >>> import pandas as pd
    >>> table = pd.DataFrame({"patient": [1, 1, 2], "hour": [0, 2, 0], "hr": [80, None, 95], "sick": [0, 0, 1]})
    >>> series = from_table(table, id="patient", time="hour", target="sick")
    >>> series.channels, series.lengths.tolist(), series.target.tolist()
    (('hr',), [2, 1], [0, 1])
    """
    table = as_table(table)
    problems, cells, row_name = Problems(), table_cells(table), row_names(table)
    targets = [target] if isinstance(target, str) else list(target or ())
    channels = value_columns(list(cells), [*filter(None, [id, time, weights]), *static, *targets], values)
    keys = cells[id] if id else np.zeros(len(cells[time]), int)
    clock = _clock(cells[time], time, problems, time_format, row_name)
    empty = is_missing(keys)
    if empty.any():
        problems.add(f"column {id!r}: empty in {row_name(int(np.argmax(empty)))}; every row needs an id")
    kinds = find_categories(table, cells, [*channels, *static], problems) if categories is None else categories
    matrix, extra = (number_columns(cells, names, problems, row_name, kinds) for names in (channels, static))
    choose("target_per", target_per, PER)
    per_row = target_per == "row"
    read_labels = row_labels if per_row else target_column
    labels = read_labels(cells[targets[0]], f"column {targets[0]!r}", problems, row_name) if len(targets) == 1 else None
    if clock is None or empty.any():
        raise InputError("cannot read the table", problems.found)
    ids, owner = told_apart(keys)
    order = np.lexsort((clock, owner))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(ids)))])
    rows, names = one_hot(matrix[order], channels, kinds)
    series = Series(clock[order], rows, offsets, names, ids=ids if id else None, categories=dict(kinds))
    where = lambda row: row_name(int(order[row]))
    if labels is not None:
        of_rows = labels[order]
        target_of = of_rows if per_row else _one_each(of_rows, series, targets[0], problems, where)
        series = replace(series, target=target_of, target_per=target_per)
    if len(targets) > 1:
        if per_row:
            problems.add(f"several targets ({', '.join(targets)}) of each row: name one target at a time")
        each = number_columns({name: yes_no(cells[name]) for name in targets}, targets, problems, row_name)[order]
        series = replace(series, target=_each_target(each, series, targets, problems, where), target_names=tuple(targets))
    if static:
        each = [_one_each(c[order], series, name, problems, where) for c, name in zip(extra.T, static, strict=True)]
        features, names = one_hot(np.stack(each, 1), static, kinds)
        series = replace(series, static=features, static_names=names)
    if weights:
        counts = number_columns(cells, [weights], problems, row_name)[order, 0]
        series = replace(series, weights=_one_each(counts, series, weights, problems, where))
    return check_and_raise(series, problems, "cannot read the table", where)


def _clock(cells: np.ndarray, name: str, problems: Problems, time_format: str | None, row_name: RowName) -> np.ndarray | None:
    """The column of times as numbers; None where it cannot be read."""
    found = seconds_or_numbers(cells, f"column {name!r}", problems, time_format=time_format, row_name=row_name)
    if time_format is None and cells.dtype.kind in "iuf":
        note_whole_dates(found, f"column {name!r}")
    return found


def times_as_written(table: Any, id: str | None, time: str) -> np.ndarray:
    """The cells of a table's times, in the order of the rows of the `Series` that `from_table` makes of it.

    >>> import pandas as pd
    >>> times_as_written(pd.DataFrame({"id": [2, 1], "day": ["2024-05-02", "2024-05-01"]}), "id", "day").tolist()
    ['2024-05-01', '2024-05-02']
    """
    cells = table_cells(as_table(table))
    clock = seconds_or_numbers(cells[time], f"column {time!r}", Problems())
    owner = told_apart(cells[id])[1] if id else np.zeros(len(cells[time]), int)
    return cells[time][np.lexsort((clock, owner))]  # pyright: ignore[reportCallIssue, reportArgumentType]


def _pairs(data: Any, times: Any, first: bool, problems: Problems) -> list[tuple[Any, Any]]:
    """Bring every accepted form to a list of (times or None, values); `first`: channels come before time."""
    if hasattr(data, "columns"):
        raise InputError("a table needs column names: use leapcde.from_table(table, id=…, time=…)")
    if isinstance(data, (str, bytes, dict)) or not hasattr(data, "__len__"):
        raise InputError(f"cannot read series from {type(data).__name__}: give a list of (times, values), or an array")
    if hasattr(data, "ndim"):
        array = np.asarray(unmasked(data))
        return _split_array(np.swapaxes(array, 1, 2) if first and array.ndim == 3 else array, times, problems)
    if times is not None:
        count = len(times) if hasattr(times, "__len__") and getattr(times, "ndim", 1) else -1
        if count != len(data):
            raise InputError(f"times: {max(count, 0)} entries for {len(data)} samples; give one for each")
        pairs = list(zip(times, data, strict=True))
    else:
        pairs = [(item[0], item[1]) if isinstance(item, tuple) and len(item) == 2 else (None, item) for item in data]
    return [(clock, _turned(values)) for clock, values in pairs] if first else pairs


def _turned(values: Any) -> Any:
    try:
        array = np.asarray(unmasked(values))
    except ValueError:
        return values  # rows of different lengths: what reads the sample says so
    return array.T if array.ndim == 2 else array


def _split_array(array: np.ndarray, times: Any, problems: Problems) -> list[tuple[Any, Any]]:
    if array.ndim not in (2, 3):
        raise InputError(f"cannot read series from a {array.ndim}-D array: give (sample, time, channel), or a list of arrays")
    array = array[..., None] if array.ndim == 2 else array
    if array.size == 0:
        raise InputError(f"there are no observations: the array has shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise InputError(f"the array holds {array.dtype} values; give numbers, with NaN for missing")
    samples, length, _ = array.shape
    clock = None if times is None else seconds_or_numbers(times, "times", problems)
    clock = np.arange(length, dtype=float) if clock is None else clock
    if clock.shape not in ((length,), (samples, length)):
        raise InputError(f"times has shape {clock.shape}; expected ({length},) or ({samples}, {length})")
    clock = np.broadcast_to(clock, (samples, length))
    observed = np.asarray(~np.isnan(array.astype(float, copy=False)).all(2))
    # A sample without a single observation keeps its rows: it is the path's business to call it constant.
    ends = length - np.argmax(observed[:, ::-1], axis=1)
    return [(clock[i, : ends[i]], array[i, : ends[i]]) for i in range(samples)]


def _join(pairs: list[tuple[Any, Any]], channels: Sequence[str] | None, problems: Problems) -> Series:
    """All samples end to end. Where one cannot be read, a stand-in lets the search for problems go on."""
    read = [_sample(f"sample {i}", clock, values, problems) for i, (clock, values) in enumerate(pairs)]
    widths = [block.shape[1] for _, block in filter(None, read) if len(block)]
    if channels is not None and (not isinstance(channels, (list, tuple, np.ndarray)) or getattr(channels, "ndim", 1) != 1):
        raise InputError(f"channels: {channels!r}; give a list of names")
    width = len(channels) if channels is not None else mode(widths or [1])
    expected = "as in the others" if channels is None else "one for each name in channels"
    clocks, blocks = [], []
    for i, found in enumerate(read):
        clock, block = found or (np.zeros(1), np.zeros((1, width)))
        if len(block) and block.shape[1] != width:
            problems.add(f"sample {i}: {block.shape[1]} channels, expected {width}, {expected}")
        clocks.append(clock)
        blocks.append(block if block.shape[1] == width else np.zeros((len(block), width)))
    names = tuple(map(str, channels)) if channels is not None else tuple(f"x{c}" for c in range(width))
    offsets = np.concatenate([[0], np.cumsum([len(b) for b in blocks])])
    return Series(np.concatenate(clocks), np.concatenate(blocks), offsets, names)


def _sample(where: str, clock: Any, values: Any, problems: Problems) -> tuple[np.ndarray, np.ndarray] | None:
    """Times and values of one sample as arrays, or None where they are no such thing."""
    block = numbers(values, where, problems, "give a row of numbers for each time, NaN for missing")
    times = None if clock is None else seconds_or_numbers(clock, f"times of {where}", problems)
    if block is None or (times is None and clock is not None):
        return None
    block = block[:, None] if block.ndim == 1 else block
    if block.ndim != 2 or block.shape[1] == 0:
        problems.add(f"{where}: values have shape {block.shape}; give (time, channel)")
        return None
    times = np.arange(len(block), dtype=float) if times is None else times
    if times.shape != (len(block),):
        problems.add(f"{where}: {times.size} times for {len(block)} rows of values; give one time a row")
        return None
    return times, block


def _each_target(rows: np.ndarray, series: Series, names: list[str], problems: Problems, where: RowName) -> np.ndarray:
    """Several targets, (sample, target); all of them must be known."""
    found = np.stack([_one_each(rows[:, j], series, name, problems, where) for j, name in enumerate(names)], 1)
    for j in np.flatnonzero(np.isnan(found).any(0) & ~np.isnan(rows).all(0)):
        i = int(np.argmax(np.isnan(found[:, j])))
        problems.add(f"column {names[j]!r}: empty for {name_of(series, i)}; every sample needs one, leave out those without")
    return found


def _one_each(column: np.ndarray, series: Series, name: str, problems: Problems, row_name: RowName) -> np.ndarray:
    """One value a sample from a column that repeats it on every row, or holds it on some."""
    there = np.flatnonzero(~is_missing(column))
    owners, rows = np.unique(series.owner[there], return_index=True)
    first = column[series.offsets[:-1]]
    first[owners] = column[there[rows]]
    differs = ~is_missing(column) & (column != np.repeat(first, series.lengths))
    for row in first_rows(differs, series.owner):
        where = name_of(series, series.owner[row])
        problems.add(f"{where}: column {name!r} changes within the sample, in {row_name(row)}; {ONE}")
    return first
