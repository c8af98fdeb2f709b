"""Side-by-side runs: nothing is run twice, nothing is overwritten, and the table is what the records say."""

from __future__ import annotations

import json

import numpy as np
import pytest

from leapcde.errors import CheckpointError
from leapcde.experiments import compare as module
from leapcde.experiments import presets
from leapcde.experiments.compare import compare, name_of, table_of
from leapcde.experiments.run import RunConfig
from leapcde.models import MODELS, build, options_of
from leapcde.models.base import Spec
from leapcde.train import TrainConfig

DATA = ("character-trajectories", "speech-commands", "sepsis", "mujoco")


def configs(epochs=1):
    return [
        RunConfig("hopper", name, 0.3, {"hidden": 4}, train=TrainConfig(epochs=epochs, batch=256, seed=seed))
        for name, seed in (("rnn", 0), ("rnn", 1), ("gru", 0))
    ]


def test_cells_run_once_and_the_table_is_made_of_their_records(tmp_path, monkeypatch):
    counts: list[int] = []
    first = compare(configs()[:2], tmp_path, on_cells=counts.append)
    assert counts == [1, 2] and [record["seed"] for record in first] == [0, 1]
    ran: list[str] = []
    original = module.run_cell
    monkeypatch.setattr(module, "run_cell", lambda c, folder: ran.append(name_of(c)) or original(c, folder))
    records = compare(configs(), tmp_path)
    assert ran == ["hopper-30-gru-0"]
    rows = table_of(records)
    scores = [record["metrics"]["test"]["mse"] for record in records]
    assert [row["model"] for row in rows] == ["rnn", "gru"] and [row["seeds"] for row in rows] == [2, 1]
    assert rows[0]["mean"] == np.mean(scores[:2]) and rows[0]["std"] == np.std(scores[:2], ddof=1)
    assert rows[0]["lowest"] == min(scores[:2]) and rows[0]["paper"] is None
    written = json.loads((tmp_path / "hopper-30-rnn-1.json").read_text())
    assert written == json.loads(json.dumps(records[1]))
    assert written["config"]["data_dir"] is None and written["versions"]["jax"] and written["parameters"] > 0

    with pytest.raises(CheckpointError, match="other settings"):
        compare(configs(epochs=2), tmp_path)
    (tmp_path / "hopper-30-rnn-1.json").write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        compare(configs(), tmp_path)


@pytest.mark.parametrize("data", DATA)
def test_every_model_has_a_size_for_every_data_set_of_the_paper(data):
    for name in MODELS:
        for options in (presets.sizes(data, name), presets.paper_options(data, name)):
            assert options["hidden"] >= 15 and not set(options) - set(options_of(name))
    assert presets.sizes(data, "gru")["hidden"] == {"character-trajectories": 40, "speech-commands": 160, "mujoco": 180}.get(
        data, 60
    )
    assert len(presets.seeds(data)) == 5


def test_paper_presets_can_be_built():
    spec = Spec("classification", 3, 4, (20,), span=181.0)
    for name in ("gru-d", "latent-ode", "ancde", "layers+ncde"):
        build(name, spec, **presets.paper_options("character-trajectories", name))
