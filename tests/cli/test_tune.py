"""The search for settings: resumable, pruned, and blind to the test data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
from leapcde.cli.own import own_run
from leapcde.cli.run import RunConfig, open_run

from leapcde.cli import tune as module
from leapcde.data.files import Columns
from leapcde.errors import InputError
from leapcde.paths.batch import Recipe
from leapcde.training.metrics import LOWER_IS_BETTER
from leapcde_paper import presets


@pytest.fixture(scope="module")
def question(tmp_path_factory):
    """A file in which the class is to be seen from the mean of a channel."""
    folder = tmp_path_factory.mktemp("tune")
    rng = np.random.default_rng(0)
    rows = [{"id": i, "t": t, "x": rng.normal() + 2 * (i % 2), "y": i % 2} for i in range(40) for t in range(6)]
    pd.DataFrame(rows).to_csv(folder / "a.csv", index=False)
    asked = RunConfig(str(folder / "a.csv"), "ncde", recipe=Recipe("linear"), columns=Columns("id", "t", "y"))
    return own_run(asked, {"epochs": 2, "batch_size": 16, "seed": 0})


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "SIZES", {"hidden": (4, 5)})


def test_goes_on_where_it_was_and_tests_once(question, tmp_path, monkeypatch):
    config, data = question
    config = replace(config, options={**config.options, "width": 4, "depth": 1})
    seen = []
    run = module.run
    monkeypatch.setattr(module, "run", lambda config, data, folder: seen.append(folder) or run(config, data, folder=folder))
    counts: list[int] = []
    module.tune(config, data, tmp_path / "s", trials=1, progress=counts.append)
    first = (tmp_path / "s" / "study.journal").read_text()
    found = module.tune(config, data, tmp_path / "t", trials=2)
    assert found.finished + found.pruned == 2 and seen == [tmp_path / "s" / "best", tmp_path / "t" / "best"]
    assert counts == [0, 1] and first
    again = module.tune(config, data, tmp_path / "t", trials=2)  # nothing left to try
    assert again.best_trials == found.best_trials and again.test == found.test
    kept, fitted = open_run(Path(found.run))
    assert kept.options["hidden"] == found.best_trials[0]["settings"]["hidden"]
    assert fitted.evaluate(data.test) == found.test
    assert json.loads((tmp_path / "t" / "best.json").read_text())["metric"] == "auroc" not in LOWER_IS_BETTER
    with pytest.raises(InputError, match="a study of other data or settings"):
        module.tune(replace(config, drop=0.5), data, tmp_path / "t", trials=2)
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "mine.txt").write_text("precious")
    with pytest.raises(InputError, match="not empty and not a study"):
        module.tune(config, data, tmp_path / "u", trials=1)


def test_trials_never_see_the_test_data(question, tmp_path, monkeypatch):
    config, data = question
    config = replace(config, options={**config.options, "width": 4, "depth": 1})
    blind = replace(data, test=data.test.take([]))
    study = module._open(tmp_path, "auroc", 0)
    study.optimize(lambda trial: module._try(trial, module.suggested(config, trial), blind, "auroc"), n_trials=1)
    assert 0 <= study.best_value <= 1


def test_a_trial_that_falls_behind_is_pruned(question, monkeypatch):
    config, data = question

    class Slow:
        params: dict = {}  # noqa: RUF012

        def report(self, value, step):
            self.seen = value

        def should_prune(self):
            return True

    config = replace(config, options={"hidden": 4, "width": 4, "depth": 1})
    with pytest.raises(module.optuna.TrialPruned):
        module._try(Slow(), config, data, "auroc")


@pytest.mark.parametrize(("path", "steps"), [("rectilinear", None), ("linear", 64)])
def test_a_causal_path_is_tried_without_steps(question, path, steps):
    config, _ = question
    config = replace(config, model="ncde", options={"steps": 64})
    trial = optuna.trial.FixedTrial({"hidden": 4, "learning_rate": 1e-3, "path": path, "intensity": False})
    assert module.suggested(config, trial).options["steps"] == steps


def test_the_papers_sets_are_searched_when_asked_for(question):
    config, _ = question
    space = presets.space("character-trajectories", "ncde")
    trial = optuna.trial.FixedTrial({"learning_rate": space["learning_rate"][-1], "hidden": space["hidden"][0]})
    found = module.suggested(config, trial, space)
    assert found.train.learning_rate == 5e-3 and found.options["hidden"] == 10 and found.recipe == config.recipe
