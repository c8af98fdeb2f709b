"""Standardised values, and times in typical gaps; learned from training data only."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from leapcde.data.series import Series, name_of
from leapcde.data.store.mapped import alike, is_mapped, let_go
from leapcde.errors import InputError, LeapWarning

BLOCK = 2**16  # rows
TAIL = 0.005  # share of a channel's values at each end that does not say how far the others spread
WILD = 10.0  # spreads from the median at which a value may be wild
ENOUGH = 2**22  # rows from which the shape of a channel is known well enough
FEW = 0.001  # share of values that may be
TWICE = 2.0  # a wild value is one of those that alone make the deviation so many times larger


@dataclass(frozen=True)
class Scaler:
    """Mean and deviation of each channel, and the typical gap between observations. Learned from training data only.

    >>> from leapcde.data.read import as_series
    >>> scaler = Scaler.fit(as_series([([0, 2, 4], [1.0, 2.0, 3.0])]))
    >>> scaler.mean, scaler.time_unit
    ((2.0,), 2.0)
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    time_unit: float
    static_mean: tuple[float, ...] = ()
    static_std: tuple[float, ...] = ()
    low: tuple[float, ...] = ()  # of each channel, where training data had wild values: what lies beyond is taken for it
    high: tuple[float, ...] = ()

    @classmethod
    def fit(cls, series: Series, *, robust: bool = False) -> Scaler:
        """From training data. `robust` leaves out a few wild values that alone would set the scale, and says so."""
        wild = _wild(series) if robust else {}
        tame = lambda: (_tamed(part.values, wild) for part in series.blocks())
        mean, std = _moments(tame)
        static = series.static
        s_mean, s_std = ((), ()) if static is None else _moments(lambda: [static])
        low, high = _range(tame, wild, len(mean)) if wild else ((), ())
        return cls(mean, std, _typical_gap(series), s_mean, s_std, low, high)

    def apply(self, series: Series) -> Series:
        """Standardised values; times in typical gaps since each sample's start; missing statics at their mean."""
        starts = np.repeat(series.times[series.offsets[:-1]], series.lengths)
        static = None
        if series.static is not None:
            static = (series.static - np.array(self.static_mean)) / np.array(self.static_std)
            static = np.nan_to_num(static).astype(np.float32)
        return replace(
            series,
            values=self.scale(series.values),
            times=(series.times - starts) / self.time_unit,
            static=static,
        )

    def scale(self, values: np.ndarray) -> np.ndarray:
        """In double precision, and block by block: a whole data set in doubles would be the largest thing in memory."""
        scaled, mean, std = np.empty(values.shape, np.float32), np.array(self.mean), np.array(self.std)
        for start in range(0, len(values), BLOCK):
            block = values[start : start + BLOCK]
            block = np.clip(block, np.array(self.low), np.array(self.high)) if self.low else block
            scaled[start : start + BLOCK] = (block - mean) / std
        return scaled

    def unscale(self, values: np.ndarray) -> np.ndarray:
        return values.astype(np.float64) * np.array(self.std) + np.array(self.mean)

    def to_json(self) -> dict[str, Any]:
        """Without limits where there are none: as it was before there could be."""
        return {key: value for key, value in asdict(self).items() if value or key not in ("low", "high")}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Scaler:
        """What `to_json` wrote; what no data could have taught is refused."""
        lists = {key: tuple(map(float, value)) for key, value in data.items() if key != "time_unit"}
        found = cls(time_unit=float(data["time_unit"]), **lists)
        scales = np.array([found.time_unit, *found.std, *found.static_std])
        sound = (
            len(found.mean) == len(found.std)
            and len(found.low) == len(found.high) in (0, len(found.mean))
            and len(found.static_mean) == len(found.static_std)
            and all(low < high for low, high in zip(found.low, found.high, strict=True))
        )
        if (
            not sound
            or not np.isfinite([*found.mean, *found.static_mean]).all()
            or not ((scales > 0) & (scales < np.inf)).all()
        ):
            raise InputError(
                "means must be finite, deviations and the unit of time above 0, and as many of one as of the other"
            )
        return found


Wild = dict[int, tuple[float, float]]  # of channels with wild values: the median, and how far from it they begin


def _wild(series: Series) -> Wild:
    """Values so far from all others, and so few, that nothing but a slip explains them; of each channel one is named."""
    found: Wild = {}
    columns = _columns(series)
    for c, column in enumerate(columns):
        seen = column[~np.isnan(column)].astype(np.float64)
        let_go(columns)
        if len(seen) >= 4 and (far := _far(seen)):
            found[c] = float(np.median(seen)), far
    for c, limits in found.items():
        _name_wild(series, c, *limits)
    return found


def _columns(series: Series) -> np.ndarray:
    """(channel, row): values of every row, or of so many that they are enough to know the channels by."""
    step = -(-len(series.times) // ENOUGH) or 1
    rows = series.values[::step]
    if not is_mapped(rows):
        return rows.T
    columns = alike(series.values, rows.shape[::-1])
    for start in range(0, len(rows), BLOCK):
        columns[:, start : start + BLOCK] = rows[start : start + BLOCK].T
        let_go(rows, columns)
    return columns


def _name_wild(series: Series, c: int, median: float, far: float) -> None:
    """Say which value of a channel is the wildest, and how many there are."""
    most, row, count, done = 0.0, 0, 0, 0
    for part in series.blocks():
        away = np.nan_to_num(np.abs(part.values[:, c].astype(np.float64) - median))
        count += int((away > far).sum())
        if away.max() > most:
            most, row = float(away.max()), done + int(away.argmax())
        done += len(away)
    i = int(np.searchsorted(series.offsets, row, side="right")) - 1
    more = f" and {count - 1} more" if count > 1 else ""
    value, place = float(series.values[row, c]), row - int(series.offsets[i])
    where = f"channel {series.channels[c]!r}: {value:g} in {name_of(series, i)}, position {place}{more}"
    message = f"{where} would set the scale of all others; it is left out of mean and deviation, and held at the others' edge"
    warnings.warn(f"{message}. Use NaN if it means nothing", LeapWarning, stacklevel=6)


def _tamed(values: np.ndarray, wild: Wild) -> np.ndarray:
    """The values with NaN for those that are wild."""
    if not wild:
        return values
    found = values.copy()
    for c, (median, far) in wild.items():
        found[np.abs(values[:, c].astype(np.float64) - median) > far, c] = np.nan
    return found


def _far(seen: np.ndarray) -> float:
    """The distance from the median beyond which values are wild; 0 if none are."""
    count = len(seen)
    end = max(1, int(TAIL * count))
    inner = np.partition(seen, (end, count - 1 - end))
    far = WILD * float(inner[count - 1 - end] - inner[end])
    wild = np.abs(seen - np.median(seen)) > far
    if not far or not wild.any() or wild.sum() > max(1, FEW * count):
        return 0.0  # also where most values are one and the same, as in channels of yes and no
    with np.errstate(over="ignore"):
        return far if seen.std() > TWICE * seen[~wild].std() else 0.0


def _range(parts: Callable[[], Iterable[np.ndarray]], wild: Wild, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """As far as the others of a channel with wild values go, and half as far again: new ones may go a little further."""
    low, high = np.full(channels, -1e300), np.full(channels, 1e300)
    for c in wild:
        ends = [(np.nanmin(v[:, c]), np.nanmax(v[:, c])) for v in parts() if not np.isnan(v[:, c]).all()]
        least, most = float(min(end[0] for end in ends)), float(max(end[1] for end in ends))
        low[c], high[c] = least - (most - least) / 2, most + (most - least) / 2
    return tuple(map(float, low)), tuple(map(float, high))


def _moments(parts: Callable[[], Iterable[np.ndarray]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each column, of rows that come in parts."""
    count, total, squares = (np.zeros(1) for _ in range(3))
    for values in parts():
        seen = ~np.isnan(values)
        if np.abs(values, where=seen, out=np.zeros(values.shape)).max(initial=0.0) > 1e150:
            raise InputError(
                "values above 1e150 are too large to be standardised; use other units, or NaN if they mean nothing"
            )
        count, total = count + seen.sum(0), total + np.where(seen, values, 0.0).astype(np.float64).sum(0)
    mean = total / np.maximum(count, 1)
    for values in parts():
        squares = squares + (np.where(np.isnan(values), 0.0, values.astype(np.float64) - mean) ** 2).sum(0)
    std = np.sqrt(squares / np.maximum(count, 1))
    # A constant channel carries no scale of its own; dividing by one leaves it at zero. What counts as constant is
    # relative: a channel in small units, such as farads, varies too.
    std = np.where(std <= 1e-12 * np.abs(mean), 1.0, std)
    return tuple(map(float, mean)), tuple(map(float, std))


def _typical_gap(series: Series) -> float:
    """The median of the gaps between rows, or of every so manieth of them where there are very many."""
    step = -(-len(series.times) // ENOUGH) or 1
    gaps = [np.diff(part.times)[np.diff(part.owner) == 0][::step] for part in series.blocks()]
    found = np.concatenate(gaps) if gaps else np.zeros(0)
    return float(np.median(found)) if len(found) else 1.0
