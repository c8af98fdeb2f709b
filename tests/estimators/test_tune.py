"""The search for settings: resumable, pruned, and blind to the test data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.base import clone

from leapcde.data.dataset import DataRequest, Dataset
from leapcde.data.read import as_series
from leapcde.data.split import split
from leapcde.errors import CheckpointError, InputError, LeapWarning, MissingDependencyError
from leapcde.estimators import tune as module
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.run import open_run
from leapcde.models.registry import options_of
from leapcde.training.metrics import LOWER_IS_BETTER

REQUEST = DataRequest("mine")


@pytest.fixture(scope="module")
def question():
    """Data in which the class is to be seen from the mean of a channel."""
    rng, label = np.random.default_rng(0), np.arange(40) % 2
    series = as_series(rng.normal(size=(40, 6, 1)) + 2 * label[:, None, None], target=label)
    options = {"width": 4, "depth": 1}
    estimator = LeapClassifier("ncde", options=options, epochs=2, batch_size=16)
    return estimator, Dataset("mine", "classification", *split(series, labels=label))


def having(estimator: LeapClassifier, **params: Any) -> LeapClassifier:
    return clone(estimator).set_params(**params)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "SIZES", {"hidden": (4, 5)})


def test_goes_on_where_it_was_and_tests_once(question, tmp_path, monkeypatch):
    estimator, data = question
    seen = []
    run = module.run
    monkeypatch.setattr(module, "run", lambda *args, folder, **how: seen.append(folder) or run(*args, folder=folder, **how))
    counts: list[int] = []

    def tune(name: str, trials: int, one=estimator, **how):
        return module.tune(one, data, tmp_path / name, trials=trials, request=REQUEST, **how)

    tune("s", 1, progress=counts.append)
    first = (tmp_path / "s" / "study.journal").read_text()
    found = tune("t", 2)
    assert found.finished + found.pruned == 2 and seen == [tmp_path / "s" / "best", tmp_path / "t" / "best"]
    assert counts == [0, 1] and first
    again = tune("t", 2)  # nothing left to try
    assert again.best_trials == found.best_trials and again.test == found.test
    request, kept, settings = open_run(Path(found.run))
    assert settings["options"]["hidden"] == found.best_trials[0]["settings"]["hidden"] and request == REQUEST
    assert kept.fitted_.evaluate(data.test) == found.test
    assert json.loads((tmp_path / "t" / "best.json").read_text())["metric"] == "auroc" not in LOWER_IS_BETTER
    with pytest.raises(InputError, match="a study of other data or settings"):
        module.tune(estimator, data, tmp_path / "t", trials=2, request=replace(REQUEST, drop=0.5))
    with pytest.raises(InputError, match="a study of other data or settings"):
        tune("t", 2, having(estimator, epochs=3))
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "mine.txt").write_text("precious")
    with pytest.raises(InputError, match="not empty and not a study"):
        tune("u", 1)


def test_trials_never_see_the_test_data(question, tmp_path):
    estimator, data = question
    blind = replace(data, test=data.test.take([]))
    study = module._open(tmp_path, "auroc", 0)
    trial = study.ask()
    study.tell(trial, **module._outcome(trial, module.suggested(estimator, trial), blind, "auroc"))
    assert 0 <= study.best_value <= 1


def test_a_trial_that_is_stopped_has_not_been_made(question, tmp_path, monkeypatch, capfd):
    """Optuna's own loop prints a traceback there, and counts the trial as one that failed."""
    estimator, data = question
    tried, real = [], module._outcome

    def stopped(trial, *given):
        tried.append(trial.number)
        if len(tried) == 2:
            raise KeyboardInterrupt
        return real(trial, *given)

    monkeypatch.setattr(module, "_outcome", stopped)
    search = lambda: module.search(estimator, data, tmp_path / "study", trials=2)[0]
    with pytest.raises(KeyboardInterrupt):
        search()
    assert "Traceback" not in capfd.readouterr().err
    states = [trial.state.name for trial in search().trials]
    assert tried == [0, 1, 2] and states == ["COMPLETE", "RUNNING", "COMPLETE"]


def test_a_trial_that_falls_behind_is_pruned(question):
    estimator, data = question

    class Slow:
        number = 1

        def report(self, value, step):
            self.seen = value

        def should_prune(self):
            return True

    slow = Slow()
    found = module._outcome(slow, having(estimator, options={"hidden": 4, "width": 4, "depth": 1}), data, "auroc")
    assert found == {"state": optuna.trial.TrialState.PRUNED}
    assert 0 <= slow.seen <= 1


@pytest.mark.parametrize(("interpolation", "steps"), [("rectilinear", None), ("linear", 64)])
def test_a_causal_path_is_tried_without_steps(question, interpolation, steps):
    estimator, _ = question
    trial = optuna.trial.FixedTrial({"hidden": 4, "learning_rate": 1e-3, "interpolation": interpolation, "intensity": False})
    found = module.suggested(having(estimator, options={"steps": 64}), trial)
    assert found.options["steps"] == steps and found.interpolation == interpolation and found.learning_rate == 1e-3


def test_the_default_model_is_tried_with_options_that_it_has():
    chosen = {"hidden": 4, "alpha": 0.5, "learning_rate": 1e-3, "interpolation": "rectilinear", "intensity": False}
    found = module.suggested(LeapClassifier(), optuna.trial.FixedTrial(chosen))
    assert found.model == "leap+" and found.options == {"hidden": 4, "alpha": 0.5}
    assert set(found.options) <= set(options_of(found.model))


def test_a_space_of_ones_own_goes_where_its_names_belong(question):
    """To parameters, to the training, to the model's options, as the paper's sets do."""
    estimator, _ = question
    space = {"learning_rate": (5e-3, 1e-3), "weight_penalty": (0.1,), "hidden": (10, 20)}
    trial = optuna.trial.FixedTrial({"learning_rate": 5e-3, "weight_penalty": 0.1, "hidden": 10})
    found = module.suggested(estimator, trial, space)
    assert found.learning_rate == 5e-3 and found.training == {"weight_penalty": 0.1} and found.options["hidden"] == 10
    assert found.interpolation == estimator.interpolation and estimator.training is None


def test_optuna_is_needed_only_here(question, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingDependencyError, match=r"leapcde\[tune\]"):
        module.tune(*question, tmp_path / "s", trials=1)


def test_a_half_written_line_loses_nothing_else(question, tmp_path, monkeypatch):
    """What a full disk leaves at the end of the journal."""
    estimator, data = question
    journal = tmp_path / "s" / "study.journal"
    found, _ = module.search(estimator, data, tmp_path / "s", trials=1)
    whole = journal.read_bytes()
    for left in (b'{"op_code": 4, "worker', b'{"op_code": 4, "worker\n{"op_code": 5}\n', b"\0" * 20):
        journal.write_bytes(whole + left)
        with pytest.warns(LeapWarning, match="goes on from its last whole line"):
            again, _ = module.search(estimator, data, tmp_path / "s", trials=1)
        assert journal.read_bytes().startswith(whole) and [t.value for t in again.trials] == [t.value for t in found.trials]


def test_a_full_disk_is_one_message(question, tmp_path, monkeypatch):
    estimator, data = question

    def full(*args, **how):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(optuna.Study, "tell", full)
    with pytest.raises(InputError, match=r"cannot write .*study.journal: No space left"):
        module.search(estimator, data, tmp_path / "s", trials=1)
    (tmp_path / "s" / "study.json").write_text("{")
    with pytest.raises(CheckpointError, match="is damaged"):
        module.search(estimator, data, tmp_path / "s", trials=1)


def test_locks_of_a_killed_study_go(tmp_path):
    """Optuna gives its lock another name before it removes it; a kill in between leaves that one."""
    left = [tmp_path / f"{module.JOURNAL}{name}" for name in (".lock", ".lock4a97e8e7.rename")]
    for lock in left:
        lock.symlink_to(tmp_path / module.JOURNAL)
    module._open(tmp_path, "auroc", 0)
    assert not any(lock.is_symlink() for lock in left)
