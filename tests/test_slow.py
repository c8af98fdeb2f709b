"""Minutes of training on real data: `make test-slow`. Each test prints the numbers it judges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from aeon.datasets import load_basic_motions

from leapcde import LeapClassifier
from leapcde.console import Hooks
from leapcde.datasets import describe, hopper, load, mujoco
from leapcde.experiments.demo import demo
from leapcde.experiments.presets import paper_options
from leapcde.experiments.run import RunConfig, load_data, run
from leapcde.inputs import join
from leapcde.train import TrainConfig

pytestmark = pytest.mark.slow


@contextmanager
def silent(title, epochs, metric):
    yield Hooks(None, None)


def test_leap_beats_the_last_value_over_three_seeds():
    found = demo([0, 1, 2], silent)
    rows = {row["model"]: row for row in found.rows()}
    print(json.dumps(rows, indent=1))
    assert rows["leap"]["seeds"] == 3
    assert rows["leap"]["mean"] <= 0.75 * rows["last-value"]["mean"]


@pytest.mark.parametrize("model", ["leap", "ncde"])
def test_character_trajectories_with_30_percent_dropped(model, data_dir):
    """The paper's architecture; α is 1 and not the paper's 1e-6, for which see docs/findings.md."""
    options = {**paper_options("character-trajectories", model), "solver": "midpoint"}
    if model == "leap":
        options |= {"alpha": 1.0, "decoder_steps": 32}
    train = TrainConfig(epochs=60, batch=32, rate=2e-3, schedule="cosine", weight_penalty=0.003, seed=112)
    config = RunConfig("character-trajectories", model, 0.3, options, train=train, data_dir=str(data_dir))
    rows = []
    result = run(config, load_data(config), on_epoch=rows.append)
    print([round(row["accuracy"], 4) for row in rows], result.metrics)
    assert result.metrics["test"]["accuracy"] >= 0.97


def test_ten_thousand_simulations_are_byte_identical(tmp_path):
    pytest.importorskip("dm_control")
    for place in (tmp_path / "a", tmp_path / "b"):
        hopper.make(place / mujoco.MADE, 10_000, 0)
    one, two = ((place / mujoco.MADE).read_bytes() for place in (tmp_path / "a", tmp_path / "b"))
    assert one == two
    assert all(row.ok for row in describe.check("mujoco", data_dir=tmp_path / "a"))


MEASURE = """
import json, resource, time
from leapcde import datasets
seconds = []
for _ in range(2):
    began = time.process_time()
    datasets.load("sepsis")
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
    fitted = LeapClassifier().fit(join([data.train, data.validation]))
    print(fitted.n_iter_, sum(row["seconds"] for row in fitted.history_))
    assert fitted.score(data.test) >= 0.95


def test_defaults_on_basic_motions():
    (X, y), (X_new, y_new) = (load_basic_motions(split=part) for part in ("train", "test"))
    fitted = LeapClassifier(layout="channels_first").fit(X, y)
    print(fitted.n_iter_, sum(row["seconds"] for row in fitted.history_), fitted.score(X_new, y_new))
    assert fitted.score(X_new, y_new) >= 0.95
