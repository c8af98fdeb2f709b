"""Races against fixed truths and against a kill; models that are trained again on everything, and compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import leapcde
from command import leapcde as command
from leapcde.baselines.fitted import fit_baseline
from leapcde.data.dataset import Dataset
from leapcde.data.read import as_series
from leapcde.data.series import join
from leapcde.data.split import folds
from leapcde.ensemble.fitted import FittedEnsemble
from leapcde.ensemble.weigh import losses
from leapcde.errors import InputError, LeapWarning, TrainingError
from leapcde.estimators.certainty.calibrate import Evidence, calibrated, judged_by_others, learn_calibration
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.regressor import LeapRegressor
from leapcde.estimators.run import run
from leapcde.estimators.several import race as racing
from leapcde.estimators.several.race import Candidate
from leapcde.paths.batch import Recipe
from leapcde.training.fitted import FittedModel
from leapcde.training.history import History
from leapcde.training.preprocess import Preprocessor

TINY = {"options": {"hidden": 4}, "epochs": 2}
SMALL = {"model": "gru", "options": {"hidden": 4}}


def walks(count: int = 60, seed: int = 0) -> tuple[leapcde.Series, np.ndarray]:
    """Random walks, and where their first channel ends."""
    values = np.random.default_rng(seed).normal(size=(count, 6, 2)).cumsum(1)
    return as_series(values), values[:, -1, 0]


@pytest.fixture
def short(monkeypatch):
    """Races of the baselines and two small models."""
    small = [Candidate("gru", SMALL), Candidate("lstm", {"model": "lstm", "options": {"hidden": 4}})]
    monkeypatch.setattr(racing, "CANDIDATES", small)


def test_a_race_answers_with_what_wins(short, tmp_path):
    """Where a line is the truth, the ridge wins over two epochs of anything; the file holds it, and says what it is."""
    X, y = walks(200)
    one = LeapRegressor("auto", epochs=2, calibration=0.2).fit(X, y)
    rows = {row["candidate"]: row for row in one.race_}
    assert list(rows) == ["mean", "ridge", "boosted-trees", "extra-trees", "gru", "lstm"]
    assert rows["ridge"]["weight"] == 1 and one.score(X, y) > 0.99
    assert {row["candidate"] for row in one.history_} == {"gru", "lstm"}
    one.save(tmp_path / "model.safetensors")
    again = leapcde.load(tmp_path / "model.safetensors")
    assert again.model == "auto" and again.predict(X).tolist() == one.predict(X).tolist()
    assert again.permutation_importance(X, y, repeats=1)["x0"][0] > 0.5
    with pytest.raises(InputError, match="a baseline alone"):
        again.explain(X)
    with pytest.raises(InputError, match="does not learn a path"):
        again.predict_at(X)
    with pytest.raises(InputError, match="cannot be streamed"):
        again.stream()


def test_what_cannot_be_told_apart_is_averaged(short):
    rng = np.random.default_rng(0)
    X, label = as_series(rng.normal(size=(50, 4, 1))), rng.integers(0, 2, 50)
    one = LeapClassifier("auto", epochs=1, validation=0.3).fit(X, label)
    weights = [row["weight"] for row in one.race_]
    assert sum(weights) == pytest.approx(1) and sum(weight > 0 for weight in weights) > 1
    assert isinstance(one.fitted_, FittedEnsemble) and one.predict_proba(X).sum(1) == pytest.approx(1)
    assert len(one.predict_set(X, 0.8)) == 50


def test_forecasts_are_raced_for(short):
    X = np.sin(np.arange(60.0)[None, :, None] / 3 + np.arange(8.0)[:, None, None])
    one = LeapForecaster("auto", horizon=3, window=20, epochs=1).fit(X)
    assert one.predict(X).shape == (8, 3, 1) and {row["candidate"] for row in one.race_} >= {"last-value", "ridge", "gru"}
    stream = one.stream()
    for t, x in enumerate(X[0]):
        stream.push(float(t), x)
    np.testing.assert_allclose(stream.predict(), one.predict(X)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("when", [1, pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)])
def test_a_killed_race_goes_on_bit_for_bit(short, tmp_path, when):
    X, y = walks(40)
    label, seen = (y > 0).astype(int), []

    def kill(row):
        seen.append(row)
        if len(seen) == when:
            raise KeyboardInterrupt

    one = lambda **more: LeapClassifier("auto", epochs=2).fit(X, label, **more)
    whole = one()
    with pytest.raises(KeyboardInterrupt):
        one(checkpoint=tmp_path / "t.safetensors", callbacks=[kill])
    again = one(checkpoint=tmp_path / "t.safetensors", callbacks=[seen.append])
    assert len(seen) == 4  # no epoch is trained twice
    strip = lambda made: [{key: value for key, value in row.items() if key != "seconds"} for row in made.race_]
    assert strip(again) == strip(whole) and again.predict_proba(X).tolist() == whole.predict_proba(X).tolist()


def test_a_race_keeps_to_its_time(short, monkeypatch, tmp_path):
    """Time stands still but for 30 s an epoch: the first model has its epochs cut to what fits, the second none."""
    now = [0.0]
    monkeypatch.setattr(racing.time, "perf_counter", lambda: now[0])
    passing = lambda row: now.__setitem__(0, now[0] + 30)
    monkeypatch.setattr(racing, "_seconds", lambda row: 30.0)
    X, y = walks(40)
    one = LeapRegressor("auto", epochs=50, time_limit=600)
    one.fit(X, y, callbacks=[passing], checkpoint=tmp_path / "t.safetensors")
    rows = {row["candidate"]: row for row in one.race_}
    epochs = sum(row["candidate"] == "gru" for row in one.history_)
    assert 15 <= epochs <= 20 and rows["gru"]["why"] == ""
    assert rows["lstm"]["why"] == "no time was left" or rows["lstm"]["why"].startswith("would take about")
    assert json.loads((tmp_path / "race" / "gru.epochs.json").read_text()) == epochs
    now[0] = 0.0
    short_of_time = LeapRegressor("auto", epochs=50, time_limit=70).fit(X, y, callbacks=[passing])
    assert all(row["why"] == "would take about 24 minutes" for row in short_of_time.race_[-2:])


def test_a_callback_ends_a_race_and_an_ensemble(short):
    X, y = walks(40)
    one = LeapRegressor("auto", epochs=9).fit(X, y, callbacks=[lambda row: row["epoch"] == 1])
    assert len(one.history_) == 2 and one.race_[-1]["why"] == "a callback had stopped the race"
    two = LeapRegressor("gru", ensemble=3, options={"hidden": 4}, epochs=9).fit(X, y, callbacks=[lambda row: row["epoch"] == 1])
    assert two.n_iter_ == 2 and "a callback stopped it" in two.stopped_
    assert "gru" in two.summary() and "parameters" in one.summary()


def test_races_that_cannot_be_run(short, monkeypatch):
    X, y = walks(40)
    for wrong, message in (
        ({"options": {"hidden": 4}}, "options belong to a model"),
        ({"time_limit": 0}, "time_limit 0: give seconds"),
        ({"warm_start": True}, "needs a model by its name"),
        ({"training": {"schedule": "step"}}, "no schedule 'step'"),
        ({"ensemble": 0}, "how many members"),
    ):
        with pytest.raises(InputError, match=message):
            LeapRegressor("auto", **wrong).fit(X, y)
    with pytest.raises(InputError, match="partial_fit needs a model"):
        LeapRegressor("auto").partial_fit(X, y)
    monkeypatch.setattr(racing, "CANDIDATES", [Candidate("gru", {**SMALL, "learning_rate": 1e30})])
    monkeypatch.setattr(racing, "kinds_of", lambda preprocessor: {})
    with pytest.raises(TrainingError, match="no candidate of the race came through"):
        LeapRegressor("auto", epochs=2, training={"clip": None}).fit(X, y)


def table_file(folder: Path, count: int = 40) -> Path:
    X, y = walks(count)
    lines = ["id,t,a,b,label"]
    for i in range(count):
        t, values = X.sample(i)
        lines += [f"{i},{when},{a:.4f},{b:.4f},{'up' if y[i] > 0 else 'down'}" for when, (a, b) in zip(t, values, strict=True)]
    path = folder / "walks.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_command_line_races_unless_told_otherwise(short, tmp_path):
    path, out = table_file(tmp_path), tmp_path / "run"
    given = ["fit", path, "--id", "id", "--time", "t", "--target", "label", "--epochs", "1", "--out", out]
    answer = command(*given)
    assert answer.code == 0 and "candidate" in answer.out and "logistic-regression" in answer.out, answer
    result = json.loads((out / "result.json").read_text())
    assert sum(row["weight"] for row in result["race"]) == pytest.approx(1)
    table = (out / "race.csv").read_text().splitlines()
    assert table[0] == "candidate,auroc,loss,standard error,seconds,weight,why" and len(table) == 7
    again = command(*given, "--json")
    assert again.json["test"] == result["metrics"]["test"] and [row["candidate"] for row in again.json["race"]][-1] == "lstm"
    assert command("evaluate", out).code == 0 and command("predict", out, path).out.startswith("id,prediction")
    assert "other settings" in command(*given, "--time-limit", "1h").err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--time-limit", "5 parsecs"], "write seconds, minutes or hours"),
        (["--time-limit", "0s"], "write seconds, minutes or hours"),
        (["--ensemble", "0"], "greater than or equal to 1"),
        (["-o", "hidden=4"], "options belong to a model"),
    ],
)
def test_mistakes_about_races_write_nothing(tmp_path, flags, message):
    path, out = table_file(tmp_path), tmp_path / "run"
    answer = command("fit", path, "--id", "id", "--time", "t", "--target", "label", "--out", out, *flags)
    assert answer.code == 2 and message in answer.err and not out.exists()


def in_thirds(count: int = 90) -> Dataset:
    X, y = walks(count)
    X = replace(X, target=y)
    return Dataset("walks", "regression", *(X.take(np.arange(i, count, 3)) for i in range(3)))


def test_a_final_model_has_seen_everything_and_the_test_has_not(tmp_path):
    data, one = in_thirds(), lambda: LeapRegressor("gru", options={"hidden": 4}, epochs=3, calibration=0.0)
    tested, made = run(one(), data), one()
    found = run(made, data, folder=tmp_path / "run", final=True)
    assert found.metrics == tested.metrics and json.loads((tmp_path / "run" / "result.json").read_text())["final"]
    everything = join(list(data.parts.values()))
    best = History(made.history_).best("mse")["epoch"] + 1
    oracle = one().set_params(epochs=int(best)).fit(everything, validation=everything)
    assert (
        made.predict(data.test).tolist() == oracle.predict(data.test).tolist() != tested.estimator.predict(data.test).tolist()
    )
    assert leapcde.load(tmp_path / "run").predict(data.test).tolist() == made.predict(data.test).tolist()
    low, _ = made.predict_interval(data.test)
    assert np.isfinite(low).all()  # by the errors of the honest split


def test_a_final_race_keeps_its_choice(short):
    data, made = in_thirds(), LeapRegressor("auto", epochs=1, calibration=0.0)
    before = run(made, data)
    strength = made.fitted_.arrays["strength"]
    again = LeapRegressor("auto", epochs=1, calibration=0.0)
    after = run(again, data, final=True)
    assert after.metrics == before.metrics and again.fitted_.name == "ridge" and again.fitted_.arrays["strength"] == strength
    assert again.fitted_.preprocessor.target_mean == pytest.approx(float(np.mean(join(list(data.parts.values())).target)))
    assert not np.array_equal(again.fitted_.arrays["weights"], made.fitted_.arrays["weights"])


def test_a_final_run_is_not_tested_on_what_it_has_seen(short, tmp_path):
    path, out = table_file(tmp_path), tmp_path / "run"
    answer = command("fit", path, "--id", "id", "--time", "t", "--target", "label", "--epochs", "1", "--out", out, "--final")
    assert answer.code == 0 and "trained again on all data after the test" in answer.out, answer
    again = command("evaluate", out)
    assert again.code == 2 and "its test data among it" in again.err
    assert command("predict", out, path).code == 0


def test_models_are_compared_on_a_file(tmp_path):
    path, out = table_file(tmp_path), tmp_path / "compared"
    given = ["compare", path, "--id", "id", "--time", "t", "--target", "label", "--epochs", "1", "--out", out]
    answer = command(*given, "--models", "gru,lstm", "--json").json
    assert list(answer["models"]) == ["gru", "lstm"] and "boosted-trees" in answer["baselines"]
    before = (out / "gru-0" / "result.json").stat().st_mtime_ns
    text = command(*given, "--models", "gru,lstm").out
    assert "validation auroc" in text and "logistic-regression" in text
    assert (out / "gru-0" / "result.json").stat().st_mtime_ns == before  # finished runs stay
    assert (
        answer["models"]["gru"]["test"]["auroc"]
        == json.loads((out / "gru-0" / "result.json").read_text())["metrics"]["test"]["auroc"]
    )
    path.write_text(path.read_text().replace("up", "upwards"))
    assert "other data" in command(*given, "--models", "gru").err
    wrong = command(*given[:-1], tmp_path / "nowhere", "--models", "gru,leep")
    assert wrong.code == 2 and "leep" in wrong.err and not (tmp_path / "nowhere").exists()


def test_each_candidate_is_asked_about_validation_data_once(short, monkeypatch, capfd):
    """Also where its line is printed: the answer is kept, and with it the loss and the weight."""
    asked = []
    real = FittedModel.outputs
    monkeypatch.setattr(FittedModel, "outputs", lambda self, series: asked.append(self.name) or real(self, series))
    X, y = walks()
    one = LeapRegressor("auto", epochs=1, verbose=1).fit(X, y)
    assert asked == ["gru", "lstm"] and capfd.readouterr().err.count("validation mse") == 6
    assert all(row["loss"] > 0 for row in one.race_)


def two_classes(count: int, seed: int) -> leapcde.Series:
    rng, truth = np.random.default_rng(seed), np.arange(count) % 2
    return as_series(rng.normal(size=(count, 5, 3)) + 0.7 * truth[:, None, None], target=truth)


def test_nobody_is_perfect_on_thirty_lucky_samples():
    """Trees meet no mistake in the validation data, which asks for more certainty; cross-fitted, their training data knows."""
    train, others, test = two_classes(150, 0), two_classes(200, 100), two_classes(1000, 50)
    of = Preprocessor.learn(train, "classification", Recipe())
    trees = fit_baseline("boosted-trees", train, others, of)
    lucky = others.take(np.flatnonzero(trees.predict(others) == np.asarray(others.target))[:32])
    alone, _ = calibrated(trees, lucky, np.zeros(2))
    found, said = LeapClassifier()._calibrated(trees, train, lucky)
    assert alone.calibration.temperature < 1 < found.calibration.temperature
    loss = {name: one.evaluate(test)["loss"] for name, one in (("raw", trees), ("alone", alone), ("found", found))}
    assert loss["found"] < 0.7 * loss["raw"] < loss["raw"] < loss["alone"]
    judged = losses("classification", said, np.asarray(lucky.target)).mean()
    assert judged > 3 * alone.evaluate(lucky)["loss"]  # what the race is told is no longer next to nothing


def test_scores_come_from_calibrations_of_other_samples():
    """Against a slow oracle: each fifth, with what the others taught."""
    rng = np.random.default_rng(0)
    held = as_series(rng.normal(size=(23, 4, 1)), target=rng.integers(0, 3, 23))
    truth, scores, shift = np.asarray(held.target), 4 * rng.normal(size=(23, 3)), np.array([0.1, 0.0, -0.1])
    more = Evidence(rng.normal(size=(10, 3)), rng.integers(0, 3, 10))
    found = judged_by_others(held, Evidence(scores, truth).and_more(more), shift)
    part = folds(held, truth, 5)
    assert sorted(np.bincount(part)) == [4, 4, 5, 5, 5] and [len(set(part[truth == c])) >= 4 for c in range(3)] == [True] * 3
    for i in range(23):
        others = part != part[i]
        labels = np.concatenate([truth[others], more.truth])
        one = learn_calibration(np.concatenate([scores[others], more.scores]), labels, shift)
        np.testing.assert_allclose(found[i], one(scores[[i]])[0], rtol=1e-9)
    visits = replace(held, ids=np.arange(23) // 3)
    assert all(len(set(folds(visits, truth, 5)[visits.ids == name])) == 1 for name in set(visits.ids))


def test_a_note_is_told_once_by_each_model(short):
    X, y = walks()
    holes = X.values.copy()
    holes[X.offsets[3] : X.offsets[4], 1] = np.nan
    one = LeapRegressor("gru", **TINY).fit(X, y)
    with pytest.warns(LeapWarning, match="never observed"):
        one.predict(replace(X, values=holes))
    one.predict(replace(X, values=holes))  # a warning would be an error
