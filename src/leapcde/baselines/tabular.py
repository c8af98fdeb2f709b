"""Classes and numbers from summaries of each sample: logistic regression, ridge, boosted trees; and what looks at nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import log_softmax

from leapcde.baselines.summary import features
from leapcde.baselines.trees import Arrays, fit_forest, fit_trees, means, sums
from leapcde.data.series import Series, uneven
from leapcde.training.preprocess import Preprocessor

PENALTIES = np.logspace(-3, 4, 8)  # of the ridge; the best on validation is taken
STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # of logistic regression: large is free
MOST = 10_000  # samples that linear baselines learn from: more change little, and they are to take seconds
FAR = 10.0  # deviations beyond which a number says no more
BEYOND = 0.25  # of the range of training targets, by which a ridge may leave it: summaries have outliers
UNSURE = 0.005  # share of every class that a forest adds to what its trees say: half a tree in a hundred
RARE = np.log(1e-6)  # of a class that training data does not show


def class_prior(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    counts = np.bincount(_target(train, of), weights=sample_weights(train), minlength=of.spec.output[0])
    return {"answer": np.log((counts + 1) / (counts + 1).sum()).astype(np.float32)}


def mean_target(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    mean = np.average(_target(train, of), axis=0, weights=sample_weights(train))
    return {"answer": mean.astype(np.float32).reshape(of.spec.output)}


def constant(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    return np.broadcast_to(found["answer"], (len(series), *found["answer"].shape)).copy()


def logistic(train: Series, validation: Series, of: Preprocessor, seed: int, strengths=STRENGTHS) -> Arrays:
    """With the strength that is best on the validation data."""
    train = thinned(train)
    scale = learn_scale(features(train))
    x, y = scaled(features(train), scale), _target(train, of)
    each = sample_weights(train)
    learned = [_logistic(x, y, of.spec.output[0], strength, each) for strength in strengths]
    tried = [{**found, **scale, "strength": np.array(strength)} for found, strength in zip(learned, strengths, strict=True)]
    truth, each = _target(validation, of), sample_weights(validation)
    said = lambda found: linear_classes(validation, of, found)[np.arange(len(truth)), truth]
    return min(tried, key=lambda found: -float(np.average(said(found), weights=each)))


def linear_classes(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    return log_softmax(scaled(features(series), found) @ found["weights"] + found["start"], axis=1)


def ridge_number(train: Series, validation: Series, of: Preprocessor, seed: int, strengths=PENALTIES) -> Arrays:
    """With the penalty that is best on the validation data."""
    train = thinned(train)
    scale = learn_scale(features(train))
    parts = [(scaled(features(part), scale), _target(part, of)) for part in (train, validation)]
    low, high = parts[0][1].min(0), parts[0][1].max(0)
    room = BEYOND * (high - low)
    found = best_ridge(*parts[0], *parts[1], sample_weights(train), sample_weights(validation), strengths)
    return {**found, **scale, "lowest": low - room, "highest": high + room}


def linear_number(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    said = scaled(features(series), found) @ found["weights"] + found["start"]
    return np.clip(said, found["lowest"], found["highest"])


def trees_for_classes(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    return fit_trees(features(train), _target(train, of), classes=of.spec.output[0], seed=seed, weights=sample_weights(train))


def tree_classes(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    return class_scores(found, features(series), of)


def class_scores(found: Arrays, table: np.ndarray, of: Preprocessor) -> np.ndarray:
    """What boosted trees say of each row of a table: logarithms of probabilities, of all classes."""
    raw = sums(found, table)
    known = np.concatenate([np.zeros_like(raw), raw], 1) if raw.shape[1] == 1 else raw
    return _all_classes(log_softmax(known, axis=1), found["classes"], of.spec.output[0])


def trees_for_numbers(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    x, each = features(train), sample_weights(train)
    return side_by_side([fit_trees(x, y, seed=seed, weights=each) for y in _target(train, of).T])


def tree_numbers(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    x = features(series)
    return np.concatenate([sums(one, x) for one in apart(found)], axis=1)


def forest_for_classes(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    train = thinned(train)
    table, scale = _forest_table(train)
    settings = {"classes": of.spec.output[0], "seed": seed, "weights": sample_weights(train)}
    return {**fit_forest(table, _target(train, of), **settings), **scale}


def forest_classes(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    share = means(found, scaled(features(series), found))
    return np.log((share + UNSURE) / (1 + UNSURE * share.shape[1]))


def forest_for_numbers(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    train = thinned(train)
    table, scale = _forest_table(train)
    return {**fit_forest(table, _target(train, of), seed=seed, weights=sample_weights(train)), **scale}


def forest_numbers(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    return means(found, scaled(features(series), found))


def _forest_table(train: Series) -> tuple[np.ndarray, Arrays]:
    table = features(train)
    scale = learn_scale(table)
    return scaled(table, scale), scale


def side_by_side(parts: list[Arrays]) -> Arrays:
    """Arrays of several models as those of one; of a single model, its own. `apart` takes them apart."""
    if len(parts) == 1:
        return parts[0]
    numbered = {f"{name} {j}": array for j, part in enumerate(parts) for name, array in part.items()}
    return {"models": np.array(len(parts)), **numbered}


def apart(found: Arrays) -> list[Arrays]:
    """What `side_by_side` put together.

    >>> [one["a"].item() for one in apart(side_by_side([{"a": np.array(1)}, {"a": np.array(2)}]))]
    [1, 2]
    """
    if "models" not in found:
        return [found]
    ending = [f" {j}" for j in range(int(found["models"]))]
    return [{name.removesuffix(end): array for name, array in found.items() if name.endswith(end)} for end in ending]


def of_labels(learn: Callable[..., Arrays], answer: Callable[..., np.ndarray]) -> tuple[Callable[..., Arrays], Callable]:
    """How several labels are learned and answered: each by itself, as the two classes that it is. Scores are log odds."""

    def learn_each(train: Series, validation: Series, of: Preprocessor, seed: int, strengths=None) -> Arrays:
        own, count = _two_classes(of), of.spec.output[0]
        kept: list[dict[str, Any]] = [{}] * count if strengths is None else [{"strengths": one} for one in strengths]
        parts = [[_label(part, j) for part in (train, validation)] for j in range(count)]
        return side_by_side([learn(*pair, own, seed, **more) for pair, more in zip(parts, kept, strict=True)])

    def answer_each(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
        scores = [answer(series, _two_classes(of), one) for one in apart(found)]
        return np.stack([one[:, 1] - one[:, 0] for one in scores], axis=1)

    return learn_each, answer_each


def _two_classes(of: Preprocessor) -> Preprocessor:
    return replace(of, spec=replace(of.spec, task="classification", output=(2,)), classes=(0, 1), target_names=())


def _label(series: Series, j: int) -> Series:
    return replace(series, target=np.asarray(series.target)[:, j].astype(int), target_names=())


def best_ridge(
    x: np.ndarray,
    y: np.ndarray,
    x_val: np.ndarray,
    y_val: np.ndarray,
    each: np.ndarray | None = None,
    each_val: np.ndarray | None = None,
    penalties=PENALTIES,
) -> Arrays:
    """Ridge regression of all columns of y at once, by the penalty that is best on validation data; `each` are weights."""
    x, y = x.astype(float), y.astype(float)
    mean, start = np.average(x, axis=0, weights=each), np.average(y, axis=0, weights=each)
    away = (x - mean) if each is None else (x - mean) * (each / each.mean())[:, None]
    sizes, axes = np.linalg.eigh(away.T @ (x - mean))
    turned = axes.T @ (away.T @ (y - start))
    tried = [axes @ (turned / (np.maximum(sizes, 0.0) + penalty)[:, None]) for penalty in penalties]
    weigh = 1.0 if each_val is None else (each_val / each_val.mean())[:, None]
    error = lambda weights: float(np.nanmean(weigh * ((x_val - mean) @ weights + start - y_val) ** 2))
    best = int(np.argmin([error(weights) for weights in tried]))
    return {"weights": tried[best], "start": start - mean @ tried[best], "strength": np.array(penalties[best])}


def learn_scale(table: np.ndarray) -> Arrays:
    """Mean and deviation of each column of a table, for `scaled`."""
    seen = ~np.isnan(table)
    count, filled = np.maximum(seen.sum(0), 1), np.where(seen, table, 0.0)
    mean = filled.sum(0) / count
    std = np.sqrt((np.where(seen, filled - mean, 0.0) ** 2).sum(0) / count)
    return {"mean": mean, "std": np.where(std <= 1e-12 * np.abs(mean), 1.0, std)}


def scaled(table: np.ndarray, scale: Arrays) -> np.ndarray:
    """Columns in deviations from their mean, at most `FAR`; what is missing at the mean."""
    return np.clip(np.nan_to_num((table - scale["mean"]) / scale["std"]), -FAR, FAR)


def thinned(series: Series, most: int = MOST) -> Series:
    """At most so many samples, spread evenly over all."""
    if len(series) <= most:
        return series
    return series.take(np.linspace(0, len(series) - 1, most).astype(int))


def _logistic(x: np.ndarray, y: np.ndarray, classes: int, strength: float, each: np.ndarray | None = None) -> Arrays:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():  # after so many steps it is good enough to be compared with
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=strength, max_iter=200).fit(x, y, sample_weight=each)
    weights, start = model.coef_.T, model.intercept_
    if weights.shape[1] == 1:  # of two classes scikit-learn keeps the second's lead
        weights, start = np.concatenate([0 * weights, weights], 1), np.append(0.0, start)
    known = np.asarray(model.classes_)
    missing = np.full(classes, RARE)
    missing[known] = start
    return {"weights": _all_classes(weights, known, classes, 0.0), "start": missing}


def _all_classes(found: np.ndarray, known: np.ndarray, classes: int, fill: float = RARE) -> np.ndarray:
    """Columns for all classes, where `found` has them for those that were seen."""
    whole = np.full((len(found), classes), fill)
    whole[:, known] = found
    return whole


def sample_weights(series: Series) -> np.ndarray | None:
    """How much samples count, 1 on average; None where all count the same."""
    weights = uneven(series.weights)
    return None if weights is None else weights / weights.mean()


def _target(series: Series, of: Preprocessor) -> np.ndarray:
    return of.encode_target(np.asarray(series.target))
