from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

from leapcde.data.batch import Padded, pad
from leapcde.data.drop import drop
from leapcde.data.read import as_series
from leapcde.datasets import character_trajectories
from leapcde.errors import InputError
from leapcde.paths import interpolation as paths
from leapcde.paths.interpolation import INTERPOLATIONS
from leapcde.paths.transform import averaged, clock_path

# As one program: step by step, each operation would be compiled by itself.
fit_path = jax.jit(paths.fit_path, static_argnames=("interpolation", "time_channel", "intensity"))


def observations(seed: int, batch_size=4, length=17, channels=3, keep=0.5, padding=0, gaps=(0.05, 2.0)) -> Padded:
    """Irregular times, missing values, and the hard cases: a channel with no, one and two observations."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(*gaps, (batch_size, length)), 1)
    mask = (rng.random((batch_size, length, channels)) < keep).astype(float)
    mask[0, :, 0] = 0
    mask[1, :, 0] = 0
    mask[1, length // 2, 0] = 1
    mask[2, :, 0] = 0
    mask[2, [3, 9], 0] = 1
    values = rng.normal(size=mask.shape) * mask
    times = np.pad(times, ((0, 0), (0, padding)), mode="edge")
    values, mask = (np.pad(a, ((0, 0), (0, padding), (0, 0))) for a in (values, mask))
    return Padded(times, values, mask, None, None, None)


def oracle(times, values, seen, queries):
    """SciPy through the observed points, held constant outside them."""
    if not seen.any():
        return np.zeros_like(queries), np.zeros_like(queries)
    t, x = times[seen], values[seen]
    if len(t) == 1:
        return np.full_like(queries, x[0]), np.zeros_like(queries)
    spline = CubicSpline(t, x, bc_type="natural")
    inside = (queries > t[0]) & (queries < t[-1])
    return spline(np.clip(queries, t[0], t[-1])), np.where(inside, spline(queries, 1), 0.0)


@pytest.mark.parametrize("padding", [pytest.param(0, marks=pytest.mark.slow), 6])
@given(seed=st.integers(0, 10_000), keep=st.sampled_from([0.2, 0.5, 1.0]))
def test_natural_cubic_equals_scipy(seed, keep, padding):
    with jax.enable_x64(True):
        obs = observations(seed, keep=keep, padding=padding)
        path = fit_path(obs, "natural", time_channel=False)
        queries = np.random.default_rng(seed).uniform(obs.times.min() - 1, obs.times.max() + 1, (4, 50))
        value, speed = np.asarray(path.evaluate(jnp.asarray(queries))), np.asarray(path.derivative(jnp.asarray(queries)))
    for b in range(4):
        for c in range(3):
            want = oracle(obs.times[b], obs.values[b, :, c], obs.mask[b, :, c] > 0, queries[b])
            np.testing.assert_allclose(value[b, :, c], want[0], atol=1e-6)
            np.testing.assert_allclose(speed[b, :, c], want[1], atol=1e-6)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_passes_through_observations(interpolation):
    obs = observations(1, keep=0.7)
    path = fit_path(obs, interpolation, time_channel=True)
    found = np.asarray(path.evaluate(jnp.asarray(obs.times)))
    np.testing.assert_allclose((found[..., 1:] - obs.values)[obs.mask > 0], 0, atol=1e-5)
    np.testing.assert_allclose(found[..., 0], obs.times, rtol=1e-6)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_padding_adds_only_pieces_that_stand_still(interpolation):
    short, long = (fit_path(observations(2, padding=p), interpolation, intensity=True) for p in (0, 5))
    pieces = short.left.shape[1]
    u = jnp.full((4, long.left.shape[1], 1), 0.3)
    slopes = long.slope(slice(None), u)
    np.testing.assert_allclose(slopes[:, :pieces], short.slope(slice(None), u[:, :pieces]), atol=1e-5)
    assert np.all(np.asarray(slopes[:, pieces:]) == 0)
    assert np.all(np.asarray(long.values[:, pieces:]) == np.asarray(short.values[:, -1:]))


@pytest.mark.parametrize("interpolation", ["hermite", "rectilinear"])
def test_causal_paths_do_not_know_the_future(interpolation):
    """Changing everything after observation 8 leaves the path up to it as it was."""
    obs = observations(3, keep=0.6)
    cut = 8
    changed = obs._replace(values=np.where(np.arange(17)[None, :, None] > cut, obs.mask * 99.0, obs.values))
    pieces = cut * (2 if interpolation == "rectilinear" else 1)
    u = jnp.linspace(0.0, 1.0, 7)[:, None, None, None]
    paths = [fit_path(o, interpolation) for o in (obs, changed)]
    before, after = (jax.vmap(lambda v, p=p: p.slope(slice(None), v))(u) for p in paths)
    assert np.array_equal(before[:, :, :pieces], after[:, :, :pieces])
    assert not np.array_equal(before, after)


@pytest.mark.parametrize("interpolation", ["natural", "linear"])
def test_the_others_do(interpolation):
    obs = observations(3, keep=0.6)
    changed = obs._replace(values=np.where(np.arange(17)[None, :, None] > 8, obs.mask * 99.0, obs.values))
    assert not np.array_equal(fit_path(obs, interpolation).left[:, :8], fit_path(changed, interpolation).left[:, :8])


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_slope_is_the_derivative_of_the_piece(interpolation):
    path = fit_path(observations(4), interpolation, intensity=True)
    everything = slice(None)
    for u in (0.2, 0.7):
        numeric = (path.piece(everything, u + 1e-2) - path.piece(everything, u - 1e-2)) / 2e-2
        np.testing.assert_allclose(path.slope(everything, u), numeric, atol=2e-3)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_integral_is_the_area_below(interpolation):
    """Against many thin strips, also where a path jumps and where padding stands still."""
    path = fit_path(observations(4, padding=3), interpolation, intensity=True)
    start, end = np.asarray(path.times[:, :1]), np.asarray(path.times[:, -1:])
    share = np.array([0.0, 0.13, 0.5, 0.87, 1.0])
    middles = (np.arange(20_000) + 0.5) / 20_000
    X = np.asarray(path.evaluate(jnp.asarray(start + (end - start) * middles)))
    want = np.stack([X[:, : round(20_000 * s)].sum(1) for s in share], 1) * ((end - start) / 20_000)[..., None]
    np.testing.assert_allclose(path.integral(jnp.asarray(start + (end - start) * share)), want, atol=2e-2, rtol=2e-4)


def test_means_keep_what_is_straight_and_lose_what_jitters():
    """Time moves on evenly, a zigzag of ±1 nearly vanishes; a sample of one row stays where it is."""
    zigzag = pad(as_series([([*range(161)], [(-1.0) ** i for i in range(161)]), ([0.0], [7.0])]))
    path = fit_path(zigzag, "linear")
    mean = averaged(path, clock_path(path.times, 1.0, 32))
    np.testing.assert_allclose(mean.values[0, 1:-1, 0], np.linspace(5, 155, 31), rtol=1e-5)
    assert abs(np.asarray(mean.values[0, :, 1])).max() < 0.21 and np.all(np.asarray(mean.values[1, :, 1]) == 7.0)


def test_intensity_counts_observations():
    obs = pad(as_series([([0, 1, 2], [[1.0, np.nan], [np.nan, 2.0], [3.0, 4.0]])]))
    path = fit_path(obs, "linear", intensity=True)
    assert path.values[0, :, 1:3].tolist() == [[1, 0], [1, 1], [2, 2]]


def test_controls_are_laid_out_by_step_and_stage():
    path = fit_path(observations(5), "natural")
    controls = path.controls((0.0, 0.5), substeps=3)
    assert controls.shape == (16 * 3, 2, 4, 4)
    np.testing.assert_allclose(controls[7, 1], path.slope(slice(None), (1 + 0.5) / 3)[:, 2], rtol=1e-5)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_a_single_observation_is_a_constant_path(interpolation):
    path = fit_path(pad(as_series([([3.0], [[5.0, np.nan]])])), interpolation, intensity=True)
    assert np.all(np.asarray(path.slope(slice(None), 0.5)) == 0)
    assert path.values[0, -1, -2:].tolist() == [5.0, 0.0]


def test_an_unknown_interpolation_is_named():
    with pytest.raises(InputError, match=r"no interpolation 'cubic'.*natural"):
        fit_path(observations(0), "cubic")


def test_fitting_is_vectorised(data_dir):
    """Character Trajectories, half the values missing, in one call; a loop over samples would take minutes."""
    series = drop(character_trajectories.load(data_dir), 0.5, what="values")
    obs = pad(series)
    began = time.perf_counter()
    path = jax.block_until_ready(fit_path(obs._replace(target=None), "natural"))
    assert path.values.shape == (2858, obs.length, 4)
    assert np.isfinite(np.asarray(path.left)).all()
    print(f"fitted in {time.perf_counter() - began:.2f} s, compilation included")  # speed is no assertion
