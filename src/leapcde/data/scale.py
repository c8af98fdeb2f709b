"""Standardised values, and times in typical gaps; learned from training data only."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from leapcde.data.series import Series, name_of
from leapcde.errors import InputError, LeapWarning

BLOCK = 2**16  # rows
TAIL = 0.005  # share of a channel's values at each end that does not say how far the others spread
WILD = 10.0  # spreads from the median at which a value may be wild
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
        wild = _wild(series) if robust else np.zeros(0, bool)
        if wild.any():
            values = np.where(wild, np.nan, series.values)
            found, (low, high) = cls.fit(replace(series, values=values)), _range(values, np.asarray(wild.any(0)))
            return replace(found, low=low, high=high)
        mean, std = _moments(series.values)
        s_mean, s_std = _moments(series.static) if series.static is not None else ((), ())
        return cls(mean, std, _typical_gap(series), s_mean, s_std)

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


def _wild(series: Series) -> np.ndarray:
    """Values so far from all others, and so few, that nothing but a slip explains them; of each channel one is named."""
    found = np.zeros(series.values.shape, bool)
    for c, name in enumerate(series.channels):
        column = series.values[:, c].astype(np.float64)
        seen = column[~np.isnan(column)]
        if len(seen) < 4 or not (far := _far(seen)):
            continue
        away = np.nan_to_num(np.abs(column - np.median(seen)))
        found[:, c] = away > far
        row = int(np.argmax(away))
        i = int(np.searchsorted(series.offsets, row, side="right")) - 1
        more = f" and {int(found[:, c].sum()) - 1} more" if found[:, c].sum() > 1 else ""
        where = f"channel {name!r}: {column[row]:g} in {name_of(series, i)}, position {row - int(series.offsets[i])}{more}"
        message = (
            f"{where} would set the scale of all others; it is left out of mean and deviation, and held at the others' edge"
        )
        warnings.warn(f"{message}. Use NaN if it means nothing", LeapWarning, stacklevel=5)
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


def _range(values: np.ndarray, wild: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """As far as the others of a channel with wild values go, and half as far again: new ones may go a little further."""
    low, high = np.full(len(wild), -1e300), np.full(len(wild), 1e300)
    for c in np.flatnonzero(wild):
        least, most = float(np.nanmin(values[:, c])), float(np.nanmax(values[:, c]))
        low[c], high[c] = least - (most - least) / 2, most + (most - least) / 2
    return tuple(map(float, low)), tuple(map(float, high))


def _moments(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    seen = ~np.isnan(values)
    if np.abs(values, where=seen, out=np.zeros(values.shape)).max(initial=0.0) > 1e150:
        raise InputError("values above 1e150 are too large to be standardised; use other units, or NaN if they mean nothing")
    count = np.maximum(seen.sum(0), 1)
    filled = np.where(seen, values, 0.0).astype(np.float64)
    mean = filled.sum(0) / count
    std = np.sqrt((np.where(seen, filled - mean, 0.0) ** 2).sum(0) / count)
    # A constant channel carries no scale of its own; dividing by one leaves it at zero. What counts as constant is
    # relative: a channel in small units, such as farads, varies too.
    std = np.where(std <= 1e-12 * np.abs(mean), 1.0, std)
    return tuple(map(float, mean)), tuple(map(float, std))


def _typical_gap(series: Series) -> float:
    same = np.diff(series.owner) == 0
    gaps = np.diff(series.times)[same]
    return float(np.median(gaps)) if len(gaps) else 1.0
