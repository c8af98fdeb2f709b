"""Forecasts that are judged on what comes later: one long series, fresh windows, some channels, known futures, intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import leapcde
from command import fails
from command import leapcde as run_command
from leapcde import LeapForecaster, as_series
from leapcde.baselines.fitted import fit_baseline
from leapcde.data.columns import Columns
from leapcde.data.table_file import load as load_table
from leapcde.data.windows import FreshWindows, cut_windows
from leapcde.errors import InputError
from leapcde.estimators.certainty.growth import told_growth
from leapcde.estimators.certainty.intervals import Conformal, roughness
from leapcde.paths.batch import Recipe
from leapcde.training import fitted as training
from leapcde.training.loop import fit as fit_loop
from leapcde.training.preprocess import Preprocessor

QUICK = {"options": {"hidden": 4}, "epochs": 2, "window": 12, "horizon": 3}


def hourly(days: int, seed: int = 0, growth: float = 1.0) -> pd.DataFrame:
    """A load with a daily cycle and noise that remembers, whose deviation grows; its temperature; and Sundays."""
    rng, n = np.random.default_rng(seed), 24 * days
    t, noise = np.arange(n), np.zeros(n)
    pushes = rng.normal(size=n) * 0.3 * np.linspace(1, growth, n)
    for i in range(1, n):
        noise[i] = 0.8 * noise[i - 1] + pushes[i]
    heat = 15 + 5 * np.sin(2 * np.pi * (t - 3) / 24)
    sunday = (t // 24 % 7 == 6).astype(float)
    load = 10 + 3 * np.sin(2 * np.pi * t / 24) + noise - 2 * sunday
    hours = pd.date_range("2024-01-01", periods=n, freq="h")
    return pd.DataFrame({"when": hours, "load": load, "heat": heat, "sunday": sunday})


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return hourly(30)


# One long series


def test_one_series_in_any_form(table):
    values, hours = table[["load", "heat"]].to_numpy(), np.arange(len(table)) * 3600.0
    forms = [values, (hours, values), [(hours, values)], values[None], as_series([values])]
    answers = [LeapForecaster("gru", **QUICK).fit(X).predict(X) for X in forms]
    frame = LeapForecaster("gru", time="when", values=["load", "heat"], **QUICK).fit(table)
    answers.append(frame.predict(table))
    assert frame.split_ == "time" and frame.window_ == 12
    for answer in answers:
        assert answer.shape == (1, 3, 2) and np.array_equal(answer, answers[0])
    alone = LeapForecaster("gru", **QUICK).fit(values[:, 0])
    assert alone.predict(values[:, 0]).shape == (1, 3, 1)
    assert np.array_equal(alone.predict((hours / 3600, values[:, 0])), alone.predict(values[:, 0]))
    with pytest.raises(NotFittedError):
        LeapForecaster("gru", **QUICK).predict(values)
    with pytest.raises(InputError, match="a single series to be forecast needs no id"):
        LeapForecaster("gru", **QUICK).fit(table)


def test_rows_that_intervals_and_weights_come_from_are_the_latest(table, monkeypatch):
    seen = {}
    monkeypatch.setattr(LeapForecaster, "_calibrate", lambda self, series: seen.update(late=series))
    real = training.fit

    def watch(model, task, train, validation, config, **more):
        seen.update(train=train, validation=validation)
        return real(model, task, train, validation, config, **more)

    monkeypatch.setattr(training, "fit", watch)
    rows = np.arange(400.0)
    LeapForecaster("gru", **{**QUICK, "epochs": 1}).fit(rows)
    late = np.asarray(seen["late"].target)
    assert late.min() == 340 and late.max() == 399  # the last 15 %, each window of which looks back across the cut
    assert seen["late"].values.min() == 328


def test_many_short_sequences_are_split_by_sequence():
    X = np.random.default_rng(0).normal(size=(20, 16, 1)).cumsum(1)
    assert LeapForecaster("gru", **QUICK).fit(X).split_ == "sequence"
    with pytest.raises(InputError, match="cannot be split by time"):
        LeapForecaster("gru", split="time", **QUICK).fit(X)
    long = np.random.default_rng(0).normal(size=(20, 80, 1)).cumsum(1)
    assert LeapForecaster("gru", **QUICK).fit(long).split_ == "time"
    assert LeapForecaster("gru", split="sequence", **QUICK).fit(long).split_ == "sequence"
    with pytest.raises(InputError, match="no split 'random'"):
        LeapForecaster("gru", split="random", **QUICK).fit(long)


# Fresh windows


@pytest.fixture(scope="module")
def holes() -> np.ndarray:
    """A long series with rows on which nothing was observed, so that windows differ in length."""
    rng = np.random.default_rng(1)
    values = np.sin(np.arange(3000) / 4)[:, None] + rng.normal(size=(3000, 1)) / 9
    values[rng.random(3000) < 0.2] = np.nan
    return values


def test_fresh_windows_in_every_epoch_are_of_one_shape(holes, monkeypatch):
    data = []

    def watch(model, task, train, validation, config, renewed=None, **more):
        def looked(epoch):
            data.append(renewed(epoch))
            return data[-1]

        return fit_loop(model, task, train, validation, config, renewed=looked, **more)

    monkeypatch.setattr(training, "fit", watch)
    LeapForecaster("gru", **{**QUICK, "epochs": 3}).fit(holes)
    assert len(data) == 3 and all(len(buckets) == 1 for buckets in data)
    assert len({bucket.batch.obs.values.shape for (bucket,) in data}) == 1 and data[0][0].batch.obs.length == 12
    first, second = (np.asarray(buckets[0].batch.obs.target) for buckets in data[:2])
    assert not np.array_equal(first, second, equal_nan=True)


def test_killed_and_resumed_with_fresh_windows(holes, tmp_path):
    settings = {**QUICK, "epochs": 4}
    whole = LeapForecaster("gru", **settings).fit(holes)

    def kill(row):
        if row["epoch"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LeapForecaster("gru", **settings).fit(holes, checkpoint=tmp_path / "c", callbacks=[kill])
    again = LeapForecaster("gru", **settings).fit(holes, checkpoint=tmp_path / "c")
    assert np.array_equal(again.predict(holes), whole.predict(holes))
    assert [row["train_loss"] for row in again.history_] == [row["train_loss"] for row in whole.history_]


# Some channels, and what is known ahead


def test_some_channels_are_forecast(table, tmp_path):
    X = table[["load", "heat", "sunday"]].to_numpy()
    names = {"channels": ["load", "heat", "sunday"]}
    series = as_series([X], **names)
    one = LeapForecaster("gru", target=["sunday", "load"], **QUICK).fit(series)
    found = one.predict(series)
    low, _ = one.predict_interval(series, 0.8)
    assert found.shape == low.shape == (1, 3, 2) and (low <= found).all() and one.score(series) <= 1
    one.save(tmp_path / "a.safetensors")
    assert np.array_equal(leapcde.load(tmp_path / "a.safetensors").predict_interval(series, 0.8)[0], low)
    # In its own units and order: loads lie around 10, Sundays are 0 or 1.
    assert abs(found[0, 0, 1] - X[-1, 1 - 1]) < 5 and abs(found[0, 0, 0] - X[-1, 2]) < 1.5
    assert one.explain(series, of=(0, "load"), steps=2) is not None
    with pytest.raises(InputError, match=r"channels are: sunday, load"):
        one.explain(series, of=(0, "heat"), steps=2)
    windows = cut_windows(series, 12, 3)
    ready = LeapForecaster("gru", target="load", **QUICK)
    y = np.asarray(windows.target)[:, :, :1]
    inputs = as_series([windows.sample(i) for i in range(len(windows))], **names)
    assert ready.fit(inputs, y).predict(inputs).shape == (len(windows), 3, 1)


@pytest.mark.slow
def test_models_that_forecast_their_path_pick_its_channels(table):
    series = as_series([table[["load", "heat"]].to_numpy()], channels=["load", "heat"])
    for model in ("leap+", "latent-ode"):
        one = LeapForecaster(model, target=["heat"], epochs=1, window=12, horizon=3, stride=6).fit(series)
        assert one.predict(series).shape == (1, 3, 1)
    assert one.fitted_.preprocessor.forecast == ("heat",)


def test_what_is_known_ahead_counts(table):
    """Sundays change the load: with them known, an error that no window could avoid is gone."""
    settings = {"window": 12, "horizon": 6, "options": {"hidden": 4}, "epochs": 1, "time": "when", "target": ["load"]}
    both = []
    for known in (None, ["sunday"]):
        one = LeapForecaster("gru", known=known, **settings)
        data = one._divided(table, None, None)
        fitted = one._start(data.train, one._config(len(data.train)), fresh=True)[0][0]
        ridge = fit_baseline("ridge", data.train, data.validation, fitted.preprocessor)
        both.append(ridge.evaluate(data.calibration)["mse"])
    assert both[1] < 0.85 * both[0]


def test_the_future_that_is_known_is_given_to_predict(table):
    settings = {**QUICK, "time": "when", "target": ["load"], "known": ["heat", "sunday"]}
    one = LeapForecaster("gru", **{**settings, "epochs": 20}).fit(table)
    asked = table.copy()
    asked.loc[len(table) - 3 :, "load"] = np.nan
    found = one.predict(asked)
    assert found.shape == (1, 3, 1)
    other = asked.copy()
    other.loc[len(table) - 3 :, "heat"] = 40.0
    assert not np.array_equal(one.predict(other), found)  # it looks at what is known
    other = asked.copy()
    other.loc[len(table) - 3 :, "load"] = np.nan
    assert np.array_equal(one.predict(other), found)
    short = pd.concat([asked[:-1].assign(who="a"), asked.assign(who="b"), asked[:-2].assign(who="c")])
    two = LeapForecaster("gru", id="who", **settings).fit(pd.concat([table.assign(who=name) for name in "abc"]))
    with pytest.raises(InputError) as caught:
        two.predict(short)
    assert [p.partition(";")[0] for p in caught.value.problems] == [
        "sample 0 (id a): 1 of 3 rows are missing after 2024-01-30 22:00:00",
        "sample 2 (id c): 2 of 3 rows are missing after 2024-01-30 21:00:00",
    ]
    at_times = LeapForecaster("gru", **{**settings, "horizon": [1800.0, 7200.0]}).fit(table)
    assert at_times.predict(asked).shape == (1, 2, 1)
    with pytest.raises(InputError, match="they end at 2024-01-30 21:00:00, and are asked until 2024-01-30 22:00:00"):
        at_times.predict(asked[:-2])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"target": ["laod"]}, "no channel 'laod'; did you mean 'load'"),
        ({"target": ["load"], "known": ["load"]}, "known ahead and be forecast"),
        ({"known": ["load", "heat", "sunday"]}, "nothing is left to forecast"),
    ],
)
def test_channels_that_cannot_be_forecast(table, more, words):
    with pytest.raises(InputError, match=words):
        LeapForecaster("gru", time="when", **QUICK, **more).fit(table)


# Intervals


def test_roughness_against_a_loop():
    rng = np.random.default_rng(0)
    series = as_series([(np.sort(rng.random(n)), np.where(rng.random((n, 2)) < 0.3, np.nan, 1.0) * n) for n in (9, 3, 20)])
    noisy = as_series([(t, v * rng.normal(size=v.shape)) for t, v in (series.sample(i) for i in range(3))])
    for i in range(3):
        times, values = noisy.sample(i)
        for c in range(2):
            t, x = (a[~np.isnan(values[:, c])] for a in (times, values[:, c]))
            away = [abs(x[k] - np.interp(t[k], t[[k - 1, k + 1]], x[[k - 1, k + 1]])) for k in range(1, len(t) - 1)]
            expected = np.mean(away) if away else np.nan
            np.testing.assert_allclose(roughness(noisy)[i, c], expected)


def test_intervals_follow_the_noise_where_windows_show_it():
    """Errors twice as large in windows twice as rough; and errors that have nothing to do with it."""
    rng = np.random.default_rng(0)
    rough = np.exp(rng.normal(size=(2000, 1)))
    errors = rng.normal(size=(2000, 4, 1))
    zero = np.zeros_like(errors)
    found = Conformal.learn(errors * rough[:, None], zero, rough)
    for part in (rough[:, 0] < 0.5, rough[:, 0] > 2):  # in each part, not only on average
        low, high = found.around(zero[part], 0.9, rough[part])
        inside = np.abs(errors * rough[:, None])[part] <= high
        assert inside.mean() == pytest.approx(0.9, abs=0.03) and np.array_equal(low, -high)
    without = Conformal.learn(errors, zero, rough)
    assert without.usual is not None and np.isnan(without.usual).all()
    assert np.ptp(without.around(zero, 0.9, rough)[1]) == pytest.approx(np.ptp(without.margin(0.9)))
    assert np.isfinite(found.around(zero[:1], 0.9, np.full((1, 1), np.nan))[1]).all()  # a window that says nothing


@pytest.mark.parametrize(
    ("growth", "model"),
    [
        (1.0, ["--model", "gru", "-o", "hidden=16", "--epochs", 6]),
        pytest.param(1.0, ["--model", "leap+", "--epochs", 3], marks=pytest.mark.slow),
        pytest.param(1.5, ["--model", "leap+", "--epochs", 3], marks=pytest.mark.slow),
    ],
)
def test_what_is_printed_holds_later(growth, model, tmp_path, monkeypatch):
    """An hourly series with a daily cycle, of which a fifth comes after the file: error and coverage as in the test part."""
    monkeypatch.chdir(tmp_path)
    table = hourly(150, growth=growth).drop(columns=["heat", "sunday"])
    cut = 24 * 125
    table[:cut].to_csv("now.csv", index=False)
    table[cut - 100 :].to_csv("later.csv", index=False)  # the first forecast looks back on the file
    settings = ["--window", 48, "--horizon", 12, *model, "--out", "run"]
    found = run_command("fit", "now.csv", "--time", "when", *settings, "--json").json
    assert found["split"].startswith("by time: rows before 2024-03-28 12:00:00 train")
    later = run_command("evaluate", "run", "later.csv", "--json").json
    level = np.linspace(1, growth, len(table)) ** 2  # noise that is known to grow may make errors grow
    grown = level[cut:].mean() / level[int(0.85 * cut) : cut].mean()
    assert later["model"]["mse"] == pytest.approx(found["test"]["mse"] * grown, rel=0.15)
    assert found["coverage of 90 % intervals"] == pytest.approx(0.9, abs=0.04)
    assert later["coverage of 90 % intervals"] == pytest.approx(0.9, abs=0.03)
    assert set(later) == {"model", "last-value", "linear-trend", "last-season", "ridge", "coverage of 90 % intervals", "seen"}


# The command line


def test_split_and_channels_on_the_command_line(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table.to_csv("load.csv", index=False)
    given = ["fit", "load.csv", "--time", "when", "--horizon", 3, "--window", 12, "--model", "gru", "-o", "hidden=4"]
    given += ["--epochs", 1]
    printed = run_command(*given, "--target", "load", "--known", "heat,sunday", "--stride", 5, "--out", "run")
    assert printed.code == 0 and "split: by time: rows before 2024-01-22 train" in printed.out
    assert "90 % intervals hold " in printed.out
    config = (tmp_path / "run/config.json").read_text()
    assert '"split": "time"' in config and '"stride": 5' in config and '"forecast"' in config
    assert "by time" in (tmp_path / "run/result.json").read_text()
    asked = table.copy()
    asked.loc[len(table) - 3 :, "load"] = np.nan
    asked.to_csv("asked.csv", index=False)
    rows = run_command("predict", "run", "asked.csv", "--coverage", 0.9, "--json").json["predictions"]
    assert len(rows) == 3 and set(rows[0]) == {"id", "step", "load", "load lower", "load upper"}
    again = run_command("evaluate", "run", "--json").json
    newer = run_command("evaluate", "run", "load.csv", "--json").json
    assert "which trained the model" in run_command("evaluate", "run", "load.csv").out and "flatter" in newer["seen"]
    assert set(newer) == {"model", *again, "coverage of 90 % intervals", "seen"} - {"test"}
    asked[:-1].to_csv("short.csv", index=False)
    fails(tmp_path, "predict", "run", "short.csv", "--out", "x.csv", words=("ends too early", "sample 0", "2024-01-30 22:00"))
    fails(tmp_path, *given, "--known", "heat,sundy", "--out", "x", words=("no channel 'sundy'; did you mean 'sunday'?",))
    fails(tmp_path, *given, "--split", "random", "--out", "x", words=("by time or by sequence",))
    fails(tmp_path, *given, "--split", "group", "--out", "x", words=("--split 'group:clinic'",))
    fails(tmp_path, "fit", "load.csv", "--time", "when", "--target", "load", "--known", "heat", words=("--id and --time",))
    fails(tmp_path, "evaluate", "run", "nowhere.csv", words=("nowhere.csv",))
    table.drop(columns="heat").to_csv("less.csv", index=False)
    fails(tmp_path, "evaluate", "run", "less.csv", words=("no column 'heat'",))
    table[:10].to_csv("few.csv", index=False)
    fails(tmp_path, "evaluate", "run", "few.csv", words=("no sequence is long enough",))
    table[:-1].to_csv("load.csv", index=False)  # what baselines would learn from is another file now
    printed = run_command("evaluate", "run", "asked.csv")
    assert printed.code == 0 and "without baselines" in printed.err and "ridge" not in printed.out


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_grows_is_told_and_noise_that_does_not_is_not(seed, tmp_path):
    """The variance of the noise in the 40 days after the end is 1.12 times that of the test."""
    for growth, says in ((1.0, False), (1.5, True), (0.67, False)):
        hourly(200, seed, growth)[["when", "load"]].to_csv(tmp_path / "load.csv", index=False)
        data = load_table(tmp_path / "load.csv", Columns(None, "when"), horizon=24, window=48)
        of = Preprocessor.learn(data.train, "forecasting", Recipe())
        told = told_growth(data, of)
        assert bool(told) == says, (growth, told)
        if says:
            expected = int(told.split("expect about ")[1].split("%")[0])
            assert 9 <= expected <= 17 and "times as noisy at its end" in told
            assert told_growth(replace(data, options={"split": "by sequence: 3 train"}), of) == ""


def test_fresh_windows_and_whole_sequences_from_a_file(tmp_path, monkeypatch):
    """A file long enough for fresh windows: the run learns from them, and its numbers come again."""
    monkeypatch.chdir(tmp_path)
    hourly(120)[["when", "load"]].to_csv("load.csv", index=False)
    calls = []
    real = FreshWindows.__call__
    monkeypatch.setattr(FreshWindows, "__call__", lambda self, *a: calls.append(a) or real(self, *a))
    given = ["fit", "load.csv", "--time", "when", "--horizon", 6, "--window", 12, "--model", "gru", "-o", "hidden=4"]
    found = run_command(*given, "--epochs", 2, "--out", "run", "--json").json
    assert calls == [(0, 0), (0, 1)]
    assert run_command("evaluate", "run", "--json").json["test"] == found["test"]
    assert not Path("x").exists()
