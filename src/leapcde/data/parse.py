"""What people hand in, tables and lists and dates -> arrays of numbers; what cannot be read becomes a named problem."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from leapcde.errors import InputError, LeapWarning, Problems, meant

RowName = Callable[[int], str]  # how a row is called in a message
Categories = dict[str, tuple[str, ...]]  # of each column of text, in order
MOST_CATEGORIES = 50  # of a column; more are ids or free text
ROW_NAME = "name of a row"  # what a table knows of its rows, in its attrs
FILE_ROW = "row of the file"  # the name of an index that holds them
COMMA = r"[-+]?[\d.]*\d,\d[\d,.]*"  # a number with a comma in it


def place(i: int) -> str:
    return f"position {i}"


def row_names(table: Any) -> RowName:
    """How rows of a table are called: by the row of their file, by a pandas index that tells them apart, by their place."""
    if ROW_NAME in (known := getattr(table, "attrs", {})):
        return known[ROW_NAME]
    index = getattr(table, "index", None)
    if index is None or index.dtype.kind not in "iu" or not index.is_unique:
        return lambda i: f"row {i}"
    of = " of the file" if index.name == FILE_ROW else ""
    return lambda i: f"row {index[i]}{of}"


def unmasked(values: Any) -> Any:
    """NumPy's masked arrays, also in a list, with NaN where a mask says that there is nothing; all else as it is."""
    if isinstance(values, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in values):
        values = [unmasked(row) for row in values]
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain: Any = values.astype(np.float64) if values.dtype.kind in "iub" else values
    return (
        plain.filled(np.nan) if plain.dtype.kind in "fO" else np.where(np.ma.getmaskarray(values), np.array(None), values.data)
    )


def masked_problem(values: Any, where: str, problems: Problems) -> bool:
    """Whether something that must be there is masked, which is a problem."""
    parts = values if isinstance(values, (list, tuple)) else [values]
    for i, part in enumerate(parts):
        if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
            first = i if part is not values and part.ndim == 0 else int(np.argmax(np.ma.getmaskarray(part)))
            problems.add(f"{where}: masked at {place(first)}; only values may be missing")
            return True
    return False


def as_table(table: Any) -> Any:
    """Arrow's tables as pandas has them; others as they are."""
    arrow = hasattr(table, "column_names") and hasattr(table, "to_pandas")
    return table.to_pandas() if arrow else table


def table_cells(table: Any) -> dict[str, np.ndarray]:
    """The columns of a pandas or polars table by name."""
    if not hasattr(table, "__len__") or not hasattr(table, "columns"):
        raise InputError(f"cannot read a table from {type(table).__name__}: give a pandas or polars DataFrame")
    names = [str(column) for column in table.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"cannot read the table: several columns are called {', '.join(map(repr, twice))}; rename them")
    if len(table) == 0:
        raise InputError("cannot read the table: it has no rows")
    return {name: np.asarray(table[column].to_numpy()) for name, column in zip(names, table.columns, strict=True)}


def told_apart(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ids that there are, in order, and which of them each row has.

    >>> [part.tolist() for part in told_apart(np.array(["b", "a", "b"], object))]
    [['a', 'b'], [1, 0, 1]]
    """
    if keys.dtype == object and pd.api.types.infer_dtype(keys, skipna=False) == "string":
        owner, ids = pd.factorize(keys, sort=True)  # as below, without a copy of each cell
        return np.asarray(ids).astype(str), owner
    plain = np.array([str(key) for key in keys]) if keys.dtype == object or keys.ndim > 1 else keys
    return np.unique(plain, return_inverse=True)


def value_columns(columns: list[str], named: list[str], values: Sequence[str] | None) -> list[str]:
    """The value columns: those given, or all that are not named as something else."""
    problems = Problems()
    asked = [*named, *(values or [])]
    if odd := [name for name in asked if not isinstance(name, Hashable)]:
        raise InputError(f"{odd[0]!r} is no name of a column; give names as text")
    for column in dict.fromkeys(asked):
        if column not in columns:
            problems.add(f"no column {column!r}; {meant(column, columns)}the table has: {', '.join(columns)}")
        elif asked.count(column) > 1:
            problems.add(f"column {column!r} is named twice; a column is one of id, time, value, target, static")
    channels = list(values) if values else [c for c in columns if c not in named]
    if not channels:
        problems.add("no column is left for the values")
    problems.raise_if_any("cannot read the table")
    return channels


def number_columns(
    cells: dict[str, np.ndarray],
    names: Sequence[str],
    problems: Problems,
    row_name: RowName | None = None,
    categories: Categories | None = None,
) -> np.ndarray:
    """Number columns side by side; an unreadable one is a problem and stays empty. Of `categories`, the number of each."""
    fix = "encode it as numbers, name it as target, or leave it out"
    matrix = np.full((len(next(iter(cells.values()))), len(names)), np.nan)
    for c, name in enumerate(names):
        if categories and name in categories:
            matrix[:, c] = _category_numbers(cells[name], name, categories[name])
            continue
        cells_of = truths(cells[name])
        column = numbers(cells_of, f"column {name!r}", problems, fix, text_ok=False, row_name=row_name)
        if column is not None and column.ndim != 1:
            problems.add(f"column {name!r}: several numbers in a cell; give each a column of its own")
            continue
        matrix[:, c] = np.nan if column is None else column
    return matrix


def static_features(values: Any, problems: Problems) -> np.ndarray | None:
    if masked_problem(values, "static", problems):
        return None
    array = numbers(values, "static", problems, "give a row of numbers for each sample")
    array = None if array is None else np.atleast_1d(array)
    return None if array is None else array.reshape(len(array), int(np.prod(array.shape[1:])))


def numbers(
    values: Any, where: str, problems: Problems, fix: str, *, text_ok: bool = True, row_name: RowName | None = None
) -> np.ndarray | None:
    """A float array, or None: text and other non-numbers become a problem instead of an exception."""
    try:
        array = np.asarray(unmasked(values))
        if array.dtype == np.float32:
            return array
        if array.dtype.kind in "Mmc" or (array.dtype.kind in "US" and not text_ok):
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        problems.add(f"{where}: {_what_else(values, row_name)}; {fix}")
        return None


def _what_else(values: Any, row_name: RowName | None) -> str:
    """What stands where numbers should: the first text that is no number, or rows of different lengths."""
    try:
        cells = list(np.ravel(np.asarray(values, dtype=object)))
    except ValueError:
        cells = [()]
    if any(isinstance(cell, (list, tuple, np.ndarray)) for cell in cells):
        return "rows of different lengths"
    text = [i for i, cell in enumerate(cells) if isinstance(cell, str)]
    wrong = [i for i in text if is_missing(pd.to_numeric(cells[i], errors="coerce"))] or text
    if not wrong:
        huge = any(isinstance(cell, int) and cell.bit_length() > 1023 for cell in cells)
        return "a number with hundreds of digits" if huge else "values that are not numbers"
    cell = cells[wrong[0]]
    row = "" if row_name is None else f" in {row_name(wrong[0])}"
    comma = "; write the decimals with a point and thousands without a mark" if re.fullmatch(COMMA, str(cell).strip()) else ""
    return f"text ({cell!r}){row}{comma}"


def target_column(values: Any, where: str, problems: Problems, row_name: RowName | None = None) -> np.ndarray | None:
    """A target as people give it: numbers stay numbers, anything else becomes text labels."""
    if masked_problem(values, where, problems):
        return None
    try:
        array = np.atleast_1d(np.asarray(values))
    except ValueError:
        fix = "give one label, number or (step, channel) array a sample; target_per='row' is for one a row"
        problems.add(f"{where}: entries of different shapes; {fix}")
        return None
    empty = is_missing(array)
    # Only what is forecast, which has more than one dimension, may be partly unknown.
    if empty.any() and (array.ndim == 1 or array.dtype == object):
        i = int(np.argmax(empty))
        row = f"row {i}" if row_name is None else row_name(i)
        other = "" if row_name is None else "; a target of each row needs target_per='row'"
        problems.add(f"{where}: empty in {row}; every sample needs one, leave out those without{other}")
        return None
    try:
        return array.astype(str) if array.dtype == object else array
    except ValueError:  # lists in cells
        problems.add(f"{where}: several entries in one; give one label or number a sample")
        return None


def row_targets(target: Any, lengths: np.ndarray, problems: Problems) -> np.ndarray | None:
    """The target of each row, end to end, from one array a sample; NaN, or no text, where a row has none."""
    parts = [np.asarray(unmasked(part)) for part in target] if hasattr(target, "__len__") else []
    if len(parts) != len(lengths) or any(part.ndim != 1 for part in parts):
        shapes = f"{len(parts)} entries for {len(lengths)} samples" if len(parts) != len(lengths) else "entries of several axes"
        problems.add(f"target: {shapes}; with target_per='row', give a list of arrays with one value a row of each sample")
        return None
    before = len(problems.found)
    for i, (part, rows) in enumerate(zip(parts, lengths, strict=True)):
        if len(part) != rows:
            problems.add(f"target of sample {i}: {len(part)} values for {rows} rows; give one a row, NaN where there is none")
    if len(problems.found) > before:
        return None
    plain = all(part.dtype.kind in "fiub" for part in parts)
    return row_labels(np.concatenate(parts if plain else [part.astype(object) for part in parts]), "target", problems)


def row_labels(values: Any, where: str, problems: Problems, row_name: RowName | None = None) -> np.ndarray | None:
    """Targets of rows: numbers with NaN where there is none, or text, which is empty there."""
    array, empty = np.asarray(values), is_missing(values)
    if array.ndim != 1 or empty.shape != array.shape:
        problems.add(f"{where}: several entries in one; give one label or number a row")
        return None
    if empty.all():
        problems.add(f"{where}: empty in all rows; some need one")
        return None
    if array.dtype.kind in "iub":
        return array
    if array.dtype.kind == "f" or all(isinstance(cell, (int, float, np.number)) for cell in array[~empty]):
        found = np.where(empty, np.nan, array).astype(float)
        if np.isinf(found).any():
            row = int(np.argmax(np.isinf(found)))
            problems.add(f"{where}: infinite in {place(row) if row_name is None else row_name(row)}; leave it empty")
        return found
    return np.where(empty, "", array).astype(str)


def is_missing(values: Any) -> np.ndarray:
    return np.asarray(pd.isna(values))


def find_categories(table: Any, cells: dict[str, np.ndarray], names: Sequence[str], problems: Problems) -> Categories:
    """The categories of columns of text, sorted. Text among which there is a number is none: it may be a slip.

    Columns that a table calls categorical are taken at their word, whatever they hold.
    """
    found = {}
    for name, column in zip(map(str, table.columns), table.columns, strict=True):
        if name not in names:
            continue
        kinds = categories_of(cells[name], declared=str(table[column].dtype).lower().startswith(("categor", "enum")))
        if len(kinds) > MOST_CATEGORIES:
            problems.add(
                f"column {name!r}: {len(kinds)} different texts, such as {kinds[0]!r}; at most {MOST_CATEGORIES} can be "
                "categories. Is it an id, a date or free text? Leave it out: name the columns to use as values="
            )
        if kinds:
            found[name] = kinds
    return found


def one_hot(matrix: np.ndarray, names: Sequence[str], categories: Categories) -> tuple[np.ndarray, tuple[str, ...]]:
    """Columns with the numbers of categories as one column for each, 1 or 0, and their names; others as they are.

    >>> one_hot(np.array([[0.0, 7.0], [1.0, 8.0], [np.nan, 9.0]]), ["sex", "age"], {"sex": ("f", "m")})
    (array([[ 1.,  0.,  7.],
           [ 0.,  1.,  8.],
           [nan, nan,  9.]]), ('sex=f', 'sex=m', 'age'))
    """
    parts, made = [], []
    for c, name in enumerate(names):
        column, kinds = matrix[:, c : c + 1], categories.get(name)
        if kinds is not None:
            column = np.where(np.isnan(column), np.nan, column == np.arange(len(kinds)))
        parts.append(column)
        made += [name] if kinds is None else [f"{name}={kind}" for kind in kinds]
    if len(set(made)) < len(made):
        twice = next(name for name in made if made.count(name) > 1)
        raise InputError(f"two channels would be called {twice!r}, a column and a category of another one; rename the column")
    return np.concatenate(parts, axis=1) if categories else matrix, tuple(made)


def yes_no(column: np.ndarray) -> np.ndarray:
    """Cells of yes and no as 1 and 0, missing ones as NaN; any other column as it is.

    >>> yes_no(np.array(["yes", "No", None], object)).tolist()
    [1.0, 0.0, nan]
    """
    if column.dtype.kind not in "OUT":
        return column
    words = [None if gone else str(cell).strip().lower() for cell, gone in zip(column, is_missing(column), strict=True)]
    known = {"yes": 1.0, "no": 0.0, None: np.nan}
    return np.array([known[word] for word in words]) if set(words) <= known.keys() and any(words) else column


def truths(column: np.ndarray) -> np.ndarray:
    """True, false and missing cells as 1, 0 and NaN; any other column as it is."""
    if column.dtype != object or pd.api.types.infer_dtype(column, skipna=True) != "boolean":
        return column
    there = ~is_missing(column)
    found = np.full(len(column), np.nan)
    found[there] = column[there].astype(float)
    return found


def as_cells(array: np.ndarray) -> Any:
    """For pandas, in one row. It would look for numbers among objects, and fail at those that are too large for it."""
    return pd.Series(array.ravel(), dtype=array.dtype if array.dtype == object else None)


def categories_of(column: np.ndarray, *, declared: bool = False) -> tuple[str, ...]:
    """The categories of a column, sorted; none if it is no column of text."""
    if not declared and column.dtype.kind not in "OUT":
        return ()
    try:
        found = pd.unique(as_cells(column).dropna())
    except (TypeError, ValueError):  # lists in cells
        return ()
    if not declared and not all(isinstance(cell, str) for cell in found):
        return ()
    text = sorted({told for cell in found if (told := _category(cell))})
    numeric = [cell for cell in text if not is_missing(pd.to_numeric(cell, errors="coerce")) or re.fullmatch(COMMA, cell)]
    return () if numeric and not declared else tuple(text)


def _category_numbers(column: np.ndarray, name: str, kinds: tuple[str, ...]) -> np.ndarray:
    """The place of each cell among the categories; NaN where there is none, and one beyond where it is another."""
    codes, found = pd.factorize(as_cells(column))
    text = [_category(cell) for cell in found]
    place_of = {kind: float(i) for i, kind in enumerate(kinds)}
    unseen = [cell for cell in text if cell and cell not in place_of]
    if unseen and len(kinds) <= MOST_CATEGORIES:
        rows = int(np.isin(codes, [i for i, cell in enumerate(text) if cell in unseen]).sum())
        message = f"column {name!r}: categories that training did not see, in {rows} rows: {_some(unseen)}; they count as "
        warnings.warn(message + f"none of those known ({_some(kinds)})", LeapWarning, stacklevel=5)
    each = np.array([place_of.get(cell, len(kinds)) if cell else np.nan for cell in text] + [np.nan])
    return each[codes]


def _category(cell: Any) -> str:
    """A cell as the name of a category: 3.0 is "3"; no text is none."""
    whole = isinstance(cell, (float, np.floating)) and float(cell).is_integer()
    return str(int(cell) if whole else cell).strip()


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
