"""Standardised values, and times in typical gaps; learned from training data only."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from leapcde.data.series import Series
from leapcde.errors import InputError

BLOCK = 2**16  # rows


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

    @classmethod
    def fit(cls, series: Series) -> Scaler:
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
            scaled[start : start + BLOCK] = (values[start : start + BLOCK] - mean) / std
        return scaled

    def unscale(self, values: np.ndarray) -> np.ndarray:
        return values.astype(np.float64) * np.array(self.std) + np.array(self.mean)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Scaler:
        """What `to_json` wrote; what no data could have taught is refused."""
        lists = {key: tuple(map(float, value)) for key, value in data.items() if key != "time_unit"}
        found = cls(time_unit=float(data["time_unit"]), **lists)
        scales = np.array([found.time_unit, *found.std, *found.static_std])
        sound = len(found.mean) == len(found.std) and len(found.static_mean) == len(found.static_std)
        if (
            not sound
            or not np.isfinite([*found.mean, *found.static_mean]).all()
            or not ((scales > 0) & (scales < np.inf)).all()
        ):
            raise InputError(
                "means must be finite, deviations and the unit of time above 0, and as many of one as of the other"
            )
        return found


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
