"""Read `.ts`, the text format of the UEA/UCR time-series archive.

A header of `@` lines, then one case a line: dimensions separated by `:`, values by `,`, the class label last.
Series may differ in length from case to case, never between the dimensions of one case. The header is checked
against the data, because a file that contradicts itself was usually cut off or put together by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from leapcde.errors import InputError, Problems

UEA = "https://www.timeseriesclassification.com/aeon-toolkit"  # where the archive's zips are


class Cases(NamedTuple):
    """What a file holds: one array (time, channel) a case, and one label a case: text, a number under @targetLabel, or None."""

    values: list[np.ndarray]
    labels: np.ndarray | None


class Header(NamedTuple):
    """What the `@` lines promise; None where they say nothing."""

    dimensions: int | None
    labels: frozenset[str] | None
    labelled: bool
    numbers: bool
    size: int  # lines up to and including @data


def read_ts(path: str | Path) -> Cases:
    """Read a `.ts` file.

    >>> values, labels = read_ts("BasicMotions_TRAIN.ts")  # doctest: +SKIP
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_ts(content, str(path))


def parse_ts(text: str | bytes, name: str = "<text>") -> Cases:
    """Parse the content of a `.ts` file; `name` stands for the file in errors.

    >>> values, labels = parse_ts("@classLabel true a b\\n@data\\n1,2,3:4,?,6:a\\n7,8:9,10:b")
    >>> values[0].tolist(), labels.tolist()
    ([[1.0, 4.0], [2.0, nan], [3.0, 6.0]], ['a', 'b'])
    """
    lines = _decode(text, name).splitlines()
    if not any(line.strip() for line in lines):
        raise InputError(f"{name} is empty; download it again")
    header = _header(lines, name)
    problems = Problems()
    values: list[np.ndarray] = []
    labels: list[str] = []
    for number, line in enumerate(lines[header.size :], header.size + 1):
        if line.strip() and line[0] not in "#%":
            try:
                block, label = _case(line, header)
            except ValueError as error:
                problems.add(f"{name}, line {number}: {error}")
                continue
            if header.dimensions is None:  # without @dimensions the first case sets the number
                header = header._replace(dimensions=block.shape[1])
            values.append(block)
            labels.append(label)
    problems.raise_if_any(f"cannot read {name}")
    if not values:
        raise InputError(f"{name} has no cases after @data (line {header.size}); download it again")
    kind = float if header.numbers else str
    return Cases(values, np.array(labels, dtype=kind) if header.labelled else None)


def _decode(text: str | bytes, name: str) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise InputError(f"{name}, line {line}: not UTF-8 text; save the file as UTF-8") from error


def _header(lines: list[str], name: str) -> Header:
    dimensions, labels, labelled, numbers = None, None, True, False
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0][0] in "#%":
            continue
        where = f"{name}, line {number}"
        if not words[0].startswith("@"):
            raise InputError(f"{where}: expected a header line (@…) or @data, found {line[:30]!r}")
        tag, rest = words[0].lower(), words[1:]
        if tag == "@data":
            return Header(dimensions, labels, labelled, numbers, number)
        if tag == "@dimensions":
            dimensions = _dimensions(rest, where)
        elif tag == "@univariate" and _says(rest, "true"):
            dimensions = 1
        elif tag == "@timestamps" and _says(rest, "true"):
            raise InputError(f"{where}: files with time stamps are not supported; write one value a time step")
        elif tag == "@classlabel":
            labelled = not _says(rest, "false")
            labels = frozenset(rest[1:]) or None
        elif tag == "@targetlabel":
            labelled = numbers = _says(rest, "true")
    raise InputError(f"{name} has no @data line; the file is cut off, or not a .ts file")


def _says(words: list[str], what: str) -> bool:
    return bool(words) and words[0].lower() == what


def _dimensions(words: list[str], where: str) -> int:
    if len(words) != 1 or not words[0].isdecimal() or int(words[0]) == 0:
        raise InputError(f"{where}: @dimensions needs one positive whole number, found {' '.join(words)!r}")
    return int(words[0])


def _case(line: str, header: Header) -> tuple[np.ndarray, str]:
    """Values (time, channel) and label of one line; a ValueError says what is wrong with it."""
    parts = line.split(":")
    label = parts.pop().strip() if header.labelled else ""
    if header.labelled and (not parts or not label):
        raise ValueError("no class label at the end of the line; the line is cut off, or the header is wrong")
    if header.labels is not None and label not in header.labels:
        raise ValueError(f"class label {label[:30]!r} is not among those of @classLabel")
    if header.numbers and not (_is_number(label) and np.isfinite(float(label))):
        raise ValueError(f"target {label[:30]!r} is not a finite number, as @targetLabel promises")
    if header.dimensions is not None and len(parts) != header.dimensions:
        raise ValueError(f"{len(parts)} dimensions, expected {header.dimensions} as in @dimensions or the first case")
    columns = [_numbers(part, i) for i, part in enumerate(parts, 1)]
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"dimensions have {', '.join(map(str, lengths))} values; all of a case need the same number")
    return np.stack(columns, axis=1), label


def _numbers(part: str, dimension: int) -> np.ndarray:
    tokens = part.replace("?", "nan").split(",")
    try:
        return np.array(tokens, dtype=float)
    except ValueError:
        if not part.strip():
            raise ValueError(f"dimension {dimension} has no values") from None
        token = next(token for token in tokens if not _is_number(token))
        raise ValueError(f"dimension {dimension}: {token.strip()[:30]!r} is not a number; missing is ?") from None


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True
