"""Ensembles against their members alone, races against fixed truths, and both against a kill."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import leapcde
from command import leapcde as command
from leapcde.data.dataset import Dataset
from leapcde.data.read import as_series
from leapcde.data.series import join
from leapcde.ensemble.fitted import FittedEnsemble, mix
from leapcde.ensemble.weigh import losses, standard_error, weigh
from leapcde.errors import CheckpointError, InputError, LeapWarning, TrainingError
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.regressor import LeapRegressor
from leapcde.estimators.run import run
from leapcde.estimators.several import race as racing
from leapcde.estimators.several.members import member_seeds
from leapcde.estimators.several.race import Candidate
from leapcde.files import load_file, save_file
from leapcde.training.history import History
from leapcde.training.metrics import softmax

TINY = {"options": {"hidden": 4}, "epochs": 2}
SMALL = {"model": "gru", "options": {"hidden": 4}}


def walks(count: int = 60, seed: int = 0) -> tuple[leapcde.Series, np.ndarray]:
    """Random walks, and where their first channel ends."""
    values = np.random.default_rng(seed).normal(size=(count, 6, 2)).cumsum(1)
    return as_series(values), values[:, -1, 0]


@pytest.fixture(scope="module")
def numbers() -> tuple[LeapRegressor, leapcde.Series, np.ndarray]:
    X, y = walks()
    return LeapRegressor("gru", ensemble=3, calibration=0.2, **TINY).fit(X, y), X, y


@pytest.fixture(scope="module")
def classes() -> tuple[LeapClassifier, leapcde.Series, np.ndarray]:
    X, y = walks()
    label = np.where(y > 0, "up", "down")
    return LeapClassifier("leap+", ensemble=2, options={"hidden": 4, "causal": True}, epochs=1).fit(X, label), X, label


@pytest.fixture
def short(monkeypatch):
    """Races of the baselines and two small models."""
    small = [Candidate("gru", SMALL), Candidate("lstm", {"model": "lstm", "options": {"hidden": 4}})]
    monkeypatch.setattr(racing, "CANDIDATES", small)


# Ensembles --------------------------------------------------------------------------------------------------------------


def test_an_ensemble_is_the_mean_of_its_members_trained_alone(numbers):
    together, X, y = numbers
    alone = [LeapRegressor("gru", seed=s, calibration=0.2, **TINY).fit(X, y).predict(X) for s in member_seeds(0, 3)]
    assert not np.allclose(alone[0], alone[1])
    np.testing.assert_allclose(together.predict(X), np.mean(alone, 0), rtol=1e-5)
    assert [row["member"] for row in together.history_] == [0, 0, 1, 1, 2, 2] and together.n_iter_ == 6
    low, high = together.predict_interval(X, coverage=0.8)
    assert np.mean((low <= y) & (y <= high)) > 0.5


def test_classes_average_probabilities_and_are_calibrated_together(classes):
    together, X, _ = classes
    fitted = together.fitted_
    mean = np.mean([softmax(one.outputs(X)) for one in fitted.members], 0)
    np.testing.assert_allclose(softmax(fitted.calibration(np.log(mean))), together.predict_proba(X), rtol=1e-5)
    assert fitted.calibration.temperature != 1 and all(one.calibration is not None for one in fitted.members)
    assert {len(some) for some in together.predict_set(X, coverage=0.8)} <= {1, 2}


@pytest.mark.parametrize("which", ["numbers", "classes"])
def test_a_file_holds_all_members(which, request, tmp_path):
    made, X, _ = request.getfixturevalue(which)
    made.save(tmp_path / "model.safetensors")
    again = leapcde.load(tmp_path / "model.safetensors")
    assert again.predict(X).tolist() == made.predict(X).tolist() and again.get_params() == made.get_params()
    assert again.fitted_.parameters == made.fitted_.parameters == sum(one.parameters for one in made.fitted_.members)


@pytest.mark.parametrize(
    ("key", "value"),
    [("weights", [1.0]), ("weights", [0.5, -0.5, 1.0]), ("members", []), ("members", [{}, {}, {}]), ("weights", "abc")],
)
def test_a_damaged_member_is_told(numbers, tmp_path, key, value):
    path = tmp_path / "model.safetensors"
    numbers[0].save(path)
    arrays, about = load_file(path, "model")
    save_file(path, "model", {"": arrays}, {**about, key: value})
    with pytest.raises(CheckpointError, match="damaged header"):
        leapcde.load(path)


def test_a_missing_array_is_told(numbers, tmp_path):
    path = tmp_path / "model.safetensors"
    numbers[0].save(path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"member1/model", b"member9/model"))
    with pytest.raises(CheckpointError):
        leapcde.load(path)


def test_a_killed_ensemble_goes_on_bit_for_bit(numbers, tmp_path):
    whole, X, y = numbers
    seen = []

    def kill(row):
        seen.append(row)
        if len(seen) == 3:  # in the second member
            raise KeyboardInterrupt

    one = lambda: LeapRegressor("gru", ensemble=3, calibration=0.2, **TINY)
    with pytest.raises(KeyboardInterrupt):
        one().fit(X, y, checkpoint=tmp_path / "t.safetensors", callbacks=[kill])
    again = one().fit(X, y, checkpoint=tmp_path / "t.safetensors", callbacks=[seen.append])
    assert len(seen) == 6 and again.predict(X).tolist() == whole.predict(X).tolist()


def test_paths_explanations_and_streams_are_means(classes):
    together, X, _ = classes
    members = [replace(together.fitted_, members=(one,), weights=(1.0,)) for one in together.fitted_.members]
    few = X.take(np.arange(3))
    times = np.array([0.5, 2.5])
    at = np.tile(times, (3, 1))
    want = np.mean([one.path_at(few, at) for one in members], 0)
    np.testing.assert_allclose(together.fitted_.path_at(few, at), want, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeapWarning)  # after one epoch a simple path is often the better one
        assert together.predict_at(few, times).shape == (3, 2, 2)
    np.testing.assert_allclose(together.path(few)["Y"], np.mean([one.path(few)["Y"] for one in members], 0), rtol=1e-5)
    found = together.explain(few, steps=4)
    assert found.by_channel.shape == (3, 2) and found.attribution.change.shape == (3,)
    stream = together.stream()
    for row, t in zip(few.sample(0)[1], few.sample(0)[0], strict=True):
        stream.push(float(t), row)
    np.testing.assert_allclose(stream.predict_proba(), together.predict_proba(few)[0], rtol=1e-4)


def test_members_go_on_with_new_data(numbers):
    _, X, y = numbers
    one = LeapRegressor("gru", ensemble=2, **TINY).partial_fit(X, y)
    before = one.predict(X)
    one.partial_fit(X, y)
    assert isinstance(one.fitted_, FittedEnsemble) and not np.allclose(before, one.predict(X))
    with pytest.raises(InputError, match="2 members were trained before"):
        one.set_params(ensemble=3).partial_fit(X, y)


@pytest.mark.parametrize("count", [0, -1, True])
def test_an_ensemble_of_nothing_is_told(count):
    X, y = walks(20)
    with pytest.raises(InputError, match="how many members"):
        LeapRegressor("gru", ensemble=count, **TINY).fit(X, y)


# Weights -----------------------------------------------------------------------------------------------------------------


def test_weights_follow_the_validation_data():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(400, 1))
    noisy = lambda size, seed: truth + size * np.random.default_rng(seed).normal(size=truth.shape)
    assert weigh("regression", [noisy(1.0, 1), noisy(0.1, 2), noisy(2.0, 3)], truth).tolist() == [0, 1, 0]
    few = weigh("regression", [noisy(1.0, i)[:12] for i in range(4)], truth[:12])
    assert few.sum() == pytest.approx(1) and np.sum(few > 0) >= 2 and all(w == 0 or w >= 0.05 for w in few)
    assert weigh("regression", [noisy(1.0, i)[:12] for i in range(4)], truth[:12]).tolist() == few.tolist()
    assert weigh("regression", [truth, truth], truth).tolist() == [1, 0]  # of equals, the first


def test_unknown_future_values_do_not_count():
    target = np.array([[[1.0], [np.nan]], [[2.0], [4.0]]])
    assert losses("forecasting", np.zeros((2, 2, 1)), target).tolist() == [1.0, 10.0]
    assert standard_error("forecasting", np.array([1.0])) == float("inf")


def test_the_mean_of_probabilities_loses_no_more_than_the_mean_loss():
    rng = np.random.default_rng(0)
    scores, target = rng.normal(size=(3, 50, 4)) * 9, rng.integers(0, 4, 50)
    alone = np.mean([losses("classification", one, target) for one in scores], 0)
    together = losses("classification", mix("classification", list(scores), [0.2, 0.3, 0.5]), target)
    assert together.mean() < alone.mean() and np.isfinite(together).all()


# Races -------------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("when", [1, 2, 3, 4])
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
    monkeypatch.setattr(racing, "baselines_for", lambda task: [])
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
