"""Records that somebody damaged: put aside and made again where that is possible, else one error with the file's name."""

from __future__ import annotations

import json

import numpy as np
import pytest

from leapcde.errors import CheckpointError, InputError, LeapWarning
from leapcde_paper.run import collected, records
from leapcde_paper.run.experiment import from_toml

DEEP = "[" * 100_000
RECORD = dict.fromkeys((*collected.PLAIN, *records.KEYS), 1) | {"name": "a", "id": "b", "history": [{"epoch": 0}]}


def test_a_record_deeper_than_python_can_go(tmp_path):
    (tmp_path / "a.json").write_text(DEEP)
    with pytest.warns(LeapWarning, match="is damaged"):
        assert records.read(tmp_path / "a.json") is None
    assert (tmp_path / "a.corrupt").read_text() == DEEP


def test_an_experiment_deeper_than_python_can_go():
    with pytest.raises(InputError, match="this is not"):
        from_toml(f"a = {DEEP}")


@pytest.mark.parametrize("name", [collected.CELLS, collected.HISTORY, collected.ARRAYS])
def test_collected_records_that_are_damaged(tmp_path, name):
    pytest.importorskip("pyarrow")
    collected.write(tmp_path, {"a": (RECORD, {"truth": np.arange(100.0)})})
    good = (tmp_path / name).read_bytes()
    [found] = collected.read_records(tmp_path)
    assert found["id"] == "b" and found["history"] == [{"epoch": 0}]
    for bad in (good[:-9], b"", b"PAR1" * 9, good[:4] + bytes([good[4] ^ 255]) + good[5:]):
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(CheckpointError, match=rf"{name} is damaged .*remove it and run its cells again"):
            collected.read_rows(tmp_path / name)


def test_a_flipped_bit_of_collected_numbers_is_noticed(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    collected.write_rows(path, [{"x": float(x)} for x in np.random.default_rng(0).normal(size=50)])
    whole, good = bytearray(path.read_bytes()), json.dumps(collected.read_rows(path))
    for place in range(4, 400, 7):
        whole[place] ^= 4
        path.write_bytes(whole)
        whole[place] ^= 4
        try:
            assert json.dumps(collected.read_rows(path)) == good, place
        except CheckpointError:
            continue
