"""Made-up data whose truth is known: for examples that need no download, and to test what learns from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from leapcde.data.read import as_series
from leapcde.data.series import Series

LONGEST = 12.0  # months that a patient was watched at most before the question is asked
STEP = 0.05  # months between points of what cannot be seen
FADES = 4.0  # months in which the weight of what was measured before falls by e
LAST = 24.0  # months after which everybody still without an event leaves


@dataclass(frozen=True, eq=False)
class Patients:
    """Simulated patients: what was measured of them, what happened then, and what was to be expected."""

    series: Series  # target: rows of (event, months after the last row)
    now: np.ndarray  # (sample,): the part of log risk that fades with time
    always: np.ndarray  # (sample,): the part that stays

    def survival(self, times: np.ndarray) -> np.ndarray:
        """The true probability of no event so long after the last row: (sample, time)."""
        return np.exp(-self._so_far(times))

    def _so_far(self, times: np.ndarray) -> np.ndarray:
        """The hazard added up to each time."""
        fine = np.linspace(0.0, max(float(np.max(times)), STEP), 2001)
        return np.stack([np.interp(times, fine, row) for row in _summed(self.now, self.always, fine)])

    @property
    def risk(self) -> np.ndarray:
        """The true risk: the hazard added up over the first six months."""
        return self._so_far(np.array([6.0]))[:, 0]

    def table(self) -> pd.DataFrame:
        """The same as a file has it: a row for each visit; "dead" and "months" are repeated on all rows of a patient."""
        series, owner = self.series, self.series.owner
        columns = {"patient": owner, "month": series.times.round(3)}
        columns |= {name: series.values[:, c].round(3) for c, name in enumerate(series.channels)}
        target = np.asarray(series.target)[owner]
        static = np.asarray(series.static)[owner, 0]
        return pd.DataFrame(
            {**columns, "age": static.round(1), "dead": target[:, 0].astype(int), "months": target[:, 1].round(3)}
        )


def patients(samples: int = 500, seed: int = 0) -> Patients:
    """Patients with irregular visits. Three of their values are measured, now and then; two of them drive the hazard.

    The hazard after the last visit rises with the recent level of "marker", with "strain" where the marker is high, and
    with age. How much the marker matters fades with time, so hazards are not proportional. Half of
    them leave, or have had none after two years.

    >>> found = patients(200)
    >>> found.series.channels, round(float(found.series.target[:, 0].mean()), 1)
    (('marker', 'strain', 'weight'), 0.5)
    """
    rng = np.random.default_rng(seed)
    grid = np.arange(0.0, LONGEST + STEP / 2, STEP)
    marker, strain = (_wandering(rng, samples, grid, pull) for pull in (0.3, 0.6))
    ends = rng.uniform(4.0, LONGEST, samples)
    place = np.round(ends / STEP).astype(int)
    row = np.arange(samples)
    recent = _recent(marker, grid, ends)
    age = rng.normal(60.0, 10.0, samples)
    now, always = (
        1.3 * recent + 0.8 * marker[row, place],
        0.8 * np.maximum(recent, 0.0) * strain[row, place] + 0.04 * (age - 60),
    )
    time = _times(rng, now, always)
    leaves = np.minimum(rng.exponential(30.0, samples), LAST)
    target = np.stack([(time <= leaves).astype(float), np.minimum(time, leaves)], 1)
    weight = 70 + 10 * rng.normal(size=(samples, 1)) + np.zeros(len(grid))
    hidden = np.stack([100 + 20 * marker, 5 + strain, weight], -1)
    pairs = [_visits(rng, hidden[i], grid, int(place[i])) for i in range(samples)]
    series = as_series(pairs, target=target, static=age[:, None], channels=["marker", "strain", "weight"])
    return Patients(series, now, always)


def _wandering(rng: np.random.Generator, samples: int, grid: np.ndarray, pull: float) -> np.ndarray:
    """Values that wander around 0 with a deviation of 1, the faster back the stronger the pull: (sample, time)."""
    found = np.empty((samples, len(grid)))
    found[:, 0] = rng.normal(size=samples)
    stay = np.exp(-pull * STEP)
    for k in range(1, len(grid)):
        found[:, k] = stay * found[:, k - 1] + np.sqrt(1 - stay**2) * rng.normal(size=samples)
    return found


def _recent(values: np.ndarray, grid: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The mean up to each sample's end, in which what is long ago counts less."""
    age = ends[:, None] - grid
    weight = np.where(age >= 0, np.exp(-np.maximum(age, 0.0) / FADES), 0.0)
    return np.sum(weight * values, 1) / weight.sum(1)


def _hazard(now: np.ndarray, always: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(sample, time), in events a month."""
    return 0.05 * np.exp(now[:, None] * np.exp(-times / 10.0) + always[:, None])


def _summed(now: np.ndarray, always: np.ndarray, fine: np.ndarray) -> np.ndarray:
    hazard = _hazard(now, always, fine)
    steps = np.diff(fine) * (hazard[:, 1:] + hazard[:, :-1]) / 2
    return np.concatenate([np.zeros((len(hazard), 1)), np.cumsum(steps, 1)], 1)


def _times(rng: np.random.Generator, now: np.ndarray, always: np.ndarray) -> np.ndarray:
    """When the event comes: where the hazard so far has added up to a random amount."""
    fine = np.linspace(0.0, LAST + STEP, 2001)
    amount = rng.exponential(size=len(now))
    return np.array([np.interp(a, row, fine, right=np.inf) for a, row in zip(amount, _summed(now, always, fine), strict=True)])


def _visits(rng: np.random.Generator, hidden: np.ndarray, grid: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of one patient: about one visit in a month, the last one at the end, and a third not measured."""
    count = max(2, rng.poisson(end * STEP))
    rows = np.unique(np.append(rng.integers(0, end, count), end))
    values = hidden[rows] + rng.normal(size=(len(rows), hidden.shape[1])) * [4.0, 0.3, 1.0]
    holes = rng.random(values.shape) < 0.33
    holes[rng.integers(len(rows), size=3), np.arange(3)] = False  # nobody is without any
    return grid[rows], np.where(holes, np.nan, values)
