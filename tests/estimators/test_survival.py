"""LeapSurvival: every form of data, what it learns, files, streams, the race, the command line, and mistakes."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import pytest
from sksurv.metrics import concordance_index_censored
from sksurv.util import Surv

import leapcde
from command import leapcde as command
from leapcde import LeapError, LeapSurvival, LeapWarning, check_estimator
from leapcde.data.inputs import event_times
from leapcde.datasets.simulated import patients
from leapcde.errors import InputError
from leapcde.estimators.export.files import export
from leapcde.estimators.export.function import exported
from leapcde.estimators.predictions import predictions_table

TINY = {"model": "gru", "options": {"hidden": 8}, "epochs": 15, "seed": 1}
NAMED = {"id": "patient", "time": "month", "static": ["age"], "target": ["dead", "months"]}


@pytest.fixture(scope="module")
def people():
    return patients(240, 5)


@pytest.fixture(scope="module")
def survival(people):
    return LeapSurvival(**TINY).fit(people.series)


def test_it_learns_who_is_in_danger(survival, people):
    later = patients(400, 6)
    event, time = np.asarray(later.series.target).T
    score = survival.score(later.series)
    assert score > 0.65
    assert score == pytest.approx(concordance_index_censored(event > 0, time, survival.predict(later.series))[0])
    assert np.corrcoef(survival.predict(later.series), np.log(later.risk))[0, 1] > 0.6
    curves = survival.predict_survival_function(later.series)
    assert curves.shape == (400, len(survival.times_)) and (np.diff(curves, axis=1) <= 0).all()
    assert np.abs(curves.mean(0) - later.survival(survival.times_).mean(0)).max() < 0.1
    median = survival.predict_quantile(later.series)
    some = np.isfinite(median)
    assert some.any() and np.corrcoef(-median[some], survival.predict(later.series)[some])[0, 1] > 0.7


def test_every_form_of_y_is_the_same(people):
    rows = np.asarray(people.series.target)[:60]
    for y in (
        rows,
        rows.tolist(),
        Surv.from_arrays(rows[:, 0] > 0, rows[:, 1]),
        Surv.from_arrays(rows[:, 0] > 0, rows[:, 1], name_event="dead", name_time="days")[["days", "dead"]],
        pd.DataFrame({"dead": rows[:, 0] > 0, "days": rows[:, 1]}),
    ):
        np.testing.assert_array_equal(event_times(y), rows)
    X, y = people.series.take(range(60)), Surv.from_arrays(rows[:, 0] > 0, rows[:, 1])
    quick = LeapSurvival("gru", options={"hidden": 4}, epochs=1)
    first = quick.fit(X, y).predict(X)
    np.testing.assert_array_equal(quick.fit(X).predict(X), first)


def test_tables_files_and_streams(survival, people, tmp_path):
    table = people.table()
    read = LeapSurvival(**{**TINY, "epochs": 1}, **NAMED).fit(table)
    answers = predictions_table(read, table.drop(columns=["dead", "months"]))
    assert list(answers.columns[:3]) == ["patient", "prediction", "median"] and answers.columns[3].startswith("S(")
    assert np.isfinite(answers["prediction"]).all()
    survival.save(tmp_path / "one.safetensors")
    loaded = leapcde.load(tmp_path / "one.safetensors")
    assert isinstance(loaded, LeapSurvival)
    np.testing.assert_array_equal(
        loaded.predict_survival_function(people.series), survival.predict_survival_function(people.series)
    )
    one = people.series.take([7])
    stream = survival.stream(static=one.static[0])
    for t, x in zip(*one.sample(0), strict=True):
        stream.push(t, x)
    assert stream.predict() == pytest.approx(survival.predict(one)[0], abs=1e-5)
    curve = survival.predict_survival_function(one, [1.0, 6.0])[0]
    np.testing.assert_allclose(stream.predict_survival_function([1.0, 6.0]), curve, atol=1e-5)
    quick = leapcde.LeapRegressor("gru", options={"hidden": 4}, epochs=1).fit(
        np.ones((8, 3, 1)) * np.arange(8)[:, None, None], np.arange(8)
    )
    with pytest.raises(InputError, match="survival is about times to an event"):
        quick.stream().push(0.0, [1.0]).predict_survival_function([1.0])


@pytest.mark.slow
def test_the_exported_function_gives_curves(survival, people, tmp_path):
    some = people.series.take(range(5))
    length = int(some.lengths.max())
    times, values = np.full((5, length), np.nan), np.full((5, length, 3), np.nan)
    for i in range(5):
        t, x = some.sample(i)
        times[i, : len(t)], values[i, : len(t)] = t, x
    found = exported(survival.fitted_)(times, values, some.static)
    np.testing.assert_allclose(found, survival.predict_survival_function(some), atol=1e-5)
    about = export(survival, tmp_path / "model.stablehlo", format="stablehlo", length=length)
    assert about["times"] == survival.fitted_.preprocessor.bins.edges
    run = jax.export.deserialize(bytearray((tmp_path / "model.stablehlo").read_bytes())).call
    given = [a.astype(np.float32) for a in (times, values, some.static)]
    np.testing.assert_allclose(run(*given), survival.predict_survival_function(some), atol=1e-5)


@pytest.mark.slow
def test_what_counted_is_told(survival, people):
    found = survival.explain(people.series.take(range(3)), steps=4)
    assert "log hazard ratio" in found.unit


def test_a_race_of_baselines_and_models(people, monkeypatch):
    from leapcde.estimators.several import race

    monkeypatch.setattr(race, "CANDIDATES", (race.Candidate("gru", {"model": "gru"}),))
    raced = LeapSurvival("auto", epochs=2, time_limit=600.0).fit(people.series)
    rows = {row["candidate"]: row for row in raced.race_}
    assert set(rows) == {"kaplan-meier", "cox", "boosted-trees", "gru"}
    assert rows["cox"]["concordance"] > 0.6 and sum(row["weight"] for row in rows.values()) == pytest.approx(1.0)
    assert raced.score(people.series) > 0.65


def test_the_command_line(people, elsewhere):
    people.table().to_csv("visits.csv", index=False)
    named = ["--id", "patient", "--time", "month", "--static", "age", "--event", "dead", "--duration", "months"]
    quick = ["--model", "gru", "--epochs", "3", "-o", "hidden=4", "--out", "run"]
    trained = command("fit", "visits.csv", *named, *quick, "--json").json
    assert trained["metric"] == "concordance" and set(trained["baselines"]) == {"kaplan-meier", "cox", "boosted-trees"}
    assert {"concordance", "loss", "brier"} <= set(trained["test"])
    assert command("evaluate", "run", "--json").json["test"] == trained["test"]
    assert "model" in command("evaluate", "run", "visits.csv", "--json").json
    rows = command("predict", "run", "visits.csv", "--json").json["predictions"]
    assert len(rows) == 240 and {"patient", "prediction", "median"} <= set(rows[0])
    assert "Brier" in (elsewhere / "run" / "card.md").read_text()
    for wrong, words in (
        (["--event", "dead"], "belong together"),
        (["--event", "dead", "--duration", "months", "--target", "age"], "leave out --target"),
        (["--task", "survival"], "needs --event and --duration"),
        (["--event", "marker", "--duration", "months"], "changes within the sample"),
        (["--event", "age", "--duration", "months"], "its event is"),
    ):
        answer = command("fit", "visits.csv", *named[:4], *wrong, "--out", "other")
        assert answer.code == 2 and words in answer.err, answer.err
    answer = command("predict", "run", "visits.csv", "--coverage", "0.9")
    assert answer.code == 2 and "no intervals around risks" in answer.err


def test_it_is_at_home_here():
    check_estimator(LeapSurvival("gru", options={"hidden": 4}, epochs=1))


@pytest.mark.slow
def test_everybody_in_validation_left(people):
    series = people.series.take(range(40))
    left = leapcde.as_series(series, target=np.asarray(series.target) * [0, 1])
    quick = LeapSurvival("gru", options={"hidden": 4}, epochs=1)
    with pytest.warns(LeapWarning, match="no event"):
        quick.fit(series, validation=left)
    assert np.isfinite(quick.predict(series)).all()


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.arange(20.0), "rows of"),
        (np.ones((20, 3)), "rows of"),
        (np.stack([np.arange(20.0), np.arange(20) % 2], 1), "times first"),
        (np.stack([np.arange(20) % 3, np.arange(20.0)], 1), "its event is 2"),
        (np.stack([np.arange(20) % 2, np.arange(20.0) - 5], 1), "its duration is -5"),
        (np.stack([np.arange(20) % 2, np.where(np.arange(20) > 3, np.nan, 1.0)], 1), "its duration is nan"),
        (np.stack([np.zeros(20), np.ones(20)], 1), "no training sample has an event"),
        (np.stack([np.ones(20), np.zeros(20)], 1), "a duration of 0"),
        (np.stack([np.ones(19), np.ones(19)], 1), "19"),
        ([("yes", 1.0)] * 20, "no number"),
        ([(1, 2.0), (0,)] * 10, "different lengths"),
        (np.array([(1.0, 2.0)] * 20, dtype=[("a", float), ("b", float)]), "one field of truths"),
        (None, "y"),
    ],
)
def test_mistakes_are_one_clear_error(y, words):
    X = np.random.default_rng(0).normal(size=(20, 4, 1))
    with pytest.raises(LeapError, match=words):
        LeapSurvival("gru", options={"hidden": 4}, epochs=1).fit(X, y)


def test_other_mistakes(survival, people):
    with pytest.raises(InputError, match="two columns"):
        LeapSurvival(id="patient", time="month", target="dead").fit(people.table())
    with pytest.raises(InputError, match="0 or more"):
        survival.predict_survival_function(people.series, [-1.0])
    with pytest.raises(InputError, match="no numbers"):
        survival.predict_survival_function(people.series, "soon")
    with pytest.raises(InputError, match="between 0 and 1"):
        survival.predict_quantile(people.series, 1.0)
    with pytest.warns(LeapWarning, match="beyond it is a guess"):
        survival.predict_survival_function(people.series.take([0]), [1000.0])
    lasts = [(np.linspace(0, n, 4), np.ones((4, 1))) for n in range(1, 21)]
    with pytest.warns(LeapWarning, match="how long the samples last"):
        LeapSurvival("gru", options={"hidden": 4}, epochs=1).fit(lasts, [(1, n) for n in range(1, 21)])
