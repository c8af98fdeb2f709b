"""Many small text tables with one header, parsed together: pandas' parser once for thousands of files.

The quick way is checked as a whole (every header, the number of separators of every line); only if something is
wrong are the files read again line by line, to say where.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from leapcde.errors import InputError, Problems

MISSING = ("NaN", "nan", "")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", " ": "spaces"}


class Table(NamedTuple):
    """The rows of all files end to end."""

    cells: np.ndarray  # (rows, columns) float32, NaN where a cell is empty
    offsets: np.ndarray  # (files + 1,)
    names: list[str]

    def where(self, row: int) -> str:
        """File and line of a row; line 1 is the header."""
        file = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return f"{self.names[file]}, line {row - self.offsets[file] + 2}"


def read_tables(texts: Sequence[tuple[str, bytes]], columns: Sequence[str]) -> Table:
    """Parse (name, content) pairs that all have the same columns, separated by '|'.

    >>> read_tables([("a.psv", b"x|y\\n1|2\\n3|NaN\\n"), ("b.psv", b"x|y\\n5|6")], ["x", "y"]).cells.tolist()
    [[1.0, 2.0], [3.0, nan], [5.0, 6.0]]
    """
    head = "|".join(columns).encode()
    bodies = [_body(text, head) for _, text in texts]
    names = [name for name, _ in texts]
    if any(body is None for body in bodies):
        raise _explained(texts, columns)
    whole = [body for body in bodies if body is not None]
    joined = b"\n".join(whole)
    if not _even(joined, len(columns) - 1):
        raise _explained(texts, columns)
    try:
        cells = _numbers(joined, columns)
    except ValueError:
        raise _explained(texts, columns) from None
    if np.isinf(cells).any():
        raise _explained(texts, columns)
    lengths = [body.count(b"\n") + 1 for body in whole]
    return Table(cells, np.concatenate([[0], np.cumsum(lengths)]), names)


def _body(text: bytes, head: bytes) -> bytes | None:
    """The lines after the header, without an end of line at the end; None if the header is another, or nothing follows."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    first, _, rest = text.partition(b"\n")
    rest = rest.rstrip(b"\n")
    return rest if first == head and rest else None


def _even(joined: bytes, separators: int) -> bool:
    """Whether every line has the same number of separators. Neither parser nor eye notices a line that is cut off."""
    raw = np.frombuffer(joined, np.uint8)
    marks = np.flatnonzero((raw == ord("|")) | (raw == ord("\n")))
    ends = np.flatnonzero(raw[marks] == ord("\n"))
    counts = np.diff(np.concatenate([[-1], ends, [len(marks)]])) - 1
    return bool((counts == separators).all())


def _numbers(joined: bytes, columns: Sequence[str]) -> np.ndarray:
    with np.errstate(over="ignore"):  # a number too large becomes infinite, which is found and named later
        table = pd.read_csv(
            io.BytesIO(joined),
            sep="|",
            header=None,
            names=list(columns),
            dtype=np.float32,
            keep_default_na=False,
            na_values=list(MISSING),
            skip_blank_lines=False,
            quoting=3,
            engine="c",
        )
    return table.to_numpy()


def _explained(texts: Sequence[tuple[str, bytes]], columns: Sequence[str]) -> InputError:
    """The error that lists what is wrong in which line, found by reading slowly."""
    problems = Problems()
    for name, text in texts:
        for number, problem in _wrong(text, columns):
            problems.add(f"{name}, line {number}: {problem}")
    return InputError("cannot read the tables", problems.found or [f"{texts[0][0]} and those after it: not numbers"])


def _wrong(text: bytes, columns: Sequence[str]) -> list[tuple[int, str]]:
    try:
        lines = text.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        return [(text[: error.start].count(b"\n") + 1, "not plain text; download it again")]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return [(1, "the file is empty")]
    if problem := _wrong_header(lines[0], columns):
        return [(1, problem)]
    if len(lines) == 1:
        return [(1, "no rows follow the header")]
    checked = ((number, _wrong_row(line, columns)) for number, line in enumerate(lines[1:], 2))
    return [(number, problem) for number, problem in checked if problem]


def _wrong_header(line: str, columns: Sequence[str]) -> str:
    found = line.split("|")
    if found == list(columns):
        return ""
    for mark, word in SEPARATORS.items():
        if line.split(mark) == list(columns):
            return f"the columns are separated by {word}; write '|'"
    missing = [name for name in columns if name not in found]
    extra = [name for name in found if name not in columns]
    kinds = {"no column": missing, "unknown": extra}
    parts = [f"{word} {', '.join(map(repr, names[:5]))}" for word, names in kinds.items() if names]
    return f"the header is another one ({'; '.join(parts) or 'columns repeated or in another order'})"


def _wrong_row(line: str, columns: Sequence[str]) -> str:
    cells = line.split("|")
    if len(cells) != len(columns):
        return f"{len(cells)} cells, expected {len(columns)}"
    for name, cell in zip(columns, cells, strict=True):
        if cell not in MISSING and not _is_finite(cell):
            return f"column {name!r}: {cell[:30]!r} is not a finite number; missing is NaN"
    return ""


def _is_finite(cell: str) -> bool:
    try:
        return abs(float(cell)) <= float(np.finfo(np.float32).max)
    except ValueError:
        return False
