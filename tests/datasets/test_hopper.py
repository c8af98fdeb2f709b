"""Hopper: the simulation is reproducible, and the shipped file is that simulation, rounded."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest

from leapcde.datasets import hopper
from leapcde.errors import InputError, MissingDependencyError


@pytest.fixture(scope="module")
def three() -> np.ndarray:
    pytest.importorskip("dm_control")
    return hopper.simulate(3, seed=0)


def smooth(count: int = 4, steps: int = 20) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.cumsum(rng.normal(size=(count, steps, 14)), axis=1)


def test_simulation_has_the_documented_start(three):
    assert three.shape == (3, 100, 14) and three.dtype == np.float32
    assert np.isfinite(three).all()
    start = three[:, 0]
    assert (start[:, :2] >= 0).all() and (start[:, :2] <= 0.5).all()
    assert np.abs(start[:, 2:7]).max() <= 2 and np.abs(start[:, 7:]).max() <= 5
    assert np.abs(start[:, 2:7]).max() > 0.5 and np.abs(start[:, 7:]).max() > 2


def test_positions_follow_velocities(three):
    # MuJoCo's Euler step moves positions by the new velocity times 5 ms; this holds for every channel but only if
    # the columns are where CHANNELS says.
    moved = np.diff(three[..., :7], axis=1)
    np.testing.assert_allclose(moved, 0.005 * three[:, 1:, 7:], atol=1e-5)


def test_same_seed_same_bytes_and_longer_runs_begin_with_shorter_ones(three):
    assert hopper.simulate(3, seed=0).tobytes() == three.tobytes()
    assert hopper.simulate(1, steps=30, seed=0).tobytes() == three[:1, :30].tobytes()


def test_other_seeds_and_sequences_differ(three):
    other = hopper.simulate(3, steps=2, seed=1)
    starts = np.concatenate([three[:, 0], other[:, 0]])
    assert len(np.unique(starts, axis=0)) == 6


def test_channel_names_are_those_of_the_model():
    pytest.importorskip("dm_control")
    physics, _ = hopper._hopper()
    assert tuple(physics.model.id2name(i, "joint") for i in range(physics.model.njnt)) == hopper.JOINTS
    assert hopper.CHANNELS[0] == "qpos rootx" and hopper.CHANNELS[-1] == "qvel ankle" and len(hopper.CHANNELS) == 14


def test_progress_counts_sequences():
    pytest.importorskip("dm_control")
    seen: list[int] = []
    hopper.simulate(3, steps=2, progress=seen.append)
    assert seen == [1, 2, 3]


def test_explosions_are_drawn_again_silently(monkeypatch, caplog):
    pytest.importorskip("dm_control")
    plain = hopper._sequence
    calls: list[int] = []

    def explode_once(physics, steps, rng):
        calls.append(1)
        if len(calls) == 1:
            rng.uniform(size=14)
            with physics.reset_context():
                physics.data.qvel[:] = 1e12
            physics.step()
        return plain(physics, steps, rng)

    monkeypatch.setattr(hopper, "_sequence", explode_once)
    level = logging.getLogger("absl").level
    result = hopper.simulate(1, steps=5)
    assert len(calls) == 2 and np.isfinite(result).all()
    assert not caplog.records and logging.getLogger("absl").level == level


def test_endless_explosions_end_in_an_error():
    def explode(*_):
        raise ArithmeticError

    class Physics:
        reset_context = explode

    with pytest.raises(InputError, match="another seed"):
        hopper._stable_sequence(Physics(), ArithmeticError, 3, np.random.default_rng(0))


@pytest.mark.parametrize("bad", [{"count": 0}, {"count": 2.5}, {"count": 1, "steps": 0}, {"count": 1, "seed": -1}])
def test_bad_arguments(bad):
    with pytest.raises(InputError, match=list(bad)[-1]):
        hopper.simulate(**bad)


def test_missing_simulator_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control.suite", None)
    with pytest.raises(MissingDependencyError, match=r"leapcde\[mujoco\]"):
        hopper.simulate(1)


def test_bundle_is_the_simulation_rounded(three):
    bundle = hopper.bundled()
    rounded = hopper.restore(hopper.quantise(three))
    np.testing.assert_array_equal(bundle[:3, 0], rounded[:, 0])  # the start is drawn by NumPy: the same everywhere
    # Another processor may round one bit differently and land on the next point of the grid.
    assert (np.abs(bundle[:3] - rounded) <= hopper.STEP).all()


def test_bundle_is_small_and_fine_enough():
    bundle = hopper.bundled()
    assert bundle.shape == (2000, 100, 14) and bundle.dtype == np.float32
    assert (1e-3 * bundle.std((0, 1)) > hopper.STEP / 2).all()
    size = len(hopper.resources.files("leapcde.datasets").joinpath(hopper.BUNDLE).read_bytes())
    assert size < 4_000_000


def test_rounding_is_bounded_and_happens_once():
    array = smooth()
    assert hopper.quantise(array)["deltas"].dtype == np.int32
    once = hopper.restore(hopper.quantise(array))
    assert (np.abs(once - array) <= hopper.STEP / 2).all()
    np.testing.assert_array_equal(hopper.restore(hopper.quantise(once)), once)
    np.testing.assert_array_equal(hopper.restore(hopper.quantise(array[2:])), once[2:])


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_write_then_load(tmp_path, name):
    array = smooth()
    hopper.write(tmp_path / name, array)
    back = hopper.load(tmp_path / name)
    assert back.dtype == np.float32 and back.shape == array.shape
    assert (np.abs(back - array) <= hopper.STEP).all()
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_make_writes_what_it_simulates(tmp_path, three):
    hopper.make(tmp_path / "a.npy", 2, 0)
    assert hopper.load(tmp_path / "a.npy").tobytes() == three[:2].tobytes()


def test_same_content_same_file(tmp_path):
    for name in ("a.npz", "b.npz"):
        hopper.write(tmp_path / name, smooth())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    hopper.write(path, smooth())
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hopper.np, "save", full)
    with pytest.raises(InputError, match="No space left"):
        hopper.write(path, smooth())
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_wrong_names_and_places(tmp_path):
    for act in (lambda path: hopper.write(path, smooth()), hopper.load, lambda path: hopper.make(path, 10**9)):
        with pytest.raises(InputError, match=r"\.npy .* or \.npz"):
            act(tmp_path / "a.csv")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="cannot write"):
        hopper.write(tmp_path / "file" / "a.npy", smooth())
    with pytest.raises(InputError, match="leapcde data make mujoco"):
        hopper.load(tmp_path / "a.npy")


def test_missing_folders_are_made(tmp_path):
    """The README writes to data/mujoco/hopper.npy in a fresh clone."""
    path = tmp_path / "data" / "mujoco" / "hopper.npy"
    hopper.write(path, smooth())
    assert hopper.load(path).shape == smooth().shape
    assert [entry.name for entry in path.parent.iterdir()] == ["hopper.npy"]


@pytest.mark.parametrize("array", [np.zeros((2, 3)), np.zeros((2, 3, 13)), np.zeros((0, 3, 14))])
def test_wrong_shapes(tmp_path, array):
    with pytest.raises(InputError, match="shape"):
        hopper.write(tmp_path / "a.npz", array)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e9])
def test_values_that_cannot_be_rounded(value):
    with pytest.raises(InputError):
        hopper.quantise(np.full((1, 2, 14), value))


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
@pytest.mark.parametrize("keep", [0.0, 0.02, 0.5, 0.98])
def test_truncated_files(tmp_path, name, keep):
    path = tmp_path / name
    hopper.write(path, smooth())
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(InputError, match=name):
        hopper.load(path)


def test_foreign_files(tmp_path):
    np.savez(tmp_path / "a.npz", other=np.ones(3))
    np.savez(tmp_path / "b.npz", deltas=np.ones((14, 2, 3), np.int32), step=np.ones(3))
    np.save(tmp_path / "c.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "d.npy", np.full((1, 2, 14), "a"))
    for name in ("a.npz", "b.npz", "c.npy", "d.npy"):
        with pytest.raises(InputError, match=name):
            hopper.load(tmp_path / name)


def test_released_array_loads(data_dir):
    assert hopper.load(data_dir / "mujoco" / "mujoco_as_run.npy").shape == (100, 100, 14)
