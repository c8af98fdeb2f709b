"""The figures of docs/speed.md are drawn from the records, and the tuned settings are what their trials say."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from itertools import combinations, product

import equinox as eqx
import numpy as np
import pytest

from conftest import ROOT
from leapcde.models.registry import MODELS
from leapcde.training.metrics import LOWER_IS_BETTER
from leapcde_paper import budgets, presets, rivals, tune
from leapcde_paper.figures.time_picture import Point, draw
from leapcde_paper.paper_numbers import LABELS
from leapcde_paper.run.records import read_all
from leapcde_paper.studies import preset
from leapcde_paper.tables.table import by_key, of_settings


def module(*place: str):
    path = ROOT.joinpath(*place)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_names_in_the_picture_of_seconds_do_not_lie_over_each_other():
    crowd = {label: Point(100.0 + 5 * i, 0.95 + 0.001 * (i % 3)) for i, label in enumerate(list(LABELS.values())[:6])}
    crowd["far below"] = Point(20.0, 0.5)
    made = draw({"one": crowd, "another": {"a": Point(10.0, 0.9), "b": Point(1000.0, 0.8)}})
    made.draw_without_rendering()
    for axis in made.axes:
        boxes = [text.get_window_extent() for text in axis.texts if text.get_text() != "far below"]
        assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
        assert axis.get_xticklabels() and all(label.get_text().isdigit() for label in axis.get_xticklabels())


def test_figures_show_every_peer_and_every_curve(tmp_path):
    plot = module("benchmarks", "plot.py")
    rows = json.loads((ROOT / "benchmarks" / "record.json").read_text())
    plot.ratios(rows, tmp_path / "ratios.svg")
    drawn = (tmp_path / "ratios.svg").read_text()
    peers = {row["peer"] for row in rows if row["case"] == "training step" and not row["peer"].startswith("ours")}
    assert len(peers) == 5 and all(peer in drawn for peer in peers)
    curves = json.loads((ROOT / "benchmarks" / "scaling.json").read_text())["curves"]
    plot.scaling(curves, tmp_path / "scaling.svg")
    drawn = (tmp_path / "scaling.svg").read_text()
    assert all(f"({curve['exponents']['seconds']:.2f})" in drawn for curve in curves)


def test_the_bench_compares_what_is_the_same(monkeypatch):
    """Its own check, against the one other library that is always there; and every model of ours makes a step."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import diffrax_peers
    import problems
    import run

    p = run.made("tiny", "ncde")
    name = "Diffrax, DirectAdjoint"
    peer = diffrax_peers.PEERS[name](p)
    assert run.disagreement(name, p, peer) < run.GRADIENTS
    other = eqx.tree_at(lambda model: model.φ_z.bias, p.model, replace_fn=lambda bias: bias + 1)
    with pytest.raises(SystemExit, match="losses"):
        run.disagreement(name, p._replace(model=other), peer)
    hidden = problems.leap_plus("tiny")
    loss = eqx.filter_eval_shape(problems.loss, hidden.model, hidden.batch, hidden.labels, hidden.key, hidden.augment)
    assert loss.shape == () and hidden.augment.hide > 0


@pytest.mark.slow
def test_the_bench_runs_to_the_end(tmp_path):
    """On a tiny shape, with every library that `make bench` installs."""
    out = tmp_path / "record.json"
    settings = ["--shapes", "tiny", "--threads", "1", "--seconds", "0.1", "--out", str(out)]
    subprocess.run([sys.executable, ROOT / "benchmarks" / "run.py", *settings], check=True)
    rows = json.loads(out.read_text())
    found = {(row["model"], row["case"], row["peer"]) for row in rows}
    again = json.loads((ROOT / "benchmarks" / "record.json").read_text())
    # The record has rows that this shape has too; LinOSS only where its package is.
    assert {(row["model"], row["case"], row["peer"]) for row in again if row["peer"] != "LinOSS in discretax"} <= found
    assert all(np.isfinite(row["ours_s" if "ours_s" in row else "ratio"]) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["ncde", "leap"])
def test_the_cost_of_a_gradient_is_measured(model, monkeypatch):
    """What `make bench-scaling` does at every point of its curves."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import problems
    import scaling

    found = scaling.measure(model, True, **problems.SHAPES["tiny"])
    assert found["seconds"] > 0 and found["megabytes"] > 0


@pytest.mark.slow
def test_one_answer_is_timed(tmp_path):
    out = tmp_path / "latency.json"
    asked = ["--models", "gru", "--rounds", "3", "--out", str(out)]
    subprocess.run([sys.executable, ROOT / "benchmarks" / "latency.py", *asked], check=True)
    [row] = json.loads(out.read_text())["rows"]
    assert row["predict_ms"]["lowest"] > 0 and row["push_ms"]["lowest"] > 0


def test_chosen_settings_are_the_best_of_the_same_trials():
    found = tune.by_model(tune.read_trials(ROOT / tune.OUT))
    assert {*product(tune.EPOCHS, LABELS)} <= found.keys()
    for (data, model), trials in found.items():
        asked = [(trial["learning_rate"], trial["weight_penalty"]) for trial in trials]
        assert asked == list(tune.TRIED_ON[data])  # the same for every model
        config = tune.asked(data, model)
        for trial in trials:
            assert tune.is_current(trial, config)
            other = json.dumps(json.loads(trial["config"]) | {"drop": 0.9})
            for more in ({"revision": MODELS[model].revision + 1}, {"config": other}):
                assert not tune.is_current(trial | more, config)
        whole = [trial["value"] for trial in trials if trial["state"] == "complete"]
        best = tune.best_trial(trials)
        assert best["value"] == (min(whole) if best["metric"] in LOWER_IS_BETTER else max(whole))
        kept = presets.of_model(data, model)["standard"]
        assert (kept["learning_rate"], kept["weight_penalty"]) == (best["learning_rate"], best["weight_penalty"])
        seeds = budgets.seeds(budgets.budget("full"), data, model)
        assert config.train.seed not in seeds  # what is reported was not used to choose


def test_rivals_of_leap_plus_have_the_best_of_as_many_trials_of_its_training():
    for data, count in rivals.TRIALS.items():
        asked = {tuple(json.dumps(one) for one in rivals.variations(data, model)) for model in presets.preset(data)["rivals"]}
        assert all(len(one) == count for one in asked)
        for model in presets.preset(data)["rivals"]:
            trials = rivals.of_rival(data, model, ROOT / tune.OUT)
            configs = rivals.configs(data, model)
            assert [trial["trial"] for trial in trials] == list(range(count)), (data, model)
            assert all(rivals.is_current(trial, config) for trial, config in zip(trials, configs, strict=True)), (data, model)
            best = rivals.best_trial(trials)
            assert best["value"] == (min if best["metric"] in LOWER_IS_BETTER else max)(one["value"] for one in trials)
            assert presets.preset(data)["rivals"][model] == json.loads(best["settings"]), (data, model)
            assert configs[0].train.seed not in presets.seeds(data)


def test_each_model_has_the_training_of_speech_commands_that_its_validation_data_prefers():
    there = of_settings(preset("noise", "standard"), by_key(read_all(ROOT / "results" / "standard")))
    for model, label in LABELS.items():
        found = [
            {one["seed"]: one["metrics"]["validation"]["accuracy"] for one in there[label, column]}
            for column in ("with noise", "without noise")
        ]
        both = found[0].keys() & found[1].keys()
        assert len(both) > 1, model
        noisy, plain = (np.mean([one[seed] for seed in both]) for one in found)
        assert presets.of_model("speech-commands", model)["without_noise"] == (plain > noisy), model


def test_fields_of_leap_and_ncde_are_smooth_on_speech_commands_only():
    smooth = lambda data, model: budgets.config(budgets.budget("standard"), data, 0.0, model, {}, {}).options.get("activation")
    assert smooth("speech-commands", "leap") == smooth("speech-commands", "layers+ncde") == "silu"
    assert smooth("speech-commands", "leap+") is smooth("speech-commands", "gru") is smooth("sepsis", "leap") is None


@pytest.mark.parametrize("model", ["leap", "layers+ncde"])
def test_the_standard_budget_trains_with_what_was_chosen(model, monkeypatch):
    section = presets.of_model("character-trajectories", model)
    assert section == presets.of_model("character-trajectories", model.removeprefix("layers+"))  # as what it is made of
    tuned = {**section, "standard": {"learning_rate": 0.123, "weight_penalty": 0.5}}
    monkeypatch.setattr(budgets, "of_model", lambda data, model: tuned)
    config = budgets.config(budgets.budget("standard"), "character-trajectories", 0.3, model, {}, {})
    assert (config.train.learning_rate, config.train.weight_penalty) == (0.123, 0.5)
    assert "alpha" not in config.options  # the default, which no trial decides
    own = budgets.config(budgets.budget("standard"), "character-trajectories", 0.3, "leap", {"alpha": 1.0}, {})
    assert own.options["alpha"] == 1.0  # an experiment's own value wins


def test_whoever_follows_a_path_follows_straight_lines_on_simulations():
    standard = budgets.budget("standard")
    for model in ("leap", "ncde", "layers+ncde", "gru-ode"):
        assert budgets.recipe(standard, "mujoco", model).interpolation == "linear"
        assert budgets.recipe(standard, "mujoco-as-run", model).interpolation == "natural"
        assert budgets.recipe(budgets.budget("full"), "mujoco", model).interpolation == "natural"  # as the paper has it
    assert (
        budgets.recipe(standard, "mujoco", "gru").interpolation
        == budgets.recipe(standard, "mujoco", "ridge").interpolation
        == "natural"
    )
