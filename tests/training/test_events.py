"""Times to an event: likelihoods, curves and metrics against slow oracles and scikit-survival."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.metrics import brier_score, concordance_index_censored
from sksurv.nonparametric import kaplan_meier_estimator

from leapcde.baselines.fitted import Baseline, fit_baseline, refit_baseline
from leapcde.baselines.survival import fit_cox
from leapcde.datasets.simulated import patients
from leapcde.errors import InputError
from leapcde.estimators.certainty.calibrate import learn_hazard_calibration
from leapcde.nn.losses import hazard_loss
from leapcde.paths.batch import Recipe
from leapcde.training.events.bins import Bins, risk
from leapcde.training.events.metrics import (
    at_times,
    brier,
    calibration_curve,
    concordance,
    integrated_brier,
    kaplan_meier,
    losses,
)
from leapcde.training.preprocess import Preprocessor


def censored(samples: int, seed: int = 0, ties: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, whether the event was seen, and when."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, 3))
    time, leaves = rng.exponential(np.exp(-x[:, 0])), rng.exponential(2.0, samples)
    found = np.minimum(time, leaves)
    return x, time <= leaves, np.ceil(found * 5) if ties else found


def structured(event, time) -> np.ndarray:
    return np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.integers(0, 3)), min_size=2, max_size=25))
def test_concordance_is_that_of_scikit_survival(rows):
    event, time, score = (np.array(column) for column in zip(*rows, strict=True))
    ours = concordance(event, time.astype(float), score.astype(float))
    first = (time[:, None] < time) | ((time[:, None] == time) & ~event)
    if not (first & event[:, None]).any():  # no pair of which it is known who came first
        assert np.isnan(ours)
        return
    assert ours == pytest.approx(concordance_index_censored(event, time.astype(float), score.astype(float))[0])


def test_weights_of_a_pair_are_as_if_samples_were_repeated():
    _, event, time = censored(30, ties=True)
    score, counts = np.random.default_rng(1).normal(size=30).round(1), np.arange(30) % 3
    again = np.repeat(np.arange(30), counts)
    weighted = concordance(event, time, score, counts.astype(float))
    # Pairs of one sample with itself are of the same time: left out, or two that are alike.
    assert weighted == pytest.approx(concordance(event[again], time[again], score[again]), abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_curves_and_brier_scores_are_those_of_scikit_survival(ties):
    x, event, time = censored(200, ties=ties)
    times, share = kaplan_meier(event, time)
    theirs = kaplan_meier_estimator(event, time)
    np.testing.assert_allclose(times, theirs[0])
    np.testing.assert_allclose(share, theirs[1], atol=1e-12)
    when = np.quantile(time[event], [0.2, 0.5, 0.8]) + (0.5 if ties else 0.0)
    said = np.exp(-np.exp(x[:, :1]) * when)
    y = structured(event, time)
    np.testing.assert_allclose(brier(event, time, said, when), brier_score(y, y, said, when)[1], rtol=1e-10)


def test_the_truth_has_the_best_brier_score():
    known = patients(1500, 3)
    target, times = np.asarray(known.series.target), np.linspace(1.0, 15.0, 8)
    score = lambda curve: brier(target[:, 0] > 0, target[:, 1], curve, times).mean()
    truth = known.survival(times)
    assert score(truth) < min(score(truth**0.6), score(truth**1.6), score(np.full_like(truth, 0.5)))
    said, came, _ = calibration_curve(target[:, 0] > 0, target[:, 1], truth[:, 3], times[3], groups=5)
    np.testing.assert_allclose(said, came, atol=0.06)


def slow_likelihood(bins: Bins, ratio: np.ndarray, event: bool, time: float) -> float:
    """log f(t) or log S(t), by integrating the hazard numerically."""
    edges = [0.0, *bins.edges[:-1], np.inf]
    hazard = lambda t: next(
        np.exp(r + h) for r, h, low, high in zip(ratio, bins.log_hazard, edges[:-1], edges[1:], strict=True) if low < t <= high
    )
    points = [edge for edge in bins.edges[:-1] if edge < time]
    gone = integrate.quad(hazard, 0.0, time, points=points or None, limit=200)[0]
    return (float(np.log(hazard(time))) if event else 0.0) - gone


def test_the_loss_is_the_likelihood_of_hazards_that_are_constant_in_bins():
    _, event, time = censored(120)
    target = np.stack([event, time], 1).astype(float)
    bins = Bins.learn(target[:100])
    assert 2 <= len(bins) <= 20
    ratio = np.random.default_rng(0).normal(size=(20, len(bins)))
    rows = target[100:]
    slow = np.array([slow_likelihood(bins, r, e > 0, t) for r, (e, t) in zip(ratio, rows, strict=True)])
    base = np.array([np.sum(bins.encode(rows)[i, 1] * bins.log_hazard) for i in range(20)])
    np.testing.assert_allclose(losses(ratio, bins.encode(rows)), base - slow, rtol=1e-4, atol=1e-4)
    each = np.linspace(0.5, 1.5, 20)
    for weights in (None, each):
        fast = hazard_loss(
            jnp.asarray(ratio), jnp.asarray(bins.encode(rows)), None if weights is None else jnp.asarray(weights)
        )
        assert float(fast) == pytest.approx(np.mean((base - slow) * (1.0 if weights is None else weights)), rel=1e-4)


def test_curves_of_survival_and_their_quantiles():
    _, event, time = censored(150)
    bins = Bins.learn(np.stack([event, time], 1).astype(float))
    ratio = np.random.default_rng(0).normal(size=(8, len(bins)))
    times = np.array([0.0, 0.3, bins.edges[0], bins.edges[-1], 2 * bins.edges[-1]])
    curves = bins.survival(ratio, times)
    slow = [[np.exp(slow_likelihood(bins, r, False, t)) for t in times] for r in ratio]
    np.testing.assert_allclose(curves, slow, rtol=1e-6)
    for share in (0.1, 0.5, 0.9):
        when = bins.quantile(ratio, share)
        known = np.isfinite(when)
        both = [float(bins.survival(ratio[i : i + 1], when[i : i + 1])[0, 0]) for i in np.flatnonzero(known)]
        np.testing.assert_allclose(both, 1 - share, rtol=1e-9)
        assert (curves[~known, 3] > 1 - share).all()
    assert Bins.from_json(bins.to_json()) == bins
    np.testing.assert_allclose(risk(np.full((3, 4), 0.7)), 0.7)
    with pytest.raises(InputError, match="rise"):
        Bins.from_json({"edges": [2.0, 1.0], "log_hazard": [0.0, 0.0]})


def test_bins_hold_events_and_the_average_sample_has_the_hazard_of_the_data():
    _, event, time = censored(400)
    target = np.stack([event, time], 1).astype(float)
    bins = Bins.learn(target)
    encoded = bins.encode(target)
    np.testing.assert_allclose(encoded[:, 0].sum(0), encoded[:, 1].sum(0), rtol=1e-4)  # as many as are expected
    assert encoded[:, 1].sum(0).min() >= 10 and encoded[:, 1].sum() == event.sum()
    twice = Bins.learn(np.concatenate([target, target[:50]]))
    weighted = Bins.learn(target, np.where(np.arange(400) < 50, 2.0, 1.0))
    shared = Bins(weighted.edges, Bins.learn(target).log_hazard)
    assert weighted != shared and len(twice) >= len(weighted)
    for wrong in ([[0.0, 1.0]], [[1.0, 0.0]]):
        with pytest.raises(InputError, match="nothing can be learned"):
            Bins.learn(np.array(wrong * 5))


@pytest.mark.parametrize("strength", [0.01, 0.3])
@pytest.mark.parametrize("ties", [False, True])
def test_the_cox_model_is_that_of_scikit_survival(strength, ties):
    x, event, time = censored(150, ties=ties)
    theirs = CoxPHSurvivalAnalysis(alpha=strength * len(x), ties="breslow", tol=1e-12).fit(x, structured(event, time))
    np.testing.assert_allclose(fit_cox(x, event, time, strength), theirs.coef_, atol=2e-4)
    again = np.repeat(np.arange(150), np.arange(150) % 2 + 1)
    each = (np.arange(150) % 2 + 1.0) / 1.5
    repeated = fit_cox(x[again], event[again], time[again], strength)
    np.testing.assert_allclose(fit_cox(x, event, time, strength, each), repeated, atol=2e-4)


@pytest.fixture(scope="module")
def few() -> tuple:
    series = [patients(samples, seed).series for samples, seed in ((250, 1), (80, 2), (400, 3))]
    return *series, Preprocessor.learn(series[0], "survival", Recipe())


def test_baselines_rank_and_kaplan_meier_is_itself(few, tmp_path):
    train, held, test, of = few
    made = {name: fit_baseline(name, train, held, of) for name in ("kaplan-meier", "cox", "boosted-trees")}
    found = {name: one.evaluate(test) for name, one in made.items()}
    assert found["kaplan-meier"]["concordance"] == 0.5
    for name in ("cox", "boosted-trees"):
        assert found[name]["concordance"] > 0.65 and found[name]["brier"] < found["kaplan-meier"]["brier"]
        again = refit_baseline(made[name], train, of)
        np.testing.assert_array_equal(again.outputs(test), made[name].outputs(test))
    target, edges = np.asarray(train.target), np.array(of.bins.edges)
    curve = of.bins.survival(made["kaplan-meier"].outputs(test)[:1], edges)[0]
    known = at_times(*kaplan_meier(target[:, 0] > 0, target[:, 1]), edges)
    np.testing.assert_allclose(curve[known > 0], known[known > 0], rtol=1e-5)
    made["boosted-trees"].save(tmp_path / "trees.safetensors")
    assert isinstance(made["boosted-trees"], Baseline)


def test_the_integrated_score_is_the_mean_over_time(few):
    _, _, test, of = few
    target = np.asarray(test.target)
    raw = np.zeros((len(test), len(of.bins)))
    low, high = np.quantile(target[target[:, 0] > 0, 1], [0.1, 0.9])
    fine = np.linspace(low, high, 1000)
    scores = brier(target[:, 0] > 0, target[:, 1], of.bins.survival(raw, fine), fine)
    assert integrated_brier(of.bins, raw, target) == pytest.approx(scores.mean(), rel=0.01)
    assert np.isnan(integrated_brier(of.bins, raw, target * [0, 1]))


def test_what_is_too_sure_is_calibrated(few):
    train, held, test, of = few
    one = fit_baseline("cox", train, held, of)
    target = of.encode_target(np.asarray(test.target)).astype(float)
    fine, raw = learn_hazard_calibration(one.outputs(test), target), one.outputs(test)
    wild = learn_hazard_calibration(3.0 * raw + 1.0, target)
    assert wild.temperature == pytest.approx(3.0 * fine.temperature, rel=0.15)
    better = replace(one, calibration=wild)
    assert losses(wild(3.0 * raw + 1.0), target).mean() < losses(3.0 * raw + 1.0, target).mean()
    assert better.calibration == wild and learn_hazard_calibration(np.full_like(raw, np.inf), target).temperature == 1.0
