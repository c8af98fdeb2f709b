"""A series in files: the same series, detected when it is damaged, and nothing of it in memory that need not be."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leapcde.baselines.summary import features
from leapcde.data import scale
from leapcde.data.drop import drop
from leapcde.data.read import as_series
from leapcde.data.scale import Scaler
from leapcde.data.series import Series, check
from leapcde.data.split import split
from leapcde.data.store import mapped
from leapcde.data.store.files import HEADER, open_store, writing
from leapcde.errors import InputError, LeapWarning
from leapcde.files import unfinished


def some(seed=0, samples=60) -> Series:
    rng = np.random.default_rng(seed)
    pairs = []
    for n in rng.integers(2, 9, samples):
        values = np.where(rng.random((n, 3)) < 0.4, np.nan, rng.normal(size=(n, 3)))
        pairs.append((np.cumsum(rng.uniform(0.1, 2, n)), values))
    series = as_series(pairs, target=np.arange(samples) % 2, static=rng.normal(size=(samples, 2)), channels=["a", "b", "c"])
    return replace(series, ids=np.array([f"p{i}" for i in range(samples)]))


def equal(a: Series, b: Series) -> None:
    for name in ("times", "values", "offsets", "target", "static", "ids"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.channels == b.channels


@pytest.fixture
def stored(tmp_path):
    series = some()
    with writing(tmp_path / "store", len(series.times)) as writer:
        for part in series.blocks(50):
            writer.add(part)
    return tmp_path / "store"


def test_a_store_is_the_series_it_was_made_of(stored):
    found = open_store(stored)
    assert isinstance(found.values, np.memmap) and isinstance(found.times, np.memmap)
    equal(found, some())
    assert [path.name for path in stored.parent.iterdir()] == ["store"]


def test_what_is_made_of_a_mapped_series_is_what_is_made_of_one_in_memory(stored, monkeypatch):
    """Parts, dropping, scale, summaries: with nothing too small to be mapped again, and blocks of a few rows."""
    monkeypatch.setattr(mapped, "LARGE", 0)
    monkeypatch.setattr("leapcde.data.series.BLOCK", 16)
    here, there = some(), open_store(stored)
    for a, b in zip(split(here), split(there), strict=True):
        equal(a, b)
        assert isinstance(b.values, np.memmap) and isinstance(drop(b, 0.3).values, np.ndarray)
        equal(drop(a, 0.0), drop(b, 0.0))
        assert Scaler.fit(a, robust=True) == Scaler.fit(b, robust=True)
        np.testing.assert_array_equal(features(a), features(b))
    assert check(there) is there


def test_the_scale_in_blocks_is_that_of_numpy(monkeypatch):
    series = some(1)
    found = Scaler.fit(series)
    np.testing.assert_allclose(found.mean, np.nanmean(series.values, 0), rtol=1e-12)
    np.testing.assert_allclose(found.std, np.nanstd(series.values, 0), rtol=1e-12)
    gaps = np.concatenate([np.diff(series.sample(i)[0]) for i in range(len(series))])
    assert found.time_unit == np.median(gaps)
    monkeypatch.setattr(scale, "ENOUGH", 100)
    assert Scaler.fit(series).time_unit == pytest.approx(np.median(gaps), rel=0.2)


def test_wild_values_of_a_mapped_series_are_kept_out(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "LARGE", 0)
    series = some()
    values = series.values.copy()
    values[7, 1] = 1e9
    wild = replace(series, values=values)
    with writing(tmp_path / "s", len(values)) as writer:
        writer.add(wild)
    with pytest.warns(LeapWarning, match="channel 'b': 1e\\+09 in sample") as told:
        found = Scaler.fit(open_store(tmp_path / "s"), robust=True)
    with pytest.warns(LeapWarning, match="channel 'b'") as again:
        assert Scaler.fit(wild, robust=True) == found
    assert str(told[0].message) == str(again[0].message)
    assert found.std[1] < 2 and found.high[1] < 10


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)


def other_names(path: Path) -> None:
    header = json.loads(path.read_text())
    path.write_text(json.dumps({**header, "channels": ["x", "y", "z"]}))


@pytest.mark.parametrize(
    ("name", "damage"),
    [(name, how) for name in ("times", "values", "offsets", "target") for how in (cut, flip, Path.unlink)]
    + [(HEADER, how) for how in (cut, flip, Path.unlink, other_names)],
)
def test_a_damaged_store_is_not_opened(stored, name, damage):
    damage(stored / (name if name == HEADER else f"{name}.npy"))
    with pytest.raises(ValueError):
        open_store(stored)


def test_a_store_that_was_not_finished_is_not_there(tmp_path):
    series = some()
    with pytest.raises(ValueError), writing(tmp_path / "store", 10) as writer:  # more rows than there is room for
        writer.add(series)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="were to be stored"), writing(tmp_path / "store", 10**6) as writer:
        writer.add(some())
    assert not list(tmp_path.iterdir())


def test_what_killed_writers_of_a_store_left_goes_and_what_the_living_make_stays(stored):
    begin = unfinished(stored).name.removesuffix(f"{os.getpid()}.tmp")
    dead, living = (stored.with_name(f"{begin}{pid}.tmp") for pid in (999_999_999, 1))
    for folder in (dead, living):
        folder.mkdir()
        (folder / "values.npy").write_bytes(b"half")
    series = some()
    with writing(stored, len(series.times)) as writer:
        writer.add(series)
    assert sorted(path.name for path in stored.parent.iterdir()) == sorted([living.name, stored.name])


def test_a_store_that_another_process_made_in_the_meantime_is_taken(stored, monkeypatch):
    series = some()
    monkeypatch.setattr("leapcde.data.store.files.shutil.rmtree", lambda *_, **__: None)  # as if it came behind that
    with writing(stored, len(series.times)) as writer:
        writer.add(series)
    equal(open_store(stored), series)


def test_a_header_without_end_is_damage(stored):
    (stored / HEADER).write_text("[" * 100_000)
    with pytest.raises(ValueError):
        open_store(stored)
