"""Two samples, falls of Hopper, and how tests compare series and the problems that an error lists."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.datasets import hopper
from leapcde.errors import InputError

NAN, INF = np.nan, np.inf
TIMES = [[0.0, 1.0, 2.5], [0.5, 4.0]]
VALUES = [[[1.0, 2.0], [3.0, NAN], [5.0, 6.0]], [[7.0, 8.0], [NAN, 10.0]]]


def same(a: Series, b: Series) -> None:
    for name in ("times", "values", "offsets", "target", "static", "ids"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left is None) == (right is None), name
        if left is not None:
            np.testing.assert_array_equal(left, right, err_msg=name)
    assert a.channels == b.channels


def problems(*args, make=as_series, **kwargs) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        make(*args, **kwargs)
    assert "Error" not in str(caught.value)  # no text of another library's exception
    return caught.value.problems or (str(caught.value),)


def fits(found: tuple[str, ...], *needed: tuple[str, ...]) -> None:
    """As many problems as expected, each with its words."""
    assert len(found) == len(needed), found
    for problem, words in zip(found, needed, strict=True):
        assert all(word in problem for word in words), (problem, words)


def falls() -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """48 falls of Hopper at uneven times, two channels with holes; whether the foot falls fast is to be seen from them."""
    rng = np.random.default_rng(0)
    samples, speed = [], []
    for sequence in hopper.bundled()[:48]:
        rows = np.sort(rng.choice(60, 16, replace=False))
        values = sequence[rows][:, [1, 2]].astype(float)
        values[1:][rng.random((15, 2)) < 0.2] = np.nan
        samples.append((0.005 * rows, values))
        speed.append(float(sequence[20, 8]))
    return samples, np.array(speed)


def table_of(samples) -> pd.DataFrame:
    parts = [pd.DataFrame({"id": f"p{i:02d}", "t": t, "height": x[:, 0], "angle": x[:, 1]}) for i, (t, x) in enumerate(samples)]
    return pd.concat(parts, ignore_index=True)
