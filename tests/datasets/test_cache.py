"""Prepared files: made once, made again when source or version change, and never believed when damaged."""

from __future__ import annotations

import numpy as np
import pytest

from leapcde.datasets._io import cache
from leapcde.errors import LeapWarning


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A source whose parsing is counted, with its own cache."""
    monkeypatch.setenv("LEAPCDE_CACHE", str(tmp_path / "cache"))
    made: list[int] = []
    source = tmp_path / "raw.txt"
    source.write_text("one")

    def load(version: int = 1):
        def make():
            made.append(version)
            return {"x": np.arange(12.0).reshape(3, 4), "name": np.array(["a", "bé", ""])}, {"n": 3}

        return cache.prepared("toy", [source], {"version": version}, tmp_path, make)

    return load, made, source, tmp_path / "cache"


def test_prepared_once_and_again_when_source_or_version_change(counted):
    load, made, source, folder = counted
    for _ in range(2):
        arrays, notes = load()
        assert arrays["x"].tolist() == np.arange(12.0).reshape(3, 4).tolist() and arrays["name"].tolist() == ["a", "bé", ""]
        assert notes["n"] == 3 and list(notes["sha256"]) == ["raw.txt"]
    assert len(made) == 1 and len(list(folder.iterdir())) == 1
    load(version=2)
    source.write_text("two")
    load()
    assert len(made) == 3


@pytest.mark.parametrize("damage", ["cut", "empty", "flip", "header", "foreign"])
def test_damaged_prepared_files_are_made_again(counted, damage):
    load, made, _, folder = counted
    load()
    (path,) = folder.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[-40] ^= 1
    elif damage == "header":
        content[3] = 255
    new = {"cut": content[:-9], "empty": b"", "foreign": b"text" * 99}.get(damage, content)
    path.write_bytes(new)
    with pytest.warns(LeapWarning, match="was damaged"):
        arrays, _ = load()
    assert len(made) == 2 and arrays["x"].sum() == 66
    load()
    assert len(made) == 2


def test_every_byte_of_a_prepared_file_matters(counted):
    """A flipped bit anywhere in the arrays is noticed."""
    load, _, _, folder = counted
    load()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for place in range(start, len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises((ValueError, KeyError)):
            cache.read(path)


def test_where_prepared_files_go(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("LEAPCDE_CACHE", "off")
    assert cache.cache_folder(tmp_path) is None
    monkeypatch.setenv("LEAPCDE_CACHE", str(tmp_path / "mine"))
    assert cache.cache_folder(tmp_path) == tmp_path / "mine"
    monkeypatch.delenv("LEAPCDE_CACHE")
    assert cache.cache_folder(tmp_path) == tmp_path / "prepared"
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    assert cache.cache_folder(locked) == tmp_path / "user" / "leapcde"


def test_big_files_are_hashed_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "BIG", 1)
    file, folder = tmp_path / "big", tmp_path / "cache"
    file.write_text("content")
    first = cache.digest(file, folder)
    monkeypatch.setattr(cache.hashlib, "file_digest", lambda *args: pytest.fail("hashed again"))
    assert cache.digest(file, folder) == first
    monkeypatch.undo()
    monkeypatch.setattr(cache, "BIG", 1)
    file.write_text("another")
    assert cache.digest(file, folder) != first


def test_any_byte_of_a_prepared_file(tmp_path):
    """Also of its description, which says what the arrays' bytes mean: noticed, or of no effect."""
    cache.write(tmp_path / "a", {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "name": np.array(["a", "b"])}, {"n": 3})
    whole = bytearray((tmp_path / "a").read_bytes())
    told = lambda: [(k, a.dtype.str, a.shape, a.tolist()) for k, a in cache.read(tmp_path / "a")[0].items()]
    good, noticed = (told(), cache.read(tmp_path / "a")[1]), 0
    for place in range(len(whole)):
        for mask in (0x01,):
            whole[place] ^= mask
            (tmp_path / "a").write_bytes(whole)
            whole[place] ^= mask
            try:
                assert (told(), cache.read(tmp_path / "a")[1]) == good, place
            except (ValueError, KeyError, TypeError, IndexError, OverflowError):
                noticed += 1
    assert noticed > 0.5 * len(whole)
