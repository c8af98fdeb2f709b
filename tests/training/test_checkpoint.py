"""Saved files: what comes back is what was saved, bit for bit, or one clear error; a failed write changes nothing."""

from __future__ import annotations

import json
import pickle
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file as save_foreign

from leapcde import files as checkpoint
from leapcde.data.read import as_series
from leapcde.errors import CheckpointError, InputError
from leapcde.files import VERSION, atomic, load_file, restore, save_file, write_text
from leapcde.models.registry import build
from leapcde.paths.batch import Recipe
from leapcde.training.checkpoint import older, remove
from leapcde.training.fitted import FittedModel
from leapcde.training.preprocess import Preprocessor

TREE = {
    "weights": [np.array([[1.5, -0.0], [np.nan, np.inf]], np.float32), np.arange(3, dtype=np.int32)],
    "count": np.array(7, np.int32),  # no dimension, as an optimiser's step count
    "flag": np.array(True),
    "nothing": np.zeros((0, 3), np.float32),
    "name": "text stays with the code",
    "absent": None,
}


def bits(tree) -> list[tuple]:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")]
    return [(leaf.shape, leaf.dtype, leaf.tobytes()) for leaf in leaves]


def test_large_arrays_are_the_same_file(tmp_path, monkeypatch):
    """They go into it from where they lie; a folder that is not there is the error it always is."""
    save_file(tmp_path / "copied", "model", {"model": TREE}, {"x": 1})
    monkeypatch.setattr(checkpoint, "LARGE", 0)
    save_file(tmp_path / "direct", "model", {"model": TREE}, {"x": 1})
    (first, about), (second, same) = (load_file(tmp_path / name, "model") for name in ("copied", "direct"))
    assert about == same and first.keys() == second.keys()
    assert all(bits(first[key]) == bits(second[key]) for key in first)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot write"):
        save_file(tmp_path / "file" / "a", "model", {"model": TREE}, {})


@pytest.fixture
def saved(tmp_path) -> Path:
    path = tmp_path / "a.safetensors"
    save_file(path, "training", {"state": TREE}, {"epoch": 3})
    return path


def fails(path: Path, *words: str, kind: str = "training") -> None:
    with pytest.raises(CheckpointError) as caught:
        load_file(path, kind)
    assert all(word in str(caught.value) for word in (str(path), *words)), str(caught.value)


@pytest.fixture(scope="module")
def fitted() -> FittedModel:
    rng = np.random.default_rng(0)
    series = as_series(rng.normal(size=(6, 5, 2)), target=list("abcabc"), static=rng.normal(size=6), channels=("hr", "bp"))
    preprocessor = Preprocessor.learn(series, "classification", Recipe(intensity=True))
    options = {"hidden": 4, "width": 5, "depth": 1}
    return FittedModel(preprocessor, build("ncde", preprocessor.spec, seed=3, **options), "ncde", options)


# What comes back


def test_round_trip_bit_for_bit(saved):
    arrays, about = load_file(saved, "training")
    assert about["epoch"] == 3 and about["version"] == VERSION
    empty = jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if hasattr(leaf, "dtype") else leaf, TREE)
    back = restore("state", empty, arrays, saved)
    assert bits(back) == bits(TREE) and back["name"] == TREE["name"] and back["absent"] is None
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else leaf, TREE)
    assert bits(restore("state", shapes, arrays, saved)) == bits(TREE)


def test_arrays_that_do_not_lie_in_rows(tmp_path):
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    save_file(tmp_path / "a", "training", {"state": turned}, {})
    np.testing.assert_array_equal(
        restore("state", jnp.zeros((3, 2)), load_file(tmp_path / "a", "training")[0], tmp_path), turned
    )


def test_same_content_same_bytes(tmp_path, saved):
    save_file(tmp_path / "b", "training", {"state": TREE}, {"epoch": 3})
    assert (tmp_path / "b").read_bytes() == saved.read_bytes()


def test_predictor_round_trip(tmp_path, fitted):
    fitted.save(tmp_path / "model.safetensors")
    back = FittedModel.load(tmp_path / "model.safetensors")
    assert back.preprocessor == fitted.preprocessor and (back.name, back.options) == (fitted.name, fitted.options)
    assert bits(eqx.filter(back.model, eqx.is_array)) == bits(eqx.filter(fitted.model, eqx.is_array))
    assert jax.tree.structure(back.model) == jax.tree.structure(fitted.model)


# What cannot come back


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 40, 0.3, 0.6, 0.9, -1])
def test_truncated(saved, keep):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    fails(saved, "truncated or not a leapcde file")


@given(st.data())
def test_truncated_anywhere_and_garbage_never_end_in_another_error(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.safetensors")
        save_file(path, "training", {"state": TREE}, {})
        content = path.read_bytes()
        cut = data.draw(st.integers(0, len(content) - 1))
        path.write_bytes(content[:cut] + data.draw(st.binary(max_size=20)))
        loaded = False
        with suppress(CheckpointError):
            restore("state", TREE, load_file(path, "training")[0], path)
            loaded = True
        assert not loaded or path.stat().st_size == len(content)  # other weights of the right size cannot be told apart


def test_foreign_weights(tmp_path):
    path = tmp_path / "foreign.safetensors"
    save_foreign({"a": np.ones(3)}, path)
    fails(path, "leapcde did not write it")
    header = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()  # NumPy has no such type
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    fails(path, "leapcde did not write it")


def test_what_is_no_weights_at_all(tmp_path):
    path = tmp_path / "file"
    for content in (b"", np.random.default_rng(0).bytes(1000), pickle.dumps(TREE), b"{}", b"PK\x03\x04" + bytes(100)):
        path.write_bytes(content)
        fails(path, "truncated or not a leapcde file")
    fails(tmp_path / "none", "there is no file")
    fails(tmp_path, "is a folder")


def test_loading_a_pickle_does_not_run_it(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    (tmp_path / "trap").write_bytes(pickle.dumps(Trap()))
    fails(tmp_path / "trap")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("header", ["", "[]", "{}", "null", '{"version": 1}', '{"version": "new", "kind": "training"}'])
def test_damaged_header(tmp_path, header):
    save_foreign({"a": np.ones(3)}, tmp_path / "a", {"leapcde": header})
    fails(tmp_path / "a", "damaged header")


def test_endless_version(tmp_path):
    save_foreign({"a": np.ones(3)}, tmp_path / "a", {"leapcde": '{"version": Infinity, "kind": "training"}'})
    fails(tmp_path / "a", "damaged header")


def test_newer_version(saved, monkeypatch):
    monkeypatch.setattr(checkpoint, "VERSION", VERSION + 1)
    save_file(saved, "training", {"state": TREE}, {})
    monkeypatch.undo()
    fails(saved, f"newer leapcde (format {VERSION + 1}, this one reads {VERSION})", "upgrade")


def test_wrong_kind(saved):
    fails(saved, "'training' file", "'model' file is needed", kind="model")
    with pytest.raises(CheckpointError, match="'model' file is needed"):
        FittedModel.load(saved)


@pytest.mark.parametrize(
    ("like", "words"),
    [
        ({**TREE, "count": jnp.zeros(2, jnp.int32)}, ("['count']", "shape ()", "expected (2,)")),
        ({**TREE, "count": jnp.zeros((1,), jnp.int32)}, ("['count']", "shape ()", "expected (1,)")),
        ({**TREE, "more": jnp.zeros(2)}, ("['more']", "is missing")),
    ],
)
def test_wrong_shape_and_missing_tensor(saved, like, words):
    arrays, _ = load_file(saved, "training")
    with pytest.raises(CheckpointError) as caught:
        restore("state", like, arrays, saved)
    assert all(word in str(caught.value) for word in (str(saved), "does not fit", *words))


@pytest.mark.parametrize("change", ["missing", "shape"])
def test_predictor_with_wrong_weights(tmp_path, fitted, change):
    weights = eqx.filter(fitted.model, eqx.is_inexact_array)
    wrong = None if change == "missing" else jnp.zeros(9)
    weights = eqx.tree_at(lambda model: model.head.layer.weight, weights, wrong, is_leaf=lambda x: x is None)
    about = {"model": fitted.name, "options": fitted.options, "preprocessor": fitted.preprocessor.to_json()}
    save_file(tmp_path / "a", "model", {"model": weights}, about)
    with pytest.raises(CheckpointError, match=r"does not fit this model: .*head\.layer\.weight"):
        FittedModel.load(tmp_path / "a")


# Writing


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def write_then_fail(path: Path, error: BaseException) -> None:
    path.write_bytes(b"half")
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("killed"), OSError(28, "No space left on device")])
def test_failed_write_leaves_the_old_file_and_no_other(saved, error):
    before = saved.read_bytes()
    expected = InputError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), atomic(saved) as temporary:
        write_then_fail(temporary, error)
    assert saved.read_bytes() == before and names(saved.parent) == [saved.name]


def test_full_disk_says_so(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    with pytest.raises(InputError, match=rf"cannot write .*{saved.name}: No space left"):
        save_file(saved, "training", {"state": TREE}, {"epoch": 4})
    assert saved.read_bytes() == before and names(saved.parent) == [saved.name]


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("old")
    for path in (tmp_path / "file" / "a", tmp_path):
        with pytest.raises(InputError, match="cannot write"):
            write_text(path, "new")
    assert (tmp_path / "file").read_text() == "old" and names(tmp_path) == ["file"]


def test_a_file_is_replaced_whole_and_never_written_into(saved):
    before, other = saved.read_bytes(), saved.with_name("other name")
    other.hardlink_to(saved)
    save_file(saved, "training", {"state": TREE}, {"epoch": 4})
    assert other.read_bytes() == before != saved.read_bytes()


def test_writing_makes_folders_and_replaces(tmp_path):
    path = tmp_path / "a" / "b" / "c.txt"
    for text in ("ä", "ö"):
        write_text(path, text)
        assert path.read_text(encoding="utf-8") == text and names(path.parent) == ["c.txt"]


def test_a_kill_while_checkpoints_are_removed_leaves_the_newer_one(tmp_path, monkeypatch):
    path = tmp_path / "training.safetensors"
    path.touch()
    older(path).touch()

    def killed(self, missing_ok=False):
        real(self, missing_ok)
        raise KeyboardInterrupt

    real = Path.unlink
    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        remove(path)
    assert path.exists() and not older(path).exists()
