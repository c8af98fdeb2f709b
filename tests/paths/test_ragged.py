"""Batches that a compiled program gathers from ragged rows: as padding makes them, wherever the rows lie."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from leapcde.data.batch import pad
from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.paths import ragged
from leapcde.paths.batch import Recipe
from leapcde.paths.ragged import Elsewhere, OnDevice, ahead, make_buckets
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import train_model
from leapcde.training.schedule import dispatches, plan


def some(seed=0, channels=3, lengths=None) -> Series:
    """Samples of many lengths, with holes, rows of nothing, a channel that a sample may never show, statics and weights."""
    rng = np.random.default_rng(seed)
    pairs, lengths = [], rng.integers(1, 13, 40) if lengths is None else lengths
    for n in lengths:
        values = np.where(rng.random((n, channels)) < 0.5, np.nan, rng.normal(size=(n, channels)))
        pairs.append((np.cumsum(rng.uniform(0.1, 2, n)), values))
    static, weights = rng.normal(size=(len(pairs), 2)), rng.uniform(0.5, 2, len(pairs))
    return as_series(pairs, target=(np.arange(len(pairs)) % 3).astype(np.int32), static=static, weights=weights)


def same_bits(a, b) -> bool:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_gathered_rows_are_those_of_padding(seed, elsewhere, monkeypatch):
    """Against NumPy's padding, which shares no code with it."""
    series = some(seed)
    monkeypatch.setattr(ragged, "ON_DEVICE", 0 if elsewhere else 2**30)
    found = make_buckets(series, Recipe(), round_to=20, waste=np.inf)[0]
    assert isinstance(found.ragged, Elsewhere if elsewhere else OnDevice)
    order = np.random.default_rng(seed).integers(0, 40, 9)
    rows, index = found.read(order)
    assert same_bits(rows.padded(index), pad(series.take(order), 20))


def test_the_parts_of_a_series_are_all_of_it():
    series = some()
    for rows in (1, 7, 100, 10**6):
        parts = list(series.blocks(rows))
        assert sum(map(len, parts)) == len(series) and all(part.lengths.sum() <= max(rows, 12) for part in parts)
        for name in ("times", "values", "target", "static", "weights"):
            whole = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(whole, getattr(series, name))


def test_an_epoch_is_its_plan_in_calls_of_one_shape(monkeypatch):
    monkeypatch.setattr(ragged, "AT_ONCE", 4 * 4 * 12 * 4 * 4)  # four minibatches of the longest
    for waste in (1.15, np.inf):
        train, config = make_buckets(some(), Recipe(), waste=waste), TrainConfig(batch_size=4, seed=1)
        calls, pieces = dispatches(train, config, 3), plan(train, config, 3)
        assert len({(call.bucket, call.order.shape) for call in calls}) == len(train)
        done = [(call.bucket, row.tolist()) for call in calls for row in call.order[: call.steps]]
        assert done == [(b, row.tolist()) for b, order in pieces for row in order]
        assert [call.first for call in calls] == np.cumsum([0, *(call.steps for call in calls)])[:-1].tolist()
    assert [call.steps for call in calls] == [4, 4, 2]


@pytest.mark.filterwarnings("ignore:never observed")
@pytest.mark.parametrize(
    ("model", "options", "settings"),
    [
        ("ncde", {"hidden": 4, "width": 4}, {"class_weight": "balanced"}),
        pytest.param("leap+", {"hidden": 4, "knots": 0}, {"hide": 0.3, "noise": 0.1, "ema": 0.9}, marks=pytest.mark.slow),
    ],
)
def test_training_elsewhere_is_training_on_the_device_bit_for_bit(monkeypatch, tmp_path, model, options, settings):
    """Also when it is killed on the device and goes on elsewhere, with several lengths and a last call that is not full."""
    monkeypatch.setattr(ragged, "AT_ONCE", 2 * 4 * 12 * 4 * 8)
    config, lengths = TrainConfig(epochs=2, batch_size=8, **settings), np.where(np.arange(50) % 2, 4, 12)
    series = some(lengths=lengths)
    how = {"task": "classification", "model": model, "options": options, "config": config}

    def stop(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_model(series, series, checkpoint=tmp_path / "c", on_epoch=stop, **how)
    whole, trained = train_model(series, series, **how)
    monkeypatch.setattr(ragged, "ON_DEVICE", 0)
    again, resumed = train_model(series, series, checkpoint=tmp_path / "c", **how)
    apart, _ = train_model(series, series, **how)
    assert same_bits(whole.trees(), again.trees()) and same_bits(whole.trees(), apart.trees())
    assert trained.history.column("val_loss") == resumed.history.column("val_loss")
    assert whole.outputs(series).tobytes() == again.outputs(series).tobytes()


def test_what_fails_while_it_is_read_ahead_fails_where_it_is_used():
    def reads():
        yield 1
        raise OSError("gone")

    found = ahead(reads())
    assert next(found) == 1
    with pytest.raises(OSError, match="gone"):
        next(found)
