"""Times to an event from summaries of each sample: a Cox model, boosted trees; and Kaplan–Meier, which looks at nothing.

All answer as models do: with the logarithm of how many times the hazard of each bin of time is that of the training data.
Of a Cox model and of trees one number a sample is added to a number for each bin: their hazards are proportional.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from leapcde.baselines.summary import features
from leapcde.baselines.tabular import learn_scale, sample_weights, scaled, thinned
from leapcde.baselines.trees import LEAF, Arrays, few_threads, first_rounds, of_known_columns, sums, tree_arrays
from leapcde.data.series import Series
from leapcde.training.events.bins import FAR
from leapcde.training.events.metrics import at_times, kaplan_meier, losses
from leapcde.training.preprocess import Preprocessor

PENALTIES = (0.001, 0.01, 0.1, 1.0)  # of a Cox model; the best on validation data is taken
ROUNDS = (25, 50, 100, 200)  # of boosted trees, in the same way
PACE = 0.05  # of boosted trees
SOONEST = 1e-6  # expected events of who was watched for no time at all


def kaplan_meier_curve(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    """At the ends of all bins, survival is that of the Kaplan–Meier curve; of the last one where that is above 0."""
    assert of.bins is not None
    event, time, edges = *_event_time(train), np.array(of.bins.edges)
    share = at_times(*kaplan_meier(event, time, train.weights), edges)
    fallen = -np.diff(np.log(np.maximum(share, SOONEST)), prepend=0.0)
    usual = np.exp(of.bins.log_hazard) * np.diff(edges, prepend=0.0)
    known = (share > 0) & (fallen > 0)
    return {"answer": np.where(known, np.log(np.where(known, fallen, 1.0) / usual), 0.0).astype(np.float32)}


def cox(train: Series, validation: Series, of: Preprocessor, seed: int, strengths=PENALTIES) -> Arrays:
    """With the penalty that is best on the validation data."""
    train = thinned(train)
    scale = learn_scale(features(train))
    x, (event, time), each = scaled(features(train), scale), _event_time(train), sample_weights(train)
    tried = []
    for strength in strengths:
        weights = fit_cox(x, event, time, strength, each)
        tried.append({"weights": weights, **scale, "start": _levels(train, of, x @ weights), "strength": np.array(strength)})
    return _best(tried, validation, of, linear_hazards)


def linear_hazards(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    said = scaled(features(series), found) @ found["weights"]
    return said[:, None] + found["start"]


def trees_for_hazards(train: Series, validation: Series, of: Preprocessor, seed: int, strengths=ROUNDS) -> Arrays:
    """Poisson regression: events against those that were to be expected of an average sample that was watched as long."""
    train = thinned(train)
    x, target = features(train), of.encode_target(np.asarray(train.target))
    expected, had = np.maximum(target[:, 0].sum(1), SOONEST), target[:, 1].sum(1)
    each = sample_weights(train)
    weights = expected if each is None else expected * each
    with few_threads(x):
        booster = _booster(len(x), int(max(strengths)), seed)
        model = booster.fit(of_known_columns(x, weights), had / expected, sample_weight=weights)
    grown = tree_arrays(model)
    some = [first_rounds(grown, int(rounds)) for rounds in strengths]
    tried = [{**trees, "levels": _levels(train, of, sums(trees, x)[:, 0])} for trees in some]
    return _best(tried, validation, of, tree_hazards)


def tree_hazards(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    return sums(found, features(series)) + found["levels"]


def fit_cox(x: np.ndarray, event: np.ndarray, time: np.ndarray, strength: float, each: np.ndarray | None = None) -> np.ndarray:
    """Weights of a Cox model: the largest partial likelihood (ties as by Breslow) with `strength` / 2 ‖weights‖² off it.

    Parameters
    ----------
    x : (sample, feature) array
    event, time : (sample,) arrays
        Whether the event was seen, and when; or until when there was none.
    strength : float
        Of the penalty, beside the mean over the samples.
    each : (sample,) array, optional
        How much each sample counts.

    Returns
    -------
    (feature,) array
    """
    order = np.argsort(-time, kind="stable")
    x, event, time = x[order], event[order], time[order]
    each = np.ones(len(time)) if each is None else each[order]
    last = np.searchsorted(-time, -time, side="right") - 1  # of those with the same time, who are at risk together
    seen = np.flatnonzero(event)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        score = np.clip(x @ weights, -50, 50)
        ratio = each * np.exp(score)
        at_risk, pull = np.cumsum(ratio)[last], np.cumsum(ratio[:, None] * x, axis=0)[last]
        counts = each[seen]
        value = -np.sum(counts * (score[seen] - np.log(at_risk[seen]))) / len(time)
        slope = -counts @ (x[seen] - pull[seen] / at_risk[seen, None]) / len(time)
        return float(value + strength * weights @ weights / 2), slope + strength * weights

    return optimize.minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 300}).x


def _levels(train: Series, of: Preprocessor, score: np.ndarray) -> np.ndarray:
    """For each bin, what is to be added to the scores so that as many events are expected as there were."""
    target = of.encode_target(np.asarray(train.target)).astype(np.float64)
    each = np.ones(len(score)) if (given := sample_weights(train)) is None else given
    expected = (each * np.exp(np.clip(score, -FAR, FAR))) @ target[:, 0]
    return np.log(np.maximum(each @ target[:, 1], 0.5) / np.maximum(expected, SOONEST))


def _best(tried: list[Arrays], validation: Series, of: Preprocessor, answer: Any) -> Arrays:
    target, each = of.encode_target(np.asarray(validation.target)), sample_weights(validation)
    return min(tried, key=lambda found: float(np.average(losses(answer(validation, of, found), target), weights=each)))


def _booster(samples: int, rounds: int, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    leaf = int(np.clip(samples // 20, 3, LEAF))
    settings = {"loss": "poisson", "learning_rate": PACE, "max_iter": rounds, "early_stopping": False}
    return HistGradientBoostingRegressor(**settings, min_samples_leaf=leaf, random_state=seed)


def _event_time(series: Series) -> tuple[np.ndarray, np.ndarray]:
    target = np.asarray(series.target, float)
    return target[:, 0] > 0, target[:, 1]
