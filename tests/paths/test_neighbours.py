"""The observations around a time, against a loop over channels that looks at one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from leapcde.data.batch import pad
from leapcde.data.read import as_series
from leapcde.paths.neighbours import around, observed_first

SIDE = 3


def samples(rng) -> list:
    made = []
    for length in (1, 4, 9):
        values = rng.normal(size=(length, 2))
        values[rng.random((length, 2)) < 0.4] = np.nan
        made.append((np.cumsum(0.1 + rng.random(length)), values))
    return made


def looked_for(times, values, mask, t):
    """(value, distance) of up to three observations before t, nearest first, and after it; rows at t are both."""
    i = max(np.searchsorted(times, t, side="right") - 1, 0)
    j = min(np.searchsorted(times, t, side="left"), len(times) - 1)
    before = [row for row in range(i, -1, -1) if mask[row]][:SIDE]
    after = [row for row in range(j, len(times)) if mask[row]][:SIDE]
    return [[(values[row], abs(t - times[row])) for row in rows] for rows in (before, after)]


@pytest.mark.parametrize("causal", [False, True])
def test_neighbours_are_those_that_a_loop_finds(causal):
    rng = np.random.default_rng(0)
    obs = pad(as_series(samples(rng)), 10)
    t = np.sort(rng.uniform(-0.5, 6.0, size=(3, 8)), 1).astype(np.float32)
    t[:, 2], t[:, 5] = obs.times[:, 1], obs.times[:, -1]  # at a row, and where padding is
    x, gap, there = map(np.asarray, around(obs, t, SIDE, causal=causal))
    for b, k, c in np.ndindex(3, 8, 2):
        for side, rows in enumerate(looked_for(obs.times[b], obs.values[b, :, c], obs.mask[b, :, c], t[b, k])):
            rows = [] if causal and side else rows
            part = (b, k, slice(side * SIDE, side * SIDE + SIDE), c)
            assert there[part].sum() == len(rows) and there[part][: len(rows)].all()
            found = list(zip(x[part], gap[part], strict=True))[: len(rows)]
            np.testing.assert_allclose(np.reshape(found, (-1, 2)), np.reshape(rows, (-1, 2)), rtol=1e-6, atol=1e-6)


def test_rows_with_an_observation_come_first_in_their_order():
    mask = (np.random.default_rng(0).random((4, 7, 3)) > 0.5).astype(np.float32)
    np.testing.assert_array_equal(observed_first(mask), np.argsort(mask <= 0, axis=1, stable=True))
