"""Files that changed after they were written: noticed, or of no effect. Headers that ask for too much are refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from safetensors.numpy import save_file as save_plain

import leapcde
from leapcde.data.read import as_series
from leapcde.errors import CheckpointError, InputError, LeapError, LeapWarning
from leapcde.files import atomic, check_apart, free_for, load_file, save_file, write_text
from leapcde.models.registry import build
from leapcde.paths.batch import Recipe
from leapcde.training.checkpoint import older
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel, train_model
from leapcde.training.preprocess import Preprocessor

SMALL = {"hidden": 2, "width": 2, "depth": 1}


def series(samples: int = 6):
    rng = np.random.default_rng(0)
    return as_series(rng.normal(size=(samples, 5, 1)), target=np.arange(samples) % 2)


@pytest.fixture(scope="module")
def fitted() -> FittedModel:
    preprocessor = Preprocessor.learn(series(), "classification", Recipe())
    return FittedModel(preprocessor, build("ncde", preprocessor.spec, **SMALL), "ncde", SMALL)


@pytest.fixture
def saved(fitted, tmp_path) -> Path:
    fitted.save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def content(path: Path, kind: str) -> tuple:
    arrays, about = load_file(path, kind)
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}, about


def flips(path: Path, kind: str, places, masks) -> None:
    """Each flip is noticed, or nothing is another."""
    whole, good = bytearray(path.read_bytes()), content(path, kind)
    noticed = 0
    for place in places:
        for mask in masks:
            whole[place] ^= mask
            path.write_bytes(whole)
            whole[place] ^= mask
            try:
                found = content(path, kind)
            except CheckpointError:
                noticed += 1
            else:
                assert found == good, (place, mask)
    path.write_bytes(whole)
    assert noticed > 0.8 * len(places) * len(masks)  # but for spaces and the like


def test_any_byte_of_a_model(saved):
    flips(saved, "model", range(saved.stat().st_size), [0x01])


@pytest.mark.slow
def test_any_bit_of_a_model(saved):
    flips(saved, "model", range(saved.stat().st_size), [1 << bit for bit in range(8)] + [0xFF])


def test_bytes_of_a_large_file(tmp_path):
    arrays = {"w": np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)}
    save_file(tmp_path / "a", "model", {"model": arrays}, {"x": 1})
    flips(tmp_path / "a", "model", np.random.default_rng(1).integers(0, (tmp_path / "a").stat().st_size, 300).tolist(), [0x10])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model", "training"])
def test_ten_thousand_bytes(kind, tmp_path):
    """Of a large model file, and of a checkpoint as training writes it."""
    path = tmp_path / "training.safetensors"
    if kind == "training":
        trained(path, stop_after=1)
    else:
        arrays = {"w": np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)}
        save_file(path, kind, {"model": arrays}, {"x": 1})
    rng = np.random.default_rng(2)
    places, masks = rng.integers(0, path.stat().st_size, 10_000).tolist(), [1 << bit for bit in range(8)]
    for mask in masks:
        flips(path, kind, places[:: len(masks)], [mask])
        places = places[1:]


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any], *, version: int = 1) -> Path:
    """The file with another header, as somebody would write it before there were digests."""
    arrays, about = load_file(path, "model")
    about = json.loads(json.dumps({**about, "version": version}))
    change(about)
    save_plain(arrays, path, {"leapcde": json.dumps(about)})
    return path


def test_files_without_a_digest_still_load(saved, fitted):
    back = FittedModel.load(rewritten(saved, lambda about: None))
    np.testing.assert_array_equal(back.predict_proba(series()), fitted.predict_proba(series()))


def test_a_digest_that_was_taken_away_is_noticed(saved):
    with pytest.raises(CheckpointError, match="is damaged"):
        FittedModel.load(rewritten(saved, lambda about: None, version=2))


def of(*keys: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(about: dict[str, Any]) -> None:
        for key in keys[:-1]:
            about = about[key]
        about[keys[-1]] = to

    return change


def deep(count: int) -> Any:
    found: Any = []
    for _ in range(count):
        found = [found]
    return found


HEADERS = {
    "a depth of 10⁹": of("options", "depth", to=10**9),
    "a depth of a thousand": of("options", "depth", to=1000),
    "a width of 10¹²": of("options", "width", to=10**12),
    "substeps of 10⁹": of("options", "solver_options", to={"substeps": 10**9}),
    "no such option": of("options", "depht", to=2),
    "options as a list": of("options", to=[1]),
    "no options": of("options", to=None),
    "another model": of("model", to="gru-d"),
    "no such model": of("model", to="oracle"),
    "a model that is no name": of("model", to=["ncde"]),
    "a negative unit of time": of("preprocessor", "scaler", "time_unit", to=-1.0),
    "a deviation that is no number": of("preprocessor", "scaler", "std", to=[float("nan")]),
    "a deviation of zero": of("preprocessor", "scaler", "std", to=[0.0]),
    "a mean too many": of("preprocessor", "scaler", "mean", to=[0.0, 1.0]),
    "a mean in words": of("preprocessor", "scaler", "mean", to=["much"]),
    "a class too many": of("preprocessor", "classes", to=[0, 1, 2]),
    "one class twice": of("preprocessor", "classes", to=[1, 1]),
    "another task": of("preprocessor", "spec", "task", to="regression"),
    "no such task": of("preprocessor", "spec", "task", to="divination"),
    "channels without end": of("preprocessor", "spec", "channels", to=10**9),
    "outputs without end": of("preprocessor", "spec", "output", to=[10**12]),
    "no output": of("preprocessor", "spec", "output", to=[]),
    "a span below zero": of("preprocessor", "spec", "span", to=-1.0),
    "no such interpolation": of("preprocessor", "spec", "recipe", "interpolation", to="guess"),
    "a preprocessor in words": of("preprocessor", to="none"),
    "an estimator in words": of("estimator", to="none"),
    "parameters in words": of("estimator", to={"params": "none"}),
    "a header without end": of("estimator", to=deep(900)),
    "a calibration in words": of("calibration", to="hot"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_make_no_sense(saved, name):
    with pytest.raises(LeapError) as caught:
        leapcde.load(rewritten(saved, HEADERS[name])).predict(series())  # pyright: ignore[reportAttributeAccessIssue]
    assert str(saved) in str(caught.value)


def test_a_header_deeper_than_python_can_go(saved):
    arrays, _ = load_file(saved, "model")
    save_plain(arrays, saved, {"leapcde": '{"version": 1, "kind": ' + "[" * 100_000 + "]" * 100_000 + "}"})
    with pytest.raises(CheckpointError, match="damaged header"):
        leapcde.load(saved)


def test_weights_that_are_called_whole_numbers(saved):
    arrays, about = load_file(saved, "model")
    turned = {name: a.view(np.int32) for name, a in arrays.items()}
    save_plain(turned, saved, {"leapcde": json.dumps({**about, "version": 1})})
    with pytest.raises(CheckpointError, match=r"does not fit this model: .*int32"):
        FittedModel.load(saved)


# Checkpoints


def trained(checkpoint: Path, epochs: int = 3, stop_after: int | None = None):
    def stop(row):
        if stop_after is not None and row["epoch"] + 1 == stop_after:
            raise KeyboardInterrupt

    config = TrainConfig(epochs=epochs, batch_size=4, schedule="constant")
    with suppress(KeyboardInterrupt):
        found = train_model(
            series(),
            series(),
            task="classification",
            model="ncde",
            options=SMALL,
            config=config,
            checkpoint=checkpoint,
            on_epoch=stop,
        )
        return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(eqx.filter(found[0].model, eqx.is_inexact_array))]
    return []


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> list[bytes]:
    return trained(tmp_path_factory.mktemp("whole") / "training.safetensors")


@pytest.mark.parametrize("what", ["a flipped bit", "cut", "empty", "gone"])
def test_the_older_checkpoint_stands_in_for_a_damaged_one(what, tmp_path, whole):
    path = tmp_path / "training.safetensors"
    trained(path, stop_after=2)
    assert len(load_file(path, "training")[1]["history"]) == 2 and len(load_file(older(path), "training")[1]["history"]) == 1
    good = path.read_bytes()
    bad = {"a flipped bit": good[:-3] + bytes([good[-3] ^ 4]) + good[-2:], "cut": good[:200], "empty": b""}
    path.write_bytes(bad[what]) if what in bad else path.unlink()
    with pytest.warns(LeapWarning, match=r"training goes on from the checkpoint before it"):
        assert trained(path) == whole


def test_two_damaged_checkpoints_are_an_error(tmp_path):
    path = tmp_path / "training.safetensors"
    trained(path, stop_after=2)
    for file in (path, older(path)):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="both damaged; remove them"):
        trained(path)


def test_a_damaged_checkpoint_without_an_older_one(tmp_path):
    path = tmp_path / "training.safetensors"
    trained(path, stop_after=1)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="truncated"):
        trained(path)


def test_any_byte_of_a_checkpoint(tmp_path):
    path = tmp_path / "training.safetensors"
    trained(path, stop_after=1)
    flips(path, "training", range(0, path.stat().st_size, 11), [0x01])


# What killed writers leave


def test_leftovers_of_dead_writers_go_and_those_of_the_living_stay(tmp_path):
    with suppress(RuntimeError), atomic(tmp_path / "a") as mine:
        raise RuntimeError
    begin = mine.name.removesuffix(f"{os.getpid()}.tmp")
    dead, living, other = (tmp_path / name for name in (f"{begin}999999999.tmp", f"{begin}1.tmp", ".a.elsewhere-5.tmp"))
    for file in (dead, living, other):
        file.write_text("half")
    write_text(tmp_path / "a", "whole")
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["a", living.name, other.name])


def test_a_failed_write_keeps_both_checkpoints(tmp_path, monkeypatch):
    path = tmp_path / "training.safetensors"
    trained(path, stop_after=2)
    before = path.read_bytes(), older(path).read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("leapcde.files.os.fsync", full)
    with pytest.raises(InputError, match="No space left"):
        trained(path)
    assert (path.read_bytes(), older(path).read_bytes()) == before


def test_a_folder_whose_first_file_was_never_finished_is_free(tmp_path):
    """A run that is killed while it writes its settings leaves only that behind, and the same command must go on."""
    first = tmp_path / "run" / "config.json"
    assert free_for(first)
    first.parent.mkdir()
    (first.parent / ".config.json.host-1.tmp").write_text("{")
    assert free_for(first)
    (first.parent / "notes.txt").write_text("mine")
    assert not free_for(first)
    assert not free_for(first.parent / "notes.txt" / "config.json")


def test_what_is_written_takes_the_place_of_nothing_that_is_read(tmp_path):
    data, folder = tmp_path / "new.csv", tmp_path / "parts"
    folder.mkdir()
    for path in (data, folder / "1.csv"):
        path.write_text("id,time,a\n")
    (tmp_path / "link.csv").symlink_to(data)
    check_apart(tmp_path / "answers.csv", [data, folder])
    check_apart(folder / "answers.csv", [data, folder])
    for out in (data, tmp_path / "parts" / ".." / "new.csv", tmp_path / "link.csv", folder / "1.csv"):
        with pytest.raises(InputError, match="would be lost"):
            check_apart(out, [data, folder])
