"""Minutes of training on real data: `make test-slow`. Each test prints the numbers it judges."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from aeon.datasets import load_basic_motions
from test_sweep import baseline, check, kill, numbers, state, trained, two_dask_workers

from leapcde.cli.demo import demo, write_report
from leapcde.data.read import as_series
from leapcde.data.series import Series, join
from leapcde.datasets import describe, hopper, mujoco
from leapcde.datasets import registry as datasets
from leapcde.datasets.registry import load
from leapcde.estimators.classifier import LeapClassifier
from leapcde.models.registry import MODELS
from leapcde.paths.batch import Recipe
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import train_model
from leapcde.training.metrics import measure
from leapcde_paper import baselines
from leapcde_paper.budgets import BUDGETS
from leapcde_paper.figures.figures import project
from leapcde_paper.presets import paper_options
from leapcde_paper.reproduce import ask, reproduce
from leapcde_paper.run.cell import Cell, CellConfig
from leapcde_paper.run.sweep import sweep
from leapcde_paper.run.train_cell import LOCKS, is_running
from leapcde_paper.studies import preset

pytestmark = pytest.mark.slow


def test_the_demo_over_three_seeds(tmp_path):
    found = demo([0, 1, 2])
    rows = {row["model"]: row for row in found.rows()}
    print(json.dumps(rows, indent=1))
    assert rows["leap"]["seeds"] == rows["leap+"]["seeds"] == 3
    assert rows["leap"]["mean"] <= 0.75 * rows["last-value"]["mean"]
    assert rows["leap+"]["mean"] < min(row["mean"] for name, row in rows.items() if name != "leap+")
    page = write_report(found, tmp_path).read_text(encoding="utf-8")
    learned, line = (float(re.search(rf"{name} (\d\.\d+)", page)[1]) for name in ("Y", "straight line"))
    assert learned < line and page.count("<img") == 6


@pytest.mark.parametrize("model", ["leap", "ncde"])
def test_character_trajectories_with_30_percent_dropped(model, data_dir):
    """The paper's architecture; α is 1 and not the paper's 1e-6, for which see docs/findings.md."""
    options = {**paper_options("character-trajectories", model), "solver": "midpoint"}
    if model == "leap":
        options |= {"alpha": 1.0, "decoder_steps": 32}
    train = TrainConfig(epochs=60, batch_size=32, learning_rate=2e-3, schedule="cosine", weight_penalty=0.003, seed=112)
    data = load("character-trajectories", data_dir=data_dir, drop_rate=0.3)
    parts = {"task": data.task, "model": model, "options": options, "config": train}
    fitted, trained = train_model(data.train, data.validation, **parts)
    accuracy = fitted.evaluate(data.test)["accuracy"]
    print([round(row["accuracy"], 4) for row in trained.history.rows], accuracy)
    assert accuracy >= 0.97


def test_ten_thousand_simulations_are_byte_identical(tmp_path):
    pytest.importorskip("dm_control")
    for place in (tmp_path / "a", tmp_path / "b"):
        hopper.make(place / mujoco.MADE, 10_000, 0)
    one, two = ((place / mujoco.MADE).read_bytes() for place in (tmp_path / "a", tmp_path / "b"))
    assert one == two
    assert all(row.ok for row in describe.check("mujoco", data_dir=tmp_path / "a"))


MEASURE = """
import json, resource, time
from leapcde.datasets.registry import load
seconds = []
for _ in range(2):
    began = time.process_time()
    load("sepsis")
    seconds.append(time.process_time() - began)
print(json.dumps({"first": seconds[0], "again": seconds[1], "kilobytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


def test_sepsis_is_prepared_in_little_memory(data_dir, tmp_path):
    """The issue's limits: 60 s and 2 GB for the first time, 2 s later. The clock is printed, memory is judged."""
    env = {**os.environ, "LEAPCDE_DATA": str(data_dir), "LEAPCDE_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", MEASURE], env=env, capture_output=True, text=True, check=True)
    print(done.stdout)
    assert json.loads(done.stdout)["kilobytes"] < 2_000_000


# The estimators with nothing set: what a newcomer gets. Seconds are printed, not judged; they are the machine's.


def test_defaults_on_character_trajectories(data_dir):
    data = load("character-trajectories", data_dir=data_dir)
    trained = LeapClassifier().fit(join([data.train, data.validation]))
    print(trained.n_iter_, sum(row["seconds"] for row in trained.history_))
    assert trained.score(data.test) >= 0.95


@pytest.mark.filterwarnings("ignore:never observed")
def test_defaults_on_sepsis(data_dir):
    """10,000 of the training patients; the score is that of the test patients."""
    data = load("sepsis", data_dir=data_dir)
    some = np.sort(np.random.default_rng(0).permutation(len(data.train))[:10_000])
    trained = LeapClassifier(intensity=True).fit(data.train.take(some))
    auroc = trained.fitted_.evaluate(data.test)["auroc"]
    print(trained.n_iter_, sum(row["seconds"] for row in trained.history_), auroc)
    assert auroc >= 0.80


def test_defaults_on_basic_motions():
    (X, y), (X_new, y_new) = (load_basic_motions(split=part) for part in ("train", "test"))
    X, X_new = (as_series(part, layout="channels_first") for part in (X, X_new))
    trained = LeapClassifier().fit(X, y)
    print(trained.n_iter_, sum(row["seconds"] for row in trained.history_), trained.score(X_new, y_new))
    assert trained.score(X_new, y_new) >= 0.95


# ---- sweeps ----------------------------------------------------------------------------------------------------------

FORTY = """
import sys
from pathlib import Path
from test_slow import forty
from leapcde_paper.run.sweep import sweep
if __name__ == "__main__":
    found = sweep(forty(), Path(sys.argv[1]), jobs=int(sys.argv[2]))
    assert not found.failures, found.failures
"""


def forty() -> list[Cell]:
    """32 cells that take no training and 8 that do, all of them small."""
    drops = [round(0.05 * i, 2) for i in range(16)]
    return [baseline(model, drop) for model in ("last-value", "ridge") for drop in drops] + [trained(seed) for seed in range(8)]


def workers(process: subprocess.Popen) -> list[int]:
    """The processes that a sweep has started."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [child.pid for child in children if "popen_loky" in " ".join(child.cmdline())]
    except psutil.Error:
        return []


def at_work(folder: Path) -> bool:
    return any(is_running(lock) for lock in (folder / LOCKS).glob("*"))


def begin(folder: Path, jobs: int) -> subprocess.Popen:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return subprocess.Popen([sys.executable, "-c", FORTY, str(folder), str(jobs)], env=env, start_new_session=True)


def test_fifty_random_kills_lose_nothing_and_repeat_nothing(tmp_path):
    """Half the kills hit a worker, half the sweep itself. A record once written is never written again."""
    undisturbed = sweep(forty(), tmp_path / "undisturbed").records
    folder, chance, process, seen, hits = tmp_path / "disturbed", random.Random(0), None, {}, {"sweep": 0, "worker": 0}
    while sum(hits.values()) < 50:
        if process is None or process.poll() is not None:
            process = begin(folder, 2)
        while process.poll() is None and not (workers(process) and at_work(folder)):
            time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 1.5))
        targets = workers(process) if chance.random() < 0.5 else []
        if process.poll() is None and kill(chance.choice(targets) if targets else process.pid):
            hits["worker" if targets else "sweep"] += 1
        time.sleep(0.1)
        now = state(folder)
        assert seen.items() <= now.items(), f"{hits}: a record was written twice"
        seen = now
        if len(seen) == 40:  # finished before all kills were spent: go on with a few records less, as if they were lost
            for name in chance.sample(sorted(seen), 8):
                (folder / "records" / name).unlink()
                seen.pop(name)
    print(hits)
    assert min(hits.values()) > 10
    if process is not None and process.poll() is None:
        process.wait()
    assert begin(folder, 2).wait() == 0
    assert seen.items() <= state(folder).items()
    check(folder, undisturbed)


def test_a_lost_worker_of_this_machine_is_replaced(tmp_path):
    process = begin(tmp_path, 2)
    while not state(tmp_path) and process.poll() is None:
        time.sleep(0.005)
    found = workers(process)
    kill(found[0])
    assert process.wait() == 0
    check(tmp_path, sweep(forty(), tmp_path / "undisturbed").records)


def test_workers_end_with_a_killed_sweep(tmp_path):
    process = begin(tmp_path, 2)
    while process.poll() is None and not at_work(tmp_path):
        time.sleep(0.02)
    found = workers(process)
    kill(process.pid)
    process.wait()
    left = time.monotonic() + 60
    while any(map(psutil.pid_exists, found)) and time.monotonic() < left:
        time.sleep(0.2)
    assert found and not any(map(psutil.pid_exists, found))


def test_two_workers_do_nearly_twice_as_much(tmp_path):
    """On an idle machine with two cores the printed ratio is the gain. On a busy one the wall clock tells nothing, so the
    other ratio says what two workers cost each other: the processor time of the same cells, twice one's over the other's.
    """
    train = TrainConfig(epochs=6, batch_size=32)
    cells = [
        Cell(
            CellConfig(
                "hopper", "gru-d", 0.3, {"hidden": 32}, train=replace(train, seed=seed), dataset_options={"sequences": 600}
            ),
            "own",
        )
        for seed in range(6)
    ]
    wall, cpu, numbers_of = {}, {}, {}
    for jobs in (1, 2):
        began = time.perf_counter()
        found = sweep(cells, tmp_path / str(jobs), jobs=jobs).records
        wall[jobs] = time.perf_counter() - began
        cpu[jobs] = sum(row["cpu_seconds"] for record in found for row in record["history"][1:])
        numbers_of[jobs] = numbers(found)
    print(
        f"wall {wall[1]:.1f} s and {wall[2]:.1f} s: {wall[1] / wall[2]:.2f} times; by processor time {2 * cpu[1] / cpu[2]:.2f}"
    )
    assert numbers_of[1] == numbers_of[2]


@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_smoke_on_a_dask_cluster_gives_the_same_numbers(tmp_path, data_dir):
    """`leapcde reproduce all --budget smoke`, in two processes of its own and on two workers."""
    asked = ask("all", "smoke", str(data_dir)).experiments
    here, _ = reproduce(asked, tmp_path / "here", jobs=2)
    with two_dask_workers() as cluster:
        there, _ = reproduce(asked, tmp_path / "there", cluster=cluster.scheduler_address)
    assert not here.failures and not there.failures and len(here.records) > 80
    assert numbers(here.records) == numbers(there.records)


def test_minirocket_and_umap():
    data = datasets.load("character-trajectories", drop_rate=0.3)
    preprocessor, raw = baselines.scores("minirocket", data, Recipe(), 112)
    accuracy = measure("classification", raw["test"], preprocessor.encode_target(data.test.target))["accuracy"]
    how, flat = project(np.random.default_rng(0).normal(size=(60, 30)), small=False)
    print(accuracy, how)
    assert accuracy > 0.97 and how == "UMAP" and flat.shape == (60, 2)


def test_all_thirteen_models_smoke(tmp_path, data_dir, monkeypatch):
    """What CI leaves out of the smoke budget: every model of the paper's tables, on every data set."""
    smoke = BUDGETS["smoke"]
    monkeypatch.setitem(BUDGETS, "smoke", replace(smoke, models=tuple(MODELS)))
    experiments = [preset(name, "smoke", str(data_dir)) for name in ("character", "speech", "sepsis", "mujoco")]
    swept, _ = reproduce(experiments, tmp_path, jobs=2)
    assert not swept.failures
    assert {record["model"] for record in swept.records} >= {name for name, info in MODELS.items() if not info.variant}


def test_leap_plus_remembers_more_than_the_last_row():
    """Of Hopper only positions are shown: how fast they change is in earlier rows, and in those alone."""

    def positions(series: Series, alone: bool) -> Series:
        found = replace(series, values=series.values[:, :7], channels=series.channels[:7])
        found = replace(found, target=np.asarray(series.target)[..., :7])
        seen = np.flatnonzero(~np.isnan(found.values).all(1))
        last = seen[np.searchsorted(seen, found.offsets[1:]) - 1]
        return found.keep_rows(np.isin(np.arange(len(found.times)), last)) if alone else found

    data = load("hopper", drop_rate=0.3)
    parts = [part.take(np.arange(0, len(part), 5)) for part in (data.train, data.validation, data.test)]
    how = TrainConfig(epochs=10, learning_rate=3e-3, hide=0.2, warmup=1.0)
    errors = []
    for alone in (False, True):
        train, validation, test = (positions(part, alone) for part in parts)
        options = {"knots": 8, "hidden": 16, "depth": 2}
        fitted, _ = train_model(train, validation, task="forecasting", model="leap+", options=options, config=how)
        errors.append(fitted.evaluate(test)["mse"])
    print("whole windows, last rows alone:", errors)
    assert errors[0] <= 0.5 * errors[1]
