"""Sweeps: every cell once, whatever is killed on the way, and the same numbers wherever cells run."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leapcde.errors import InputError, LeapWarning
from leapcde.models.registry import MODELS
from leapcde.training.config import TrainConfig
from leapcde_paper.run import records
from leapcde_paper.run.cell import PROTOCOL, Cell, CellConfig
from leapcde_paper.run.data import cell_data, hash_of
from leapcde_paper.run.estimate import GUESS, SMALL, estimate
from leapcde_paper.run.experiment import Experiment, Setting, from_toml, to_toml
from leapcde_paper.run.live import best_so_far, line
from leapcde_paper.run.sweep import identify, sweep
from leapcde_paper.run.train_cell import LOCKS, is_running, locked

DROPS = (0.0, 0.2, 0.3, 0.5)


def baseline(model: str, drop: float) -> Cell:
    return Cell(CellConfig("hopper", model, drop), "own", samples=40, length=12)


def trained(seed: int = 0, epochs: int = 12, model: str = "rnn") -> Cell:
    train = TrainConfig(epochs=epochs, batch_size=16, seed=seed)
    return Cell(CellConfig("hopper", model, 0.3, {"hidden": 4}, train=train), "own", samples=40, length=12)


def cells() -> list[Cell]:
    return [baseline(model, drop) for model in ("last-value", "ridge") for drop in DROPS] + [trained(1)]


def numbers(found: list[records.Record]) -> dict[str, object]:
    """What must not depend on how often a sweep was killed, or on where it ran."""
    clock = ("seconds", "cpu_seconds")
    rows = {r["id"]: [{k: v for k, v in row.items() if k not in clock} for row in r["history"]] for r in found}
    return {r["id"]: (r["metrics"], rows[r["id"]], r["parameters"]) for r in found}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[records.Record]:
    return sweep(cells(), tmp_path_factory.mktemp("undisturbed")).records


def test_cells_run_once_and_say_how_far_they_are(tmp_path, undisturbed):
    told: list[str] = []
    first = sweep(cells()[:2], tmp_path, on_progress=lambda progress: told.append(line(progress)))
    assert told[0].startswith("0/2 done · 0 running · 0 failed") and told[-1].startswith("2/2 done")
    assert "best on hopper 0%: last-value MSE" in told[-1] or "best on hopper 20%" in told[-1]
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    again = sweep(cells()[:3], tmp_path)
    assert [r["id"] for r in again.records][:2] == [r["id"] for r in first.records] and len(again.records) == 3
    assert all(path.stat().st_mtime_ns == written for path, written in times.items())
    assert numbers(again.records).items() <= numbers(undisturbed).items()


def test_the_best_so_far_is_of_the_same_data(undisturbed):
    easier = {
        **undisturbed[0],
        "data_hash": "one step ahead instead of ten",
        "metrics": {"test": {"mse": 0.0, "mse_units": 0.0}},
    }
    last = undisturbed[0]
    assert best_so_far([last]) and best_so_far([easier, last]) == best_so_far([last])


def test_a_record_holds_what_the_table_and_the_reader_need(undisturbed):
    record = undisturbed[-1]
    assert set(records.KEYS) <= set(record)
    assert record["model"] == "rnn" and record["seed"] == 1 and record["budget"] == "own" and record["drop"] == 0.3
    assert set(record["metrics"]) == {"validation", "test"} and record["metrics"]["test"]["mse_units"] > 0
    assert len(record["history"]) == 12 and record["parameters"] > 0 and record["split_sizes"]["train"] == 40
    assert 0 < record["memory"]["step_bytes"] < record["memory"]["process_bytes"]
    assert (
        "data_dir" not in record["config"]
        and record["versions"]["jax"]
        and record["data_hash"] == hash_of(cell_data(trained(1)))
    )
    ridge = next(r for r in undisturbed if r["model"] == "ridge")
    assert ridge["history"] == [] and ridge["parameters"] is None and ridge["memory"]["step_bytes"] is None


def test_identity_follows_settings_data_and_protocol(monkeypatch):
    one = trained()
    others = [trained(seed=1), trained(epochs=3), trained(model="gru"), replace(one, budget="full"), replace(one, samples=30)]
    assert len({cell.key for cell in [one, *others]}) == 6
    assert one.identity("a") != one.identity("b") and identify([one, one])[0].cell == one
    before = one.key
    monkeypatch.setattr("leapcde_paper.run.cell.PROTOCOL", PROTOCOL + 1)
    assert one.key != before
    assert Cell.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_a_model_that_changed_has_cells_of_its_own(monkeypatch):
    """Records of an earlier LEAP must not be taken for results of this one; other models keep theirs."""
    cells = {name: Cell(CellConfig("hopper", name)) for name in ("leap", "ncde", "ridge")}
    before = {name: cell.key for name, cell in cells.items()}
    monkeypatch.setitem(MODELS, "leap", replace(MODELS["leap"], revision=MODELS["leap"].revision + 1))
    assert {name for name, cell in cells.items() if cell.key != before[name]} == {"leap"}


def test_a_damaged_record_is_reported_and_its_cell_run_again(tmp_path):
    [whole] = sweep([baseline("last-value", 0.0)], tmp_path).records
    [path] = (tmp_path / "records").glob("*.json")
    for broken in (path.read_text()[:100], "{}", "[1]"):
        path.write_text(broken)
        with pytest.warns(LeapWarning, match="is damaged"):
            again = sweep([baseline("last-value", 0.0)], tmp_path)
        assert numbers(again.records) == numbers([whole])
        assert path.with_suffix(".corrupt").read_text() == broken


def test_collected_records_are_the_same_and_not_run_again(tmp_path):
    """Three files in place of two a cell: every number to the last bit, also beside records that came later."""
    some = [trained(1, epochs=2), baseline("ridge", 0.3)]
    before = {r["id"]: r for r in sweep(some, tmp_path).records}
    answers = {i: records.arrays(tmp_path, r) for i, r in before.items()}
    assert records.collect(tmp_path) == 2 and not list((tmp_path / "records").iterdir())
    after = {r["id"]: r for r in records.read_all(tmp_path)}
    assert {i: r | {"arrays": None} for i, r in after.items()} == {i: r | {"arrays": None} for i, r in before.items()}
    for i, arrays in answers.items():
        found = records.arrays(tmp_path, after[i])
        assert found.keys() == arrays.keys() and all(np.array_equal(found[key], arrays[key]) for key in arrays)
    assert {path.suffix for path in tmp_path.iterdir() if path.is_file()} == {".parquet"}
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.parquet")}
    again = sweep([*some, baseline("ridge", 0.0)], tmp_path).records
    assert [r["id"] for r in again[:2]] == list(before) and len(state(tmp_path)) == 1  # only the new one was run
    assert all(path.stat().st_mtime_ns == written for path, written in times.items())
    assert len(records.read_all(tmp_path)) == 3 and records.collect(tmp_path) == 1 and len(records.read_all(tmp_path)) == 3


def test_a_number_that_is_none_survives_the_collection(tmp_path):
    [record] = sweep([trained(epochs=1)], tmp_path).records
    row = record["history"][0] | {"auroc": None}
    path = tmp_path / "records" / f"{record['name']}.json"
    path.write_text(json.dumps(record | {"history": [row], "metrics": {"validation": {}, "test": {"mse": None}}}))
    records.collect(tmp_path)
    [found] = records.read_all(tmp_path)
    assert found["history"] == [row] and found["metrics"]["test"] == {"mse": None}


def test_what_a_kill_left_of_a_run_folder_does_not_stop_its_cell(tmp_path):
    job = identify([trained(epochs=1)])[0]
    home = tmp_path / "cells" / job.name
    home.mkdir(parents=True)
    (home / ".config.json.1.tmp").write_text("{")
    assert not sweep([trained(epochs=1)], tmp_path).failures
    assert not list(home.glob(".*")) and not (home / "training.safetensors").exists() and (home / "model.safetensors").exists()


@pytest.mark.parametrize("left", ["training.safetensors", "training.older.safetensors"])
def test_what_a_kill_left_behind_a_record_goes(tmp_path, left):
    """It came between the record and the end of its cell, which is not run again."""
    [record] = sweep([baseline("last-value", 0.0)], tmp_path).records
    home = tmp_path / "cells" / record["name"]
    home.mkdir(parents=True)
    (home / left).touch()
    other = tmp_path / "cells" / "of-another-cell" / left
    other.parent.mkdir()
    other.touch()
    sweep([baseline("last-value", 0.0)], tmp_path)
    assert not any(home.iterdir()) and other.exists()


def test_a_failing_cell_is_told_about_and_the_others_go_on(tmp_path):
    bad = replace(trained(), config=replace(trained().config, options={"hiden": 4}))
    found = sweep([bad, baseline("ridge", 0.0)], tmp_path)
    assert len(found.records) == 1 and len(found.failures) == 1 and "no option 'hiden'" in found.failures[0].message
    with pytest.raises(InputError, match="no model 'lsmt'"):
        sweep([trained(model="lsmt")], tmp_path)


def test_a_full_disk_is_one_message_a_cell(tmp_path, monkeypatch):
    """Also where a folder is made for its lock, before anything is computed."""

    def full(*given, **how):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", full)
        said = [failure.message for failure in sweep([baseline("ridge", 0.0), baseline("last-value", 0.0)], tmp_path).failures]
    assert len(said) == 2 and all("No space left on device" in one and "Traceback" not in one for one in said)
    assert not sweep([baseline("ridge", 0.0)], tmp_path).failures


def test_two_sweeps_of_one_folder_share_the_work(tmp_path):
    """A cell that another process is at is waited for, not run."""
    job = identify([baseline("ridge", 0.3)])[0]
    lock = tmp_path / LOCKS / job.name
    found: list = []
    with locked(lock):
        assert is_running(lock)
        waits = threading.Thread(target=lambda: found.append(sweep([job.cell], tmp_path)))
        waits.start()
        record = sweep([job.cell], tmp_path / "elsewhere").records[0]
        assert not found
        (tmp_path / "records").mkdir()
        text = json.dumps({**record, "stopped": "by the other process"})
        (tmp_path / "records" / f"{job.name}.json").write_text(text)
    waits.join()
    assert found[0].records[0]["stopped"] == "by the other process" and not is_running(lock)


def test_experiments_are_toml_and_back():
    config = CellConfig(
        "hopper",
        "leap",
        0.3,
        {"decoder_steps": None},
        train=TrainConfig(clip=None, learning_rate=1e-5),
        dataset_options={"horizon": 5},
    )
    one = Experiment("mine", 'My "table", α', "table", "own", (Setting("a", "b c", config, (1, 2), 40, 12, True),), "note")
    assert from_toml(to_toml(one)) == one
    assert next(from_toml(to_toml(one)).entries()).cell.config.train.clip is None
    for text, message in (
        ("name =", "not TOML"),
        ('name = "x"', "not an experiment"),
        (re.sub(r"seeds = \[.*?\]", "seeds = []", to_toml(one), flags=re.S), "no seeds"),
    ):
        with pytest.raises(InputError, match=message):
            from_toml(text)
    with pytest.raises(InputError, match="is there twice"):
        replace(one, settings=one.settings * 2)


def test_estimates_come_from_recorded_speeds(undisturbed):
    jobs = identify([trained(5, epochs=100), trained(5, model="gru")])
    slow = {**undisturbed[-1], "history": [{"cpu_seconds": 9.0}, {"cpu_seconds": 4.0}, {"cpu_seconds": 4.0}]}
    found = estimate(jobs, [slow])
    assert found.seconds == [SMALL + 4.0 * 100, SMALL + GUESS * 40 * 12] and found.guessed == 1


# ---- kills -----------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from test_sweep import cells
from leapcde_paper.run.sweep import sweep
if __name__ == "__main__":
    found = sweep(cells(), Path(sys.argv[1]), jobs=int(sys.argv[2]))
    assert not found.failures, found.failures
"""


def start(folder: Path, jobs: int) -> subprocess.Popen:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder), str(jobs)], env=env, start_new_session=True)


def state(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "records").glob("*.json")}


def kill(pid: int) -> bool:
    """Whether there was somebody to kill."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def check(folder: Path, undisturbed: list[records.Record]) -> None:
    found = records.read_all(folder)
    assert len(found) == len(undisturbed) and numbers(found) == numbers(undisturbed)
    assert not list((folder / "records").glob("*.corrupt"))


def test_a_killed_sweep_goes_on_where_it_was(tmp_path, undisturbed):
    """Killed while it trains: what was finished stays untouched, what was not goes on."""
    process = start(tmp_path, 1)
    while not list(tmp_path.glob("cells/*/training.safetensors")) and process.poll() is None:
        time.sleep(0.002)
    kill(process.pid)
    assert process.wait() == -signal.SIGKILL
    after = state(tmp_path)
    assert len(after) < len(cells())
    assert start(tmp_path, 1).wait() == 0
    assert after.items() <= state(tmp_path).items()
    check(tmp_path, undisturbed)


@contextmanager
def two_dask_workers():
    """A cluster of two single-threaded processes on this machine."""
    distributed = pytest.importorskip("distributed")
    from dask import config

    environ = {**config.get("distributed.nanny.pre-spawn-environ"), "PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = {"dashboard_address": None, "silence_logs": 50}
    with (
        config.set({"distributed.nanny.pre-spawn-environ": environ}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **quiet) as cluster,
    ):
        yield cluster


@pytest.mark.filterwarnings("ignore")  # Dask's own, when it loses a worker
@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_numbers_and_may_lose_a_worker(tmp_path, undisturbed):
    with two_dask_workers() as cluster:
        pids = [worker.pid for worker in cluster.workers.values()]
        lost: list[int] = []

        def lose(progress):
            if progress.done and not lost:
                lost.append(pids[0])
                kill(pids[0])

        found = sweep(cells(), tmp_path, cluster=cluster.scheduler_address, on_progress=lose)
        assert lost and not found.failures
    check(tmp_path, undisturbed)


def test_no_scheduler_is_one_clear_error(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", lambda *a, **k: (_ for _ in ()).throw(OSError("refused")))
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        sweep([baseline("ridge", 0.0)], tmp_path, cluster="tcp://127.0.0.1:1")
