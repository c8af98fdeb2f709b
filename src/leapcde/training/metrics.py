"""Numbers to judge predictions by, over all samples of a split and without any penalty in them."""

from __future__ import annotations

import numpy as np
from scipy import special

from leapcde.data.series import uneven
from leapcde.training.events.metrics import measure_hazards

MAIN = {"classification": "accuracy", "binary": "auroc", "labels": "auroc", "regression": "mse", "forecasting": "mse"}
MAIN |= {"survival": "concordance"}
LOWER_IS_BETTER = ("mse", "mae", "loss", "val_loss", "brier", "ece")
BINS = 15  # of equally many samples, in which probabilities are compared with frequencies


def main_metric(task: str, classes: int) -> str:
    """The metric by which models are chosen; ranking for two classes, because they are rarely balanced.

    >>> main_metric("classification", 2), main_metric("forecasting", 0)
    ('auroc', 'mse')
    """
    return MAIN["binary" if task == "classification" and classes == 2 else task]


def measure(task: str, prediction: np.ndarray, target: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """All metrics of a task. `prediction` holds class scores (logits), log hazard ratios or values; `weights`, how much each
    sample counts."""
    weights = uneven(weights)
    if task == "classification":
        return _classification(prediction.astype(np.float64), target, weights)
    if task == "labels":
        return _labels(prediction.astype(np.float64), target, weights)
    if task == "survival":
        return measure_hazards(prediction, target, weights)
    there = ~np.isnan(target)
    error = prediction.astype(np.float64)[there] - target[there]
    each = None if weights is None else np.broadcast_to(weights.reshape(-1, *[1] * (target.ndim - 1)), target.shape)[there]
    return {"mse": float(np.average(error**2, weights=each)), "mae": float(np.average(np.abs(error), weights=each))}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Rows of probabilities from rows of scores.

    >>> softmax(np.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    """
    return special.softmax(logits, axis=-1)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities of labels from their scores.

    >>> sigmoid(np.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    """
    return special.expit(logits.astype(np.float64))


def frequencies(probability: np.ndarray, target: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """How well rows of probabilities are frequencies: Brier score and expected calibration error; 0 is best for both.

    The Brier score is Σ (p − y)² over the classes, halved for two classes, as is usual. The calibration error is the
    mean distance of probability and frequency over the `reliability` bins. `weights` says how much each sample counts.

    >>> frequencies(np.array([[0.5, 0.5]] * 4), np.array([0, 1, 0, 1]))
    {'brier': 0.25, 'ece': 0.0}
    """
    if not np.isfinite(probability).all():
        return {"brier": float("nan"), "ece": float("nan")}
    classes, weights = probability.shape[1], uneven(weights)
    squared = np.sum((probability - np.eye(classes)[target]) ** 2, axis=1)
    said, came, count = reliability(probability, target, weights=weights)
    ece = float(np.sum(count * np.abs(said - came)) / count.sum())
    return {"brier": float(np.average(squared, weights=weights)) / (2 if classes == 2 else 1), "ece": ece}


def reliability(
    probability: np.ndarray, target: np.ndarray, bins: int = BINS, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean probability, frequency, samples or their weight) in bins of equally many samples, of rising probability.

    Of two classes, the second's probability and how often it came; of more, the largest and how often it was right.
    Samples with the same probability share a bin.

    >>> reliability(np.array([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7], [0.3, 0.7]]), np.array([0, 1, 1, 1]))
    (array([0.2, 0.7]), array([0.5, 1. ]), array([2., 2.]))
    """
    if probability.shape[1] == 2:
        said, came = probability[:, 1], target == 1
    else:
        said, came = probability.max(1), probability.argmax(1) == target
    edges = np.unique(np.quantile(said, np.arange(1, bins) / bins, method="inverted_cdf"))
    place = np.searchsorted(edges, said)
    count = np.bincount(place, weights=weights, minlength=len(edges) + 1).astype(float)
    each = 1.0 if weights is None else weights
    sums = (np.bincount(place, weights=each * w, minlength=len(count)) for w in (said, came))
    used = count > 0
    mean, share = (total[used] / count[used] for total in sums)
    return mean, share, count[used]


def better(name: str, new: float, old: float | None) -> bool:
    """Whether `new` beats `old`; NaN never does."""
    if np.isnan(new):
        return False
    return old is None or (new < old if name in LOWER_IS_BETTER else new > old)


def _classification(logits: np.ndarray, target: np.ndarray, weights: np.ndarray | None) -> dict[str, float]:
    log_p = special.log_softmax(logits, axis=-1)
    found = {
        "accuracy": float(np.average(logits.argmax(-1) == target, weights=weights)),
        "loss": -float(np.average(log_p[np.arange(len(target)), target], weights=weights)),
    }
    if not np.isfinite(logits).all():
        return dict.fromkeys(found if logits.shape[1] != 2 else (*found, "auroc", "auprc"), float("nan"))
    if logits.shape[1] == 2:
        found |= _ranking(target, logits[:, 1] - logits[:, 0], weights)
    return found


def _labels(logits: np.ndarray, target: np.ndarray, weights: np.ndarray | None) -> dict[str, float]:
    """Of labels, means over all of them; accuracy is the share of samples whose labels are all right."""
    names = ("accuracy", "loss", "auroc", "auprc", "brier", "ece")
    if not np.isfinite(logits).all():
        return dict.fromkeys(names, float("nan"))
    entropy = np.logaddexp(0.0, np.where(target > 0, -logits, logits)).mean(1)
    right = ((logits > 0) == (target > 0)).all(1)
    found = {name: float(np.average(each, weights=weights)) for name, each in (("accuracy", right), ("loss", entropy))}
    each = [_label(score, truth.astype(int), weights) for score, truth in zip(logits.T, target.T, strict=True)]
    known = lambda name: [one[name] for one in each if not np.isnan(one[name])]
    return found | {name: float(np.mean(known(name))) if known(name) else float("nan") for name in each[0]}


def _label(score: np.ndarray, truth: np.ndarray, weights: np.ndarray | None) -> dict[str, float]:
    """Of one label: as of two classes."""
    two = np.stack([np.zeros_like(score), score], axis=1)
    found = _classification(two, truth, weights) | frequencies(softmax(two), truth, weights)
    return {name: found[name] for name in ("auroc", "auprc", "brier", "ece")}


def _ranking(target: np.ndarray, score: np.ndarray, weights: np.ndarray | None) -> dict[str, float]:
    from sklearn import metrics as sk  # here, because whoever only predicts needs none of it

    if len(np.unique(target)) < 2:
        return {"auroc": float("nan"), "auprc": float("nan")}
    found = {"auroc": sk.roc_auc_score, "auprc": sk.average_precision_score}
    return {name: float(metric(target, score, sample_weight=weights)) for name, metric in found.items()}
