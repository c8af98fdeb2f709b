"""LEAP+ against slow loops in NumPy: the path, the stack, the flow, what is hidden; gradients and invariances."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow_leap_plus import at, between, dense, slow_flow, slow_Y, slow_z
from test_paths import fit_path, observations

from leapcde.data.batch import Padded
from leapcde.models.base import Spec
from leapcde.models.leap_plus import SIDE
from leapcde.models.registry import build
from leapcde.nn.blocks import shifted
from leapcde.nn.onward import STARTS
from leapcde.paths.batch import Batch, Hidden, Recipe
from leapcde.paths.neighbours import counted, latest
from leapcde.solve.rollout import least_squares
from leapcde.solve.scan import linear_scan
from leapcde.training.augment import Augment, masked, visible

pytestmark = pytest.mark.usefixtures("x64")
SMALL = {"hidden": 6, "depth": 2, "kernel": 3, "path_width": 5, "flow": 4, "flow_width": 6, "dropout": 0.0}
SPEC = {
    "classification": Spec("classification", 3, 4, (5,), span=16.0),
    "forecasting": Spec("forecasting", 3, 4, (4, 3), span=16.0),
    "at times": Spec("forecasting", 3, 4, (2, 3), span=16.0, ahead=(0.5, 2.7)),
}


def future() -> np.ndarray:
    """Four rows to come for each of four samples, of which one value is not known."""
    x = np.random.default_rng(9).normal(size=(4, 4, 3))
    x[1, 2, 0] = np.nan
    return x


def batch_of(seed=0, target=None) -> Batch:
    obs = observations(seed, length=16, keep=0.6, gaps=(0.5, 1.5))
    obs = obs._replace(times=obs.times - obs.times[:, :1], static=np.zeros((4, 0)), target=target)
    obs = jax.jit(masked)(jax.tree.map(jnp.asarray, obs), jnp.asarray(obs.mask))
    return Batch(obs, fit_path(obs, "natural"))


# As one program each: step by step, every operation would be compiled by itself.
@eqx.filter_jit
def some_hidden(batch, hide, key):
    return Augment(hide=hide, recipe=Recipe())(batch, key)


def model_of(task="classification", **options):
    model = build("leap+", SPEC[task], seed=3, **{**SMALL, **options})
    rng = np.random.default_rng(3)
    moved = lambda a: jnp.asarray(np.asarray(a) + 0.3 * rng.normal(size=a.shape)) if eqx.is_inexact_array(a) else a
    return jax.tree.map(moved, model)


@eqx.filter_jit
def run(model, batch, key=None):
    return model(batch, key=key)


@eqx.filter_jit
def path(model, batch, t):
    return model.Y(batch, t)


@eqx.filter_jit
def stack(model, batch):
    return model.z(batch, None)


def test_the_path_is_the_docstrings():
    model, batch = model_of(), batch_of()
    t = np.linspace(0.1, 1.0, 9)[None] * np.asarray(batch.obs.times[:, -1:])
    Y, log_s = (np.asarray(one) for one in path(model, batch, jnp.asarray(t))[:2])
    for b in range(4):
        for q in range(9):
            wanted = slow_Y(model, batch, b, float(t[b, q]))
            np.testing.assert_allclose(Y[b, q], wanted[0], rtol=1e-9)
            np.testing.assert_allclose(log_s[b, q], wanted[1], rtol=1e-9)


def test_the_path_passes_through_what_is_seen():
    model, batch = model_of(), batch_of()
    Y = path(model, batch, batch.obs.times)[0]
    np.testing.assert_allclose(Y * batch.obs.mask, batch.obs.values, atol=1e-9)


def test_the_stack_is_the_docstrings():
    model, batch = model_of(ages=True), batch_of()
    z = stack(model, batch)
    for b in range(4):
        np.testing.assert_allclose(z[b], slow_z(model, batch, b), rtol=1e-6)
    np.testing.assert_allclose(run(model, batch).prediction[0], dense(model.head.layer, np.asarray(z[0])), rtol=1e-9)


def test_that_an_observation_was_made_is_not_hidden():
    model, batch = model_of(ages=True), batch_of()
    hidden = some_hidden(batch, 0.9, jax.random.key(3))
    assert hidden.hidden is not None and hidden.hidden.mask.sum() > 0
    np.testing.assert_array_equal(hidden.made, batch.made)
    last = hidden.obs._replace(last=batch.obs.last)  # of what it was, ages know the last value that is seen
    ages = eqx.filter_jit(model.ages)
    np.testing.assert_allclose(ages(hidden._replace(obs=last)), ages(batch), rtol=1e-9)


def test_the_flow_is_the_docstrings():
    model, batch = model_of("forecasting"), batch_of()
    z, obs = np.asarray(stack(model, batch)), jax.tree.map(np.asarray, batch.obs)
    Y = np.asarray(run(model, batch).prediction)
    for b in range(4):
        t_L = max(float(t) for t, m in zip(obs.times[b], obs.mask[b], strict=True) if m.any())
        end = float(obs.times[b, -1])
        dt = max(1.0, (end - t_L + 4) / 8)
        track = slow_flow(model, obs, b, obs.length, z[b], dt, 8)
        for k in range(4):
            np.testing.assert_allclose(Y[b, k], between(track, (end + 1 + k - t_L) / dt), rtol=1e-7)


def test_the_path_starts_again_at_observations():
    """Eq. 11 where the path goes on: from each start, at the next rows within the horizon, hidden and future ones too."""
    model, batch, key = model_of("forecasting"), batch_of(target=jnp.asarray(future())), jax.random.key(4)
    given = some_hidden(batch, 0.5, jax.random.key(0))
    obs, hidden, H = jax.tree.map(np.asarray, given.obs), given.hidden, 4
    some = jax.random.uniform(key, obs.times.shape) * (0.5 + obs.mask.max(-1))
    starts = np.argsort(-np.asarray(some), 1)[:, :STARTS]
    total, count = 0.0, 0
    for b in range(4):
        rows = [
            (float(t), np.where(o | h, v, np.nan))
            for t, v, o, h in zip(
                *(np.asarray(a[b]) for a in (obs.times, hidden.values, obs.mask > 0, hidden.mask > 0)), strict=True
            )
        ]
        rows += [(float(obs.times[b, -1]) + 1 + k, np.asarray(batch.obs.target[b, k])) for k in range(H)]
        for s in starts[b]:
            track = slow_flow(model, obs, b, s, np.zeros(18), 1.0, H)
            for t, x in rows[s + 1 : s + 1 + H]:
                since = t - float(obs.times[b, s])
                if 0 < since <= H:
                    off = (between(track, since) - x) ** 2
                    total, count = total + np.nansum(off), count + np.sum(~np.isnan(off))
    assert count > 50
    onward = eqx.filter_jit(model.onward.error)(given, (1.0, 2.0, 3.0, 4.0), key)
    np.testing.assert_allclose(onward, total / count, rtol=1e-7)
    parts = eqx.filter_jit(model.Y.error)(given, hidden, key, 32, model.options.beta) + onward
    np.testing.assert_allclose(eqx.filter_jit(model.L_Y)(given, key), model.options.alpha * parts, rtol=1e-12)
    assert float(model.L_Y(given, None)) == 0.0


def test_untrained_it_is_the_linear_rollout():
    """With least squares at the start, rows that follow a linear equation are forecast exactly before any training."""
    A, x = np.array([[-0.1, 0.2, 0.0], [-0.2, -0.1, 0.0], [0.0, 0.1, -0.05]]), np.random.default_rng(0).normal(size=(20, 1, 3))
    for _ in range(13):
        x = np.concatenate([x, x[:, -1:] + x[:, -1:] @ A + 0.01], 1)
    times = np.tile(np.arange(10.0), (20, 1))
    obs = Padded(times, x[:, :10], np.ones((20, 10, 3)), x[:, 9], np.zeros((20, 0)), x[:, 10:])
    obs = jax.tree.map(jnp.asarray, obs)
    batch = Batch(obs, fit_path(obs, "natural"))
    found, b = least_squares([batch], SPEC["forecasting"].asked, penalty=0.0)
    np.testing.assert_allclose(found, A, atol=1e-5)
    np.testing.assert_allclose(b, 0.01, atol=1e-5)
    model = build("leap+", SPEC["forecasting"], **{**SMALL, "linear_start": True}).started([batch])
    np.testing.assert_allclose(run(model, batch).prediction, x[:, 10:], atol=1e-3)


def test_what_is_asked_is_what_was_hidden():
    """L_Y, from its sums: relative error and Student's density, at hidden entries alone."""
    model, batch = model_of(alpha=0.7, beta=0.3), batch_of()
    left = batch.obs.mask * eqx.filter_jit(visible)(batch.obs, 0.9, 0.0, jax.random.key(0))
    seen = jax.jit(masked)(batch.obs, left)
    given = Batch(seen, fit_path(seen, "natural"), Hidden(batch.obs.values, batch.obs.mask - seen.mask))
    few = given.obs.times.shape[1] <= 16  # then all rows are asked for
    assert few and float(given.hidden.mask.sum()) > 5
    Y, log_s, *_ = path(model, given, given.obs.times)
    X = at(given.X, given.obs.times)[..., -3:]
    mask, x = np.asarray(given.hidden.mask), np.asarray(batch.obs.values)
    far = [float(np.sum(mask * (np.asarray(p) - x) ** 2)) for p in (Y, X)]
    log_p = -2 * np.log1p((np.asarray(Y) - x) ** 2 / np.exp(2 * np.asarray(log_s)) / 3) - np.asarray(log_s)
    wanted = 0.7 * (far[0] / (far[1] + 1e-6) - 0.3 * np.sum(mask * log_p) / mask.sum())
    np.testing.assert_allclose(eqx.filter_jit(model.L_Y)(given, jax.random.key(1)), wanted, rtol=1e-9)
    assert float(run(model, given, jax.random.key(1)).penalty) == pytest.approx(wanted)
    assert float(run(model, given).penalty) == 0.0


def along(f, model, direction, step=1e-6):
    """The slope of f along a direction of the model's weights, exact and by finite differences."""
    move = eqx.filter_jit(lambda e: eqx.apply_updates(model, jax.tree.map(lambda d: e * d, direction)))
    f = eqx.filter_jit(f)
    slope = eqx.filter_jit(eqx.filter_grad(f))(model)
    exact = sum(
        np.sum(np.asarray(g) * np.asarray(d)) for g, d in zip(jax.tree.leaves(slope), jax.tree.leaves(direction), strict=True)
    )
    return exact, (f(move(jnp.asarray(step))) - f(move(jnp.asarray(-step)))) / (2 * step)


def directions(model):
    """Random directions in which only Y, only log s, and all but m move: the three stand still for each other."""
    arrays = eqx.filter(model, eqx.is_inexact_array)
    anywhere = jax.tree.map(lambda a: jnp.asarray(np.random.default_rng(a.size).normal(size=a.shape)), arrays)
    nowhere = jax.tree.map(lambda a: jnp.asarray(np.zeros(a.shape)), arrays)
    last, is_s = lambda m: m.Y.m.layers[-1].weight, np.arange(18) >= 15
    only = lambda which: eqx.tree_at(last, nowhere, last(anywhere) * which)
    return only(~is_s), only(is_s), eqx.tree_at(lambda m: m.Y.m, anywhere, nowhere.Y.m)


@pytest.mark.parametrize("task", ["classification", "forecasting"])
def test_gradients(task):
    """Of the answer, of the path's error and of its density, against finite differences."""
    model, key = model_of(task), jax.random.key(1)
    given = some_hidden(batch_of(target=jnp.asarray(future())), 0.5, jax.random.key(0))
    _, s_moves, z_moves = directions(model)
    np.testing.assert_allclose(*along(lambda m: jnp.sum(jnp.sin(m(given).prediction)), model, z_moves), rtol=1e-5)
    error = model_of(task, beta=0.0)
    np.testing.assert_allclose(*along(lambda m: m.L_Y(given, key), error, directions(error)[0]), rtol=1e-5)

    def density(m):
        Y, log_s, *_ = m.Y(given, given.obs.times)
        off = (Y - given.hidden.values) ** 2 * jnp.exp(-2 * log_s)
        mask = given.hidden.mask
        return m.options.alpha * m.options.beta * jnp.sum(mask * (2 * jnp.log1p(off / 3) + log_s)) / mask.sum()

    exact = along(lambda m: m.L_Y(given, key), model, s_moves)[0]
    np.testing.assert_allclose(exact, along(density, model, s_moves)[1], rtol=1e-5)


@pytest.mark.parametrize("task", ["classification", "forecasting"])
@pytest.mark.parametrize("options", [{}, {"knots": 6, "ages": True}, {"causal": True}, {"knots": 5, "learned": False}])
def test_padding_changes_nothing(task, options):
    model, batch = model_of(task, **options), batch_of()
    longer = lambda a, last: jnp.concatenate([a, *[last] * 3], 1)
    obs = batch.obs
    still = jnp.zeros_like(obs.values[:, :1])
    obs = obs._replace(
        times=longer(obs.times, obs.times[:, -1:]), values=longer(obs.values, still), mask=longer(obs.mask, still)
    )
    interpolation = "hermite" if options.get("causal") else "natural"
    short, far = Batch(batch.obs, fit_path(batch.obs, interpolation)), Batch(obs, fit_path(obs, interpolation))
    np.testing.assert_allclose(run(model, far).prediction, run(model, short).prediction, rtol=1e-8, atol=1e-10)
    alone = short.take(jnp.array([2]))
    np.testing.assert_allclose(run(model, alone).prediction[0], run(model, short).prediction[2], rtol=1e-8)


def test_causal_never_looks_ahead():
    """What comes later changes nothing of the path before it."""
    model, batch = model_of(causal=True, ages=True), batch_of()
    obs, cut = batch.obs, 6
    changed = obs._replace(values=obs.values.at[:, cut:].add(1.0) * obs.mask)
    paths = [path(model, Batch(o, fit_path(o, "hermite")), obs.times[:, :cut])[0] for o in (obs, changed)]
    np.testing.assert_allclose(paths[0], paths[1], atol=1e-12)


def test_causal_answers_know_nothing_of_what_follows():
    """The answer of a prefix is that of the whole series at that row: nothing that is read comes from later, X neither."""
    model, batch = model_of(causal=True, ages=True), batch_of()
    obs, cut = batch.obs, 7
    prefix = jax.tree.map(lambda a: a[:, :cut] if a is not None and a.ndim > 1 and a.shape[1] == obs.times.shape[1] else a, obs)
    later = obs._replace(values=obs.values.at[:, cut:].add(1.0) * obs.mask)
    held = lambda o: o._replace(
        times=jnp.minimum(o.times, o.times[:, cut - 1 : cut]),
        mask=o.mask.at[:, cut:].set(0),
        values=o.values.at[:, cut:].set(0),
    )
    given = [Batch(o, fit_path(o, "natural")) for o in (prefix, held(obs), held(later))]
    first, *others = (np.asarray(stack(model, one)) for one in given)
    for other in others:
        np.testing.assert_allclose(first, other, rtol=1e-9)
    assert np.abs(first - np.asarray(stack(model, batch))).max() > 1e-3


def test_forecasts_at_times_lie_on_the_path():
    """Asked for at 0.5 and 2.7 gaps, it says what the path of whole steps says there; `learned_at` says the same."""
    model, batch = model_of("at times"), batch_of()
    end, obs = np.asarray(batch.obs.times[:, -1]), batch.obs
    t_L = np.max(np.where(np.asarray(obs.mask).max(-1) > 0, obs.times, 0.0), 1)
    found, z = run(model, batch).prediction, np.asarray(stack(model, batch))
    for b in range(4):
        dt = max(1.0, (end[b] - t_L[b] + 2.7) / 7)
        track = slow_flow(model, obs, b, obs.length, z[b], dt, 7)
        for k, ahead in enumerate((0.5, 2.7)):
            np.testing.assert_allclose(found[b, k], between(track, (end[b] + ahead - t_L[b]) / dt), rtol=1e-7)
    t = jnp.asarray(np.stack([end * 0.5, end, end + 0.5, end + 2.7], 1))
    at_t = eqx.filter_jit(lambda m, b, t: m.learned_at(b, t))(model, batch, t)
    np.testing.assert_allclose(at_t[:, 2:], found, rtol=1e-9)
    np.testing.assert_allclose(at_t[:, :2], path(model, batch, t)[0][:, :2], rtol=1e-9)
    assert SPEC["forecasting"].asked == (1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize("options", [{}, {"knots": 4}])
@pytest.mark.parametrize("task", ["classification", "forecasting"])
def test_a_single_row_and_channels_never_seen(task, options):
    model = model_of(task, **options)
    obs = Padded(jnp.zeros((2, 1)), jnp.ones((2, 1, 3)), jnp.ones((2, 1, 3)), jnp.ones((2, 3)), jnp.zeros((2, 0)), None)
    none = masked(batch_of().obs, batch_of().obs.mask * jnp.array([1.0, 0.0, 1.0]))
    for given in (obs, none):
        found = run(model, Batch(given, fit_path(given, "natural"))).prediction
        assert np.isfinite(found).all()


def test_gru_ode_on_the_path():
    """Where Y = X it is GRU-ODE on X; where Y is learned, it is not, and the path's loss is LEAP+'s."""
    obs = batch_of().obs
    batch = Batch(obs, fit_path(obs, "linear"), Hidden(obs.values, obs.mask))
    still, moved = (build("leap+:gru-ode", SPEC["classification"], seed=3, **SMALL, learned=x) for x in (False, True))
    np.testing.assert_allclose(run(still, batch).prediction, run(still.gru, batch).prediction, rtol=1e-6)
    assert np.abs(run(moved, batch).prediction - run(moved.gru, batch).prediction).max() > 1e-4
    key = jax.random.key(0)
    assert float(run(moved, batch, key).penalty) == pytest.approx(float(eqx.filter_jit(moved.path.L_Y)(batch, key)))


def test_without_pooling_the_end_is_read():
    all_of_it, end = model_of(), model_of(pooling=False)
    np.testing.assert_allclose(stack(end, batch_of()), stack(all_of_it, batch_of())[:, :6], rtol=1e-9)


def test_small_pieces():
    rng = np.random.default_rng(0)
    keep, add = (jnp.asarray(rng.uniform(size=(5, 2, 4))) for _ in range(2))
    z = linear_scan(keep, add, causal=True)
    by_hand = np.zeros((2, 4))
    for k in range(5):
        by_hand = np.asarray(keep[k]) * by_hand + np.asarray(add[k])
    np.testing.assert_allclose(z[-1], by_hand)
    np.testing.assert_allclose(
        linear_scan(keep, add, causal=False)[..., 2:], linear_scan(keep[::-1], add[::-1], causal=True)[::-1, :, 2:]
    )
    x = jnp.arange(3.0)[:, None, None]
    assert [np.ravel(s).tolist() for s in shifted(x, 3, causal=False)] == [[0, 0, 1], [0, 1, 2], [1, 2, 0]]
    assert [np.ravel(s).tolist() for s in shifted(x, 3, causal=True)] == [[0, 0, 0], [0, 0, 1], [0, 1, 2]]
    times, mask = jnp.array([[0.0, 1.0, 2.0, 2.0]]), jnp.array([[1.0, 0.0, 1.0, 0.0]])[..., None]
    obs = Padded(times, jnp.array([[5.0, 0.0, 7.0, 0.0]])[..., None], mask, None, None, None)
    t, v, there = latest(obs, SIDE)
    assert (
        v[0, :, 0, 0].tolist() == [5, 5, 7, 7]
        and t[0, 2, :2, 0].tolist() == [2, 0]
        and there[0, :, 1, 0].tolist() == [0, 0, 1, 1]
    )
    assert counted(obs, times)[0, :, 0].tolist() == [1, 0, 1, 0]
