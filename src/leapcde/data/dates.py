"""Times as people write them -> seconds: dates in any format that can be read in one way only, with or without zones."""

from __future__ import annotations

import warnings
from datetime import datetime
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from leapcde.data.parse import RowName, as_cells, is_missing, masked_problem, numbers, place
from leapcde.errors import LeapWarning, Problems

# A zone stands behind a clock: in 2024-05-01 there is none.
ZONE = r"(?i):\d{2}(?:[.,]\d+)?\s*(Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$"
DATES = ("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%y/%m/%d", "%d-%m-%Y", "%m-%d-%Y")
DATES += ("%d-%m-%y", "%m-%d-%y", "%y-%m-%d", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y")
DATES += ("%d-%b-%Y", "%d-%b-%y", "%d. %B %Y", "%a %b %d %Y", "%a, %d %b %Y")
CLOCKS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p")
HOUR = 3600.0
FIX = "give times as numbers or dates such as 2024-05-01 10:00"
LETTERS = "%d day, %m month, %Y year, %H hour, %M minute, %S second"


def seconds_or_numbers(
    values: Any, where: str, problems: Problems, *, time_format: str | None = None, row_name: RowName | None = None
) -> np.ndarray | None:
    """Times as numbers; dates and durations become seconds, those with a zone in UTC. None where there is a problem.

    Of a column, whose rows have names, it is said that a zone became UTC; of each sample of a list it is not.

    >>> np.diff(seconds_or_numbers(["31/12/2023 23:59", "01/01/2024 00:00"], "times", Problems())).tolist()
    [60.0]
    """
    before = len(problems.found)
    if masked_problem(values, where, problems):
        return None
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.zeros(0, object)
    found = None
    if time_format is not None and array.dtype.kind not in "Mm":
        found = _by_format(array, where, time_format, problems, row_name or place)
    elif array.dtype.kind in "Mm":
        found = _count(array)
    elif array.dtype.kind in "OUT" and array.size and numbers(array, "", Problems(), "") is None:
        found = _dates(array, where, problems, row_name)
    if found is None and len(problems.found) == before:
        found = numbers(values, where, problems, FIX, text_ok=False, row_name=row_name)
    return None if found is None else np.atleast_1d(found).astype(np.float64)


def _count(array: np.ndarray) -> np.ndarray:
    """Seconds of NumPy's dates or durations."""
    count = array.astype(f"{array.dtype.kind}8[us]").astype(np.int64)
    return np.where(np.isnat(array), np.nan, count / 1e6)


def _by_format(array: np.ndarray, where: str, time_format: str, problems: Problems, row_name: RowName) -> np.ndarray | None:
    """Dates in the format that the user names; each cell must fit it."""
    text = _text(array)
    there = np.flatnonzero(text.notna())
    given = f"time_format='{time_format}'"
    try:
        dates = pd.to_datetime(text.iloc[there], format=time_format, errors="coerce", utc=True)
    except ValueError as error:
        problems.add(f"{given} cannot be read ({error}); it is written with: {LETTERS}")
        return None
    wrong = np.flatnonzero(dates.isna())
    if len(wrong):
        i = int(there[wrong[0]])
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        problems.add(f"{where}: {text.iloc[i]!r} in {row_name(i)}{more} does not fit {given}; it is written with: {LETTERS}")
        return None
    return _filled(array.shape, there, _count(dates.to_numpy("datetime64[us]")))


def _dates(array: np.ndarray, where: str, problems: Problems, row_name: RowName | None) -> np.ndarray | None:
    """Dates as text or as Python's objects; None, and perhaps a problem, where they cannot be read."""
    flat = array.ravel()
    there = np.flatnonzero(~is_missing(flat))
    cells = flat[there]
    name = lambda k: (row_name or place)(int(there[k]))
    if all(isinstance(cell, datetime) for cell in cells):
        (local, shift), noted = _of_objects(cells), False  # their owner gave them the zone
    elif all(isinstance(cell, str) for cell in cells):
        (text, shift), noted = _zones(pd.Series(cells.astype(object)).str.strip()), row_name is not None
        local = _local(text, where, problems, name)
    else:
        return None
    if local is None or not _one_zone(shift, where, problems, name, noted):
        return None
    return _filled(array.shape, there, _count(local) - np.nan_to_num(shift))


def _of_objects(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    offsets = [cell.utcoffset() for cell in cells]
    shift = np.array([np.nan if offset is None else offset.total_seconds() for offset in offsets])
    return np.array([cell.replace(tzinfo=None) for cell in cells], "datetime64[us]"), shift


def _zones(text: Any) -> tuple[Any, np.ndarray]:
    """Times without their zones, and by how many seconds these are ahead of UTC, NaN where none is given."""
    zone = text.str.extract(ZONE, expand=False)
    if zone.isna().all():
        return text, np.full(len(text), np.nan)
    bare = [cell.removesuffix(z).strip() if isinstance(z, str) else cell for cell, z in zip(text, zone, strict=True)]
    return pd.Series(bare), _shifts(zone)


def _local(text: Any, where: str, problems: Problems, row_name: RowName) -> np.ndarray | None:
    """Dates without zones; those that can be read in two ways, or not at all, are a problem."""
    readings = _readings(text)
    (first, dates), *others = readings.items()
    if np.isnat(dates).any():
        k = int(np.argmax(np.isnat(dates)))
        problems.add(f"{where}: text ({text.iloc[k]!r}) in {row_name(k)}; {FIX}")
        return None
    for other, also in others:
        differs = np.flatnonzero(dates != also)
        if len(differs):
            k = int(differs[0])
            both = ((first, dates), (other, also))
            ways = " or ".join(f"{day[k].astype('datetime64[D]')} (time_format='{form}')" for form, day in both)
            problems.add(f"{where}: {text.iloc[k]!r} in {row_name(k)} may be {ways}; say which")
            return None
    return dates


def _readings(text: Any) -> dict[str, np.ndarray]:
    """Dates by every format that fits all cells, or by the one that fits most: then some are no dates (NaT)."""
    parse = lambda form: pd.to_datetime(text, format=form, errors="coerce").to_numpy("datetime64[us]")
    found = {"ISO8601": parse("ISO8601")}
    if not np.isnat(found["ISO8601"]).any():
        return found
    forms = [f"{date} {clock}".strip() for date, clock in product(DATES, CLOCKS)]
    forms += [f"{date}T{clock}" for date, clock in product(DATES, CLOCKS[1:])]
    here = text.iloc[0]  # which tells quickly what need not be tried
    found |= {form: parse(form) for form in forms if pd.notna(pd.to_datetime(here, format=form, errors="coerce"))}
    whole = {form: dates for form, dates in found.items() if not np.isnat(dates).any()}
    best = min(found, key=lambda form: np.isnat(found[form]).sum())
    return whole or {best: found[best]}


def _shifts(zone: Any) -> np.ndarray:
    """How many seconds each zone is ahead of UTC, NaN where none is given."""
    digits = zone.str.replace(":", "").str.extract(r"^([+-])(\d{2})(\d{2})?$")
    sign = digits[0].map({"+": 1.0, "-": -1.0})
    shift = sign * (HOUR * digits[1].astype(float) + 60 * digits[2].fillna("0").astype(float))
    return shift.where(digits[0].notna() | zone.isna(), 0.0).to_numpy(float)


def _one_zone(shift: np.ndarray, where: str, problems: Problems, row_name: RowName, noted: bool) -> bool:
    """Whether all times have one zone, give or take summer time, or none has one."""
    without = np.isnan(shift)
    if without.all():
        return True
    if without.any():
        k, m = int(np.argmax(without)), int(np.argmin(without))
        problems.add(f"{where}: {row_name(k)} has no time zone, {row_name(m)} has one; give it everywhere or nowhere")
        return False
    if np.ptp(shift) > HOUR:
        k, m = int(shift.argmin()), int(shift.argmax())
        zones = f"UTC{shift[k] / HOUR:+g} in {row_name(k)}, UTC{shift[m] / HOUR:+g} in {row_name(m)}"
        problems.add(f"{where}: mixed time zones ({zones}); convert all times to one zone")
        return False
    if noted and shift.any():
        ahead = " and ".join(f"UTC{hours:+g}" for hours in np.unique(shift) / HOUR)
        warnings.warn(f"{where}: times in {ahead} are read as UTC", LeapWarning, stacklevel=6)
    return True


def note_whole_dates(found: np.ndarray | None, where: str) -> None:
    """20240501 is a number and would be read as one: from one month to the next it would be 70 days."""
    if found is None or not found.size or not np.all((found > 1900_01_01) & (found < 2100_01_01)):
        return
    text = pd.Series(np.unique(found)).map("{:.12g}".format)
    if not np.isnat(pd.to_datetime(text, format="%Y%m%d", errors="coerce").to_numpy()).any():
        message = f"{where}: {int(found.flat[0])} is read as a number; if it is a date, say time_format='%Y%m%d'"
        warnings.warn(message, LeapWarning, stacklevel=3)


def _text(array: np.ndarray) -> Any:
    """Cells as text, whole numbers without a point; missing ones stay missing."""
    flat = as_cells(array)
    whole = pd.api.types.is_float_dtype(flat) and bool(np.all(flat.dropna() % 1 == 0))
    return (flat.astype("Int64") if whole else flat).astype("string").str.strip()


def _filled(shape: tuple[int, ...], there: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    found = np.full(int(np.prod(shape)), np.nan)
    found[there] = seconds
    return found.reshape(shape)


SINCE_1970 = 1e8  # seconds, from which times can only be dates


def told_time(seconds: float) -> str:
    """A date where seconds can be nothing else, or the number.

    >>> told_time(1.7e9), told_time(2024.5)
    ('2023-11-14 22:13:20', '2024.5')
    """
    if not abs(seconds) >= SINCE_1970:
        return f"{seconds:g}"
    return str(np.datetime64(round(seconds), "s")).replace("T", " ").removesuffix(" 00:00:00")
