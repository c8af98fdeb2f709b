"""What training may do to a batch: hidden rows, uneven time, earlier rows; averages, warm-up, parts of a step."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_leap_plus import batch_of

from leapcde.data.batch import Padded
from leapcde.data.read import as_series
from leapcde.errors import InputError
from leapcde.models.base import Spec
from leapcde.models.registry import build
from leapcde.nn.losses import cross_entropy
from leapcde.paths.batch import Batch, Recipe
from leapcde.paths.interpolation import fit_path
from leapcde.paths.ragged import make_buckets
from leapcde.training.augment import Augment, earlier, warped
from leapcde.training.config import LATER, TrainConfig
from leapcde.training.history import History
from leapcde.training.schedule import rates
from leapcde.training.step import State, make_step, run_steps

pytestmark = pytest.mark.usefixtures("x64")


def test_augmentation():
    batch, key = batch_of(), jax.random.key(0)
    given = Augment(hide=0.5, spans=0.2, recipe=Recipe())(batch, key)
    np.testing.assert_array_equal(given.obs.mask + given.hidden.mask, batch.obs.mask)
    assert (given.obs.mask.max(-1).sum(1) >= 2).all() and float(given.hidden.mask.sum()) > 0
    assert Augment()(batch, key) is batch
    bent = warped(batch.obs.times, 0.5, key)
    np.testing.assert_allclose(bent[:, [0, -1]], batch.obs.times[:, [0, -1]], atol=1e-9)
    assert (jnp.diff(bent, axis=1) >= -1e-9).all()


def test_an_earlier_row_knows_what_followed():
    times = jnp.tile(jnp.arange(6.0), (3, 1))
    x = jnp.arange(9.0)[None, :, None] + 10 * jnp.arange(3.0)[:, None, None]
    mask = jnp.ones((3, 6, 1)).at[:, 3].set(0.0)
    obs = Padded(times, x[:, :6] * mask, mask, x[:, 5], jnp.zeros((3, 0)), x[:, 6:])
    past = earlier(Batch(obs, fit_path(obs, "linear")), Recipe("linear"), jax.random.key(0)).obs
    for b in range(3):
        now = int(past.times[b, -1])
        wanted = [np.nan if now + k == 3 else float(x[b, now + k, 0]) for k in (1, 2, 3)]
        np.testing.assert_allclose(past.target[b, :, 0], wanted)
        assert float(past.last[b, 0]) == float(x[b, now, 0])
        assert past.mask[b, now + 1 :].sum() == 0


def test_what_is_neutral_is_not_written():
    """So that records from before the tricks keep their names."""
    assert not LATER.keys() & TrainConfig().to_json().keys()
    given = {name: 2 if name == "accumulate" else 0.5 for name in LATER}
    assert TrainConfig(**TrainConfig(**given).to_json()) == TrainConfig(**given)
    assert LATER.items() <= {name: getattr(TrainConfig(), name) for name in LATER}.items()


@pytest.mark.parametrize("bad", [{"hide": 1.0}, {"ema": -0.1}, {"warp": -1.0}, {"warmup": float("nan")}, {"accumulate": 0}])
def test_bad_settings(bad):
    with pytest.raises(InputError):
        TrainConfig(**bad)


def test_warm_up():
    config = TrainConfig(epochs=10, learning_rate=1.0, schedule="constant", warmup=2.0)
    found = np.concatenate([rates(config, History(), epoch, 4) for epoch in range(3)])
    np.testing.assert_allclose(found, [*np.arange(1, 9) / 8, 1, 1, 1, 1])


def test_label_smoothing():
    logits, labels = jnp.array([[1.0, 2.0, 0.5], [0.0, -1.0, 1.0]]), jnp.array([1, 0])
    log_p = np.log(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
    truth = 0.8 * np.eye(3)[[1, 0]] + 0.2 / 3
    np.testing.assert_allclose(cross_entropy(logits, labels, None, 0.2), -np.mean((truth * log_p).sum(1)), rtol=1e-6)


def steps_of(count=3, epoch=2.0, **settings) -> tuple[State, np.ndarray]:
    """The state after some steps on all four samples, in double precision, and the losses."""
    model = build("gru", Spec("classification", 3, 4, (5,), span=16.0), hidden=4)
    model = jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_inexact_array(a) else a, model)
    batch = batch_of(target=np.arange(4))
    step, state = make_step(
        model, "classification", make_buckets(as_series(np.ones((4, 3, 3))), Recipe()), TrainConfig(**settings)
    )
    order, full, number = np.tile(np.arange(4), (3, 1)), np.ones(3), np.arange(3)
    state, losses = run_steps(step, state, batch, order, 0.01 * full, epoch * full, jax.random.key(0), number, count)
    return state, np.asarray(losses)[:count]


def same(a, b, **close) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **close)


def test_parts_of_a_step_make_the_same_step():
    (whole, losses), (parts, found) = steps_of(), steps_of(accumulate=2)
    same(whole.params, parts.params, rtol=1e-9)
    np.testing.assert_allclose(losses, found, rtol=1e-9)


def test_the_average_of_weights_is_the_docstrings():
    one, two = steps_of(1)[0].params, steps_of(2)[0].params
    first = steps_of(0)[0].params
    wanted = jax.tree.map(lambda a, b, c: 0.9 * (0.9 * a + 0.1 * b) + 0.1 * c, first, one, two)
    state, _ = steps_of(2, ema=0.9)
    same(state.params, two, rtol=1e-12)
    same(state.kept, wanted, rtol=1e-9)
    assert steps_of(1)[0].kept is not None and steps_of(1)[0].average is None
    same(steps_of(1, epoch=0.0, ema=0.9)[0].kept, one, rtol=1e-9)  # at first, nothing is remembered


def test_only_forecasts_have_earlier_rows():
    with pytest.raises(InputError, match="only forecasts"):
        steps_of(in_window=1.0)


def test_dropped_channels_are_not_seen():
    batch = batch_of()
    given = Augment(channel_drop=0.5)(batch, jax.random.key(1))
    gone = np.asarray(given.obs.mask.sum(1) == 0)
    assert gone.any() and not gone.all() and not np.asarray(given.obs.last)[gone].any()
    np.testing.assert_array_equal(given.obs.mask.sum(1)[~gone], batch.obs.mask.sum(1)[~gone])
    assert float(given.hidden.mask.sum()) == 0  # what is dropped is not asked for
