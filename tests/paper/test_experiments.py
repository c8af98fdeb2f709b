"""Presets say what the paper says, tables say what the records say, and tests of significance are right."""

from __future__ import annotations

import re

import equinox as eqx
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from fakes import fake_records
from leapcde.datasets.registry import load
from leapcde.errors import InputError
from leapcde.explain.hidden import CLASSICAL
from leapcde.models.base import Spec
from leapcde.models.registry import MODELS, build, count_parameters, options_of
from leapcde_paper import baselines, presets
from leapcde_paper import paper_numbers as paper
from leapcde_paper.budgets import BUDGETS
from leapcde_paper.figures import draw
from leapcde_paper.figures.figures import figure
from leapcde_paper.figures.look import look
from leapcde_paper.reproduce import ask, experiments_of, grid_of
from leapcde_paper.rows import ARCHIVE
from leapcde_paper.run.data import cell_data
from leapcde_paper.run.experiment import from_toml, to_toml
from leapcde_paper.studies import MAIN_TABLES, STUDIES, preset
from leapcde_paper.tables import render
from leapcde_paper.tables.differences import against_paper
from leapcde_paper.tables.hidden import SHARE
from leapcde_paper.tables.statistics import cluster_bootstrap, error_lead, lead, paired_t, ranks, same_as_best
from leapcde_paper.tables.table import by_key, table

DATA = ("character-trajectories", "speech-commands", "sepsis", "mujoco")


# ---- presets ---------------------------------------------------------------------------------------------------------


def test_the_full_budget_is_the_papers():
    """The appendix: seeds, sizes, rates, α, β, epochs, batch and patience."""
    run = {run.row: run for run in preset("character", "full").settings if run.column == "30 %"}["LEAP"]
    train, options = run.config.train, run.config.options
    assert run.seeds == (112, 198, 234, 307, 425)
    assert (train.epochs, train.batch_size, train.patience, train.stop_on, train.schedule) == (200, 32, 50, "train", "constant")
    assert (options["hidden"], options["width"], options["depth"], options["f_width"]) == (40, 100, 3, 128)
    assert options["alpha"] == options["beta"] == 1e-6
    leap = {run.row: run for run in preset("mujoco", "full").settings}["LEAP"].config
    assert (leap.train.epochs, leap.train.batch_size, leap.train.patience, leap.options["alpha"]) == (1000, 1024, 100, 1e-4)
    assert not leap.recipe.time_channel and preset("sepsis", "full").settings[0].config.recipe.intensity
    sizes = {run.row: run.config.options["hidden"] for run in preset("model-size", "full").settings}
    assert [sizes[f"LEAP ({size})"] for size in ("small", "medium", "large")] == [39, 49, 59]
    outputs = preset("output-length", "full").settings
    assert {run.config.dataset_options.get("horizon", 10) for run in outputs if run.row == "last value"} == {1, 5, 10, 15, 20}
    assert {run.config.dataset_options.get("horizon", 10) for run in outputs if run.row == "LEAP"} == {1, 5, 10, 15, 20}
    without = {run.row: run for run in preset("layers-forecasting", "full").settings}["LEAP without likelihood"]
    assert without.config.options["beta"] == 0.0


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", STUDIES)
def test_every_preset_is_toml_and_its_models_take_its_options(name, budget):
    one = preset(name, budget)
    assert from_toml(to_toml(one)) == one
    for run in one.settings:
        if not baselines.is_baseline(run.config.model):
            assert not set(run.config.options) - set(options_of(run.config.model))
            most = BUDGETS[budget].seeds if name in MAIN_TABLES else None
            again = run.paths and run.row == "LEAP+ (ours)"  # one seed is trained again to keep its paths
            assert len(run.seeds) in (
                [1] if again else [most] if most else [BUDGETS[budget].seeds, BUDGETS[budget].study_seeds]
            )
    rows = set(one.rows)
    if budget != "smoke" and name in paper.TABLES:  # nothing of the paper's table is missing
        assert set(paper.TABLES[name].rows) <= rows and set(paper.TABLES[name].columns) <= set(one.columns)
    if STUDIES[name].kind == "table" and name not in ("leap-plus", "hidden", "same-training", "ages"):  # which are about LEAP+
        assert rows & {"LEAP", "LEAP (medium)"} and any("NCDE" in row for row in rows)


@pytest.mark.parametrize("data", DATA)
def test_every_model_has_a_size_and_a_search_space_for_every_data_set_of_the_paper(data):
    for name in MODELS:
        for options in (presets.sizes(data, name), presets.paper_options(data, name)):
            assert options["hidden"] >= 15 and not set(options) - set(options_of(name))
        assert set(presets.space(data, name)) - {"learning_rate"} <= set(options_of(name))
    fixed = {"character-trajectories": 40, "speech-commands": 160, "mujoco": 180}
    assert presets.sizes(data, "gru")["hidden"] == fixed.get(data, 60)
    assert len(presets.seeds(data)) == 5


@pytest.mark.parametrize("name", MODELS)
def test_paper_presets_can_be_built(name):
    spec = Spec("classification", 3, 4, (20,), span=181.0)
    options = presets.paper_options("character-trajectories", name)
    assert count_parameters(eqx.filter_eval_shape(lambda: build(name, spec, **options))) > 1000


def test_main_tables_have_five_seeds_and_what_only_studies_have_three():
    """A cell that both have has the same seeds in both, whatever it is called."""
    settings = {name: preset(name, "standard").settings for name in STUDIES}
    seeds = {name: {(run.row, run.column): len(run.seeds) for run in runs} for name, runs in settings.items()}
    assert set(seeds["character"].values()) == set(seeds["sepsis"].values()) == {5, 1}  # one: what does not depend on it
    assert seeds["speech"]["LEAP", paper.SPEECH] == seeds["sensitivity"]["0.0001", paper.OTHER_SPEECH] + 2 == 5
    assert seeds["leap-plus"]["LEAP+ (ours)", paper.MUJOCO] == 5 and seeds["leap-plus"]["Y = X", paper.MUJOCO] == 3
    assert seeds["noise"]["LEAP", "with noise"] == 5 and seeds["noise"]["LEAP", "without noise"] == 3
    assert seeds["output-length"]["LEAP", "10"] == 5 and seeds["output-length"]["LEAP", "1"] == 3
    assert seeds["model-size"]["LEAP (medium)", "PhysioNet Sepsis"] == 5
    assert seeds["same-training"]["GRU-ODE", paper.OTHER_SPEECH] == 3
    parts = {run.column: run.samples for run in settings["sensitivity"]}
    assert parts == {paper.CHARACTERS: None, paper.OTHER_SPEECH: 1500, paper.SEPSIS: 6000, paper.MUJOCO: None}
    assert all(run.samples is None for name in MAIN_TABLES for run in settings[name])


def test_missing_data_is_an_error_but_of_all_the_rest_is_made(tmp_path):
    with pytest.raises(InputError, match="data is missing"):
        ask("sepsis", "smoke", str(tmp_path))
    (tmp_path / "mujoco").mkdir()
    (tmp_path / "mujoco" / "mujoco_as_run.npy").write_bytes(b"")
    found = ask("all", "smoke", str(tmp_path))
    there = {run.config.data for one in found.experiments for run in one.settings}
    assert len(found.missing) == 4 and {name for name in there if not name.startswith("uea:")} == {"mujoco-as-run"}
    with pytest.raises(InputError, match="no table or figure 'tabel'"):
        ask("tabel", "smoke")


def test_smoke_data_is_small_and_has_every_class():
    entry = next(entry for entry in preset("mujoco", "smoke").entries())
    small = cell_data(type(entry.cell)(entry.cell.config.__class__("hopper", drop=0.5), samples=10, length=6))
    assert len(small.train) == 10 and len(small.test) == 5 and set(small.train.lengths) == {6}
    assert small.train.sample(3)[0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_ridge_beats_the_last_value_and_both_know_what_was_seen_last():
    data = load("hopper", drop_rate=0.3, sequences=200)
    last = baselines.last_values(data.test)
    _, values = data.test.sample(3)
    for c in range(values.shape[1]):
        seen = values[~np.isnan(values[:, c]), c]
        assert last[3, c] == seen[-1]
    preprocessor, ridge = baselines.scores("ridge", data, _recipe(), 0)
    _, plain = baselines.scores("last-value", data, _recipe(), 0)
    truth = preprocessor.encode_target(np.asarray(data.test.target))
    assert np.mean((ridge["test"] - truth) ** 2) < np.mean((plain["test"] - truth) ** 2)


def _recipe():
    from leapcde.paths.batch import Recipe

    return Recipe()


# ---- statistics ------------------------------------------------------------------------------------------------------


def test_paired_t_is_the_textbooks_and_the_papers_p_values_have_599_degrees_of_freedom():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=40), rng.normal(size=40) + 0.3
    d = a - b
    t = d.mean() / (d.std(ddof=1) / np.sqrt(40))
    found = paired_t(a, b)
    single = paired_t((a - 30).astype(np.float32), b.astype(np.float32))  # as records keep errors
    assert 0 < single.p < 1e-50 and single.p == pytest.approx(paired_t(a - 30, b).p, rel=1e-2)
    assert found.df == 39 and np.isclose(found.t, t) and np.isclose(found.p, stats.t.cdf(t, 39))
    for t, p in (paper.T_TESTS["NCDE"][0], paper.T_TESTS["NCDE"][9], paper.T_TESTS["GRU-Δt"][9]):
        assert abs(np.log10(stats.t.cdf(t, 599)) - np.log10(p)) < 0.1


def test_the_bootstrap_by_sequence_is_not_fooled_by_windows_that_repeat():
    """Each of 8 sequences is one observation, however many windows are cut from it."""
    rng = np.random.default_rng(1)
    each = rng.normal(-0.2, 0.6, 8)
    ours, sequence = np.repeat(each, 40), np.repeat(np.arange(8), 40)
    plain, fair = paired_t(ours, np.zeros(320)), cluster_bootstrap(ours, np.zeros(320), sequence)
    assert plain.p < 1e-3 < 0.02 < fair.p
    assert fair.low < 0 < fair.high and np.isclose(fair.difference, each.mean()) and fair.clusters == 8
    # The spread of the mean of 8 draws is what the theory says.
    assert np.isclose((fair.high - fair.low) / (2 * 1.96), each.std() / np.sqrt(8), rtol=0.15)
    assert fair == cluster_bootstrap(ours, np.zeros(320), sequence)


@pytest.mark.parametrize("metric", ["accuracy", "auroc"])
def test_a_lead_is_the_difference_of_scores_and_its_interval_that_of_a_bootstrap(metric):
    rng = np.random.default_rng(2)
    truth = (rng.random(800) < 0.5).astype(int)  # as many of both, so that both parts of DeLong's variance count
    shared = truth + rng.normal(size=800)  # both models err on the same samples
    scores = [np.round(np.stack([np.zeros(800), 2 * (shared + s * rng.normal(size=800)) - 1], 1), 1) for s in (0.3, 0.8)]
    of = {"accuracy": lambda y, s: np.mean(s.argmax(1) == y), "auroc": lambda y, s: roc_auc_score(y, s[:, 1])}[metric]
    found = lead(metric, truth, scores[:1], scores[1:])
    assert np.isclose(found.difference, of(truth, scores[0]) - of(truth, scores[1])) and found.samples == 800
    draws = rng.integers(800, size=(1000, 800))
    low, high = np.quantile([of(truth[d], scores[0][d]) - of(truth[d], scores[1][d]) for d in draws], [0.025, 0.975])
    assert np.allclose([found.low, found.high], [low, high], atol=0.1 * (high - low))
    twice = lead(metric, truth, scores, scores[1:])  # of two seeds the mean
    assert np.isclose(twice.difference, found.difference / 2) and lead(metric, truth, scores, scores)[:3] == (0, 0, 0)


def test_a_lead_in_error_is_a_share_and_its_interval_draws_sequences():
    rng = np.random.default_rng(3)
    sequence = np.repeat(np.arange(30), 20)
    size = rng.uniform(0.5, 2.0, 30)[sequence, None]  # sequences differ in how hard they are, for both alike
    other = size * rng.normal(size=(600, 4))
    ours = other * rng.uniform(0.5, 0.9, 30)[sequence, None]
    found = error_lead([ours], [other], sequence)
    assert np.isclose(found.difference, 1 - np.mean(ours**2) / np.mean(other**2)) and found.samples == 600
    shares = []
    for _ in range(1000):
        rows = np.concatenate([np.flatnonzero(sequence == s) for s in rng.integers(30, size=30)])
        shares.append(1 - np.mean(ours[rows] ** 2) / np.mean(other[rows] ** 2))
    low, high = np.quantile(shares, [0.025, 0.975])
    assert np.allclose([found.low, found.high], [low, high], atol=0.15 * (high - low))
    assert error_lead([ours, other], [other], sequence).difference == pytest.approx(found.difference / 2)


def test_ranks_and_critical_difference():
    """Demšar (2006): with ten data sets and five models, the critical difference at 5 % is 1.93."""
    scores = {name: list(np.random.default_rng(i).random(10)) for i, name in enumerate("abcde")}
    found = ranks(scores, [True] * 10)
    assert np.isclose(found.critical_difference, 2.728 * np.sqrt(5 * 6 / 60), atol=5e-3)
    assert np.isclose(sum(found.average.values()), 15)
    flipped = ranks({name: [-v for v in row] for name, row in scores.items()}, [False] * 10)
    assert flipped.average == found.average and flipped.wilcoxon_p == found.wilcoxon_p
    assert np.isclose(found.wilcoxon_p["a", "b"], stats.wilcoxon(scores["a"], scores["b"]).pvalue)


def test_problems_of_the_archive_are_rows_and_count_once_in_the_ranks(tmp_path):
    """One model is best with nothing dropped, by far, and a little worse with the other three rates."""

    def made(entry):
        config = entry.cell.config
        return {"leap": 0.9 if config.drop == 0 else 0.5, "ncde": 0.2 if config.drop == 0 else 0.51}.get(config.model, 0.1)

    found = fake_records(tmp_path, ["archive"], made)
    _, grid = grid_of(preset("archive", "standard"), found, tmp_path)
    assert grid is not None
    assert grid.rows[1][0].text == "ArrowHead, 30 %" and grid.header[0] == "problem, rows dropped"
    assert [row[grid.header.index("NCDE")].bold for row in grid.rows[:4]] == [False, True, True, True]
    [chart] = figure(preset("archive-ranks", "standard"), by_key(found), tmp_path)["charts"]
    ranked = {one["name"]: one["x"][0] for one in chart["series"]}
    assert chart["sets"] == len(ARCHIVE) and (ranked["LEAP"], ranked["NCDE"]) == (1, 2)


def test_same_as_best_needs_seeds():
    assert same_as_best([0.9, 0.91, 0.92], [0.89, 0.92, 0.91]) is True
    assert same_as_best([0.9, 0.91, 0.92], [0.5]) is False
    assert same_as_best([0.9, 0.8], [0.9, 0.8]) is None and same_as_best([0.9, 0.8, 0.7], [0.9, 0.8, 0.7]) is True


# ---- tables ----------------------------------------------------------------------------------------------------------

BASE = {"leap": 0.9, "ncde": 0.899, "boosted-trees": 0.8, "gru": 0.5}


def accuracy(entry):
    config = entry.cell.config
    wobble = {112: 0.0, 198: 0.01, 234: -0.01, 307: 0.0, 425: 0.0}[config.train.seed]
    return BASE.get(config.model, 0.3) + (wobble if config.model != "ncde" else -wobble) * (config.model in BASE)


def test_tables_are_made_of_their_records(tmp_path):
    found = fake_records(tmp_path, ["character"], accuracy)
    one = preset("character", "standard")
    made = table(one, by_key(found))
    column = made["columns"][0]
    leap, ncde, gru = (column["cells"][row] for row in ("LEAP", "NCDE", "GRU"))
    assert np.isclose(leap["mean"], 0.9) and np.isclose(leap["std"], np.sqrt(2e-4 / 4)) and leap["paper"] == (0.992, 0.001)
    assert leap["best"] and ncde["best"] and not gru.get("best")  # NCDE cannot be told from LEAP
    assert leap["seconds"] == 3.5 and leap["step_mb"] == 5.0 and leap["process_mb"] == 700.0 and leap["paper_mb"] == 9.24
    assert made["done"] == made["cells"] == len(found)
    grid = render.grid(made)
    text, tex, html = render.markdown(grid), render.latex(grid), render.html(grid)
    assert "Budget standard" in text and "Budget standard" in tex and "Budget standard" in html
    assert re.search(r"\| LEAP \| \*\*0.900 ± 0.007\*\* \| 0.992 ± 0.001 \|", text)
    assert r"\textbf{0.900 $\pm$ 0.007}" in tex and "30 \\% accuracy" in tex and tex.count(r"\\") == len(grid.rows) + 1
    assert "<b>0.900 ± 0.007</b>" in html and 'data-value="0.9"' in html
    assert "class prior" in text and "boosted trees" in text and "MiniRocket" in text
    hours = (
        sum(2.0 + 3.0 + 4.0 for record in found if record["history"]) / 3600
        + sum(record["seconds"] for record in found if not record["history"]) / 3600
    )
    assert f"Seeds of the models, by column where they differ: 5. {hours:.1f} processor hours" in text


def test_rows_are_compared_by_the_seeds_that_both_have(tmp_path):
    """Each lacks another seed; by position they would be paired wrongly, and could not be told apart."""
    worse = {112: 0.9, 198: 0.5, 234: 0.7, 307: 0.9, 425: 0.9}
    gap = {"leap": 0.0, "ncde": 0.01}
    found = fake_records(tmp_path, ["character"], lambda e: worse[e.cell.config.train.seed] - gap.get(e.cell.config.model, 0.3))
    found = [one for one in found if (one["model"], one["seed"]) not in (("leap", 198), ("ncde", 234))]
    column = table(preset("character", "standard"), by_key(found))["columns"][0]["cells"]
    assert column["LEAP"]["best"] and not column["NCDE"]["best"]  # lower by 0.01 with every seed
    assert column["LEAP"]["seeds"] == [112, 234, 307, 425]


def test_a_table_with_holes_says_so(tmp_path):
    found = fake_records(tmp_path, ["character"], accuracy)
    some = [record for record in found if record["model"] == "leap" and record["drop"] == 0.3]
    text = render.markdown(render.grid(table(preset("character", "standard"), by_key(some))))
    assert f"5 of {len(found)} cells done" in text and "| NCDE | – | 0.988 ± 0.004 |" in text


def test_every_table_and_figure_comes_from_records_alone(tmp_path, monkeypatch):
    """Without data and without weights: records are all that a report needs."""
    monkeypatch.setattr(
        "leapcde_paper.figures.figures.project", lambda rows, small: ("UMAP", rows[:, :2])
    )  # takes half a minute
    found = fake_records(tmp_path, list(STUDIES), _any_score)
    ones = experiments_of(found)
    assert [one.name for one in ones] == list(STUDIES)
    for one in ones:
        if one.kind == "table":
            others = len(one.rows) - 1
            lines = dict.fromkeys(("margins", "margins-plus"), others)
            lines |= {"t-tests": 3 * others + len(paper.T_TESTS), "t-tests-plus": 3 * others}
            lines |= {"hidden": len(CLASSICAL) + len(one.rows) + 1, "archive": len(one.columns)}
            lines = lines.get(one.name, len(one.rows))
            assert len(grid_of(one, found, tmp_path)[1].rows) == lines
        else:
            assert figure(one, by_key(found), tmp_path)["charts"]
    tests, grid = grid_of(preset("t-tests", "standard"), found, tmp_path)
    assert tests["windows"] == 30 and tests["sequences"] == 6 and len(grid.header) == 11
    assert "29 degrees of freedom" in grid.notes[0] and tests["against"]["NCDE"][0]["t"] < -5
    tests_plus, grid_plus = grid_of(preset("t-tests-plus", "standard"), found, tmp_path)
    assert tests_plus["against"]["LEAP"][0]["t"] == -tests["against"]["LEAP+ (ours)"][0]["t"]
    assert "LEAP+'s error" in grid_plus.notes[0]
    in_paper = lambda grid: [row for row in grid.rows if "paper" in row[0].text]
    assert len(in_paper(grid)) == len(paper.T_TESTS) and not in_paper(grid_plus)
    assert [cell.text for cell in in_paper(grid)[0][1:3]] == ["-88.95", "-88.34"]  # GRU-Δt's
    _, leads = grid_of(preset("margins", "standard"), found, tmp_path)
    assert leads.header[1:] == [paper.CHARACTERS, paper.SPEECH, paper.OTHER_SPEECH, paper.SEPSIS]
    assert all(" to " in cell.text for row in leads.rows for cell in row[1:])
    plus = grid_of(preset("margins-plus", "standard"), found, tmp_path)[1]
    assert plus.header[0] == "LEAP+ against" and plus.header[-1] == "10,000 simulations" and "whole sequences" in plus.notes[0]
    assert all(row[-1].text == "–" or " to " in row[-1].text for row in plus.rows)
    filled = grid_of(preset("hidden", "standard"), found, tmp_path)[1]
    by_name = {row[0].text: row for row in filled.rows}
    learned, line = by_name["LEAP+ (ours)"], by_name["straight line"]
    assert by_name[SHARE][1].value == pytest.approx(learned[1].value / line[1].value)
    assert grid_of(preset("margins", "standard"), [r for r in found if r["model"] != "leap"], tmp_path) == (None, None)
    charts = {
        name: figure(preset(name, "standard"), by_key(found), tmp_path)["charts"]
        for name in ("sensitivity", "umap", "cost", "paths")
    }
    both = ["Y of LEAP", "Y of LEAP+"]
    assert [one["name"] for one in charts["paths"][0]["series"]] == ["X", *both, "observed"]
    assert [one["name"] for one in charts["umap"][0]["series"]] == ["X", *both]
    assert len(charts["sensitivity"]) == 4 and charts["sensitivity"][0]["series"][0]["x"] == [10.0**e for e in range(-7, 0)]
    assert len(charts["umap"]) == 4 and len(charts["umap"][0]["series"][0]["x"]) == 12
    assert {one["name"] for one in charts["cost"][0]["series"]} == {*paper.LABELS.values(), "LEAP+ (ours)"}
    rows = against_paper(ones, by_key(found))
    assert len(rows) == sum(len(t.rows) * len(t.columns) for t in paper.TABLES.values())
    assert all(row["why"] for row in rows)


def test_no_two_models_look_alike():
    """LEAP+ and GRU-Δt once shared a colour and a marker."""
    models = [look(name) for name in (*paper.LABELS.values(), "LEAP+ (ours)")]
    assert len(set(models)) == len({one.colour for one in models}) == len(models) == 14


def test_the_same_numbers_give_the_same_drawing(tmp_path):
    found = fake_records(tmp_path, ["output-length"], _any_score)
    made = figure(preset("output-length", "standard"), by_key(found), tmp_path)
    assert draw.files(made) == draw.files(made)


def _any_score(entry):
    rng = np.random.default_rng([len(entry.row), len(entry.column), entry.cell.config.train.seed])
    worse = 0.0 if entry.cell.config.model == "leap" else 0.3
    return float(rng.uniform(0.2, 0.4) + worse)


def test_a_model_that_is_new_or_missing_breaks_no_table(monkeypatch):
    """Somebody's own model is no row of the paper's tables, and one that is not installed has none."""
    monkeypatch.setitem(MODELS, "mine", MODELS["gru"])
    assert preset("sepsis", "standard").rows == preset("sepsis", "full").rows and "mine" not in str(preset("sepsis", "full"))
    assert presets.sizes("sepsis", "mine") == {}
    monkeypatch.delitem(MODELS, "ancde")
    rows = preset("sepsis", "standard").rows
    assert "ANCDE" not in rows and "LEAP" in rows
