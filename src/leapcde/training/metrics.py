"""Numbers to judge predictions by, over all samples of a split and without any penalty in them."""

from __future__ import annotations

import numpy as np
from scipy import special
from sklearn import metrics as sk

MAIN = {"classification": "accuracy", "binary": "auroc", "regression": "mse", "forecasting": "mse"}
LOWER_IS_BETTER = ("mse", "mae", "loss", "val_loss")


def main_metric(task: str, classes: int) -> str:
    """The metric by which models are chosen; ranking for two classes, because they are rarely balanced.

    >>> main_metric("classification", 2), main_metric("forecasting", 0)
    ('auroc', 'mse')
    """
    return MAIN["binary" if task == "classification" and classes == 2 else task]


def measure(task: str, prediction: np.ndarray, target: np.ndarray) -> dict[str, float]:
    """All metrics of a task. `prediction` holds class scores (logits) or values."""
    if task == "classification":
        return _classification(prediction.astype(np.float64), target)
    there = ~np.isnan(target)
    error = prediction.astype(np.float64)[there] - target[there]
    return {"mse": float(np.mean(error**2)), "mae": float(np.mean(np.abs(error)))}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Rows of probabilities from rows of scores.

    >>> softmax(np.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    """
    return special.softmax(logits, axis=-1)


def better(name: str, new: float, old: float | None) -> bool:
    """Whether `new` beats `old`; NaN never does."""
    if np.isnan(new):
        return False
    return old is None or (new < old if name in LOWER_IS_BETTER else new > old)


def _classification(logits: np.ndarray, target: np.ndarray) -> dict[str, float]:
    log_p = special.log_softmax(logits, axis=-1)
    found = {
        "accuracy": float(np.mean(logits.argmax(-1) == target)),
        "loss": float(-np.mean(log_p[np.arange(len(target)), target])),
    }
    if not np.isfinite(logits).all():
        return dict.fromkeys(found if logits.shape[1] != 2 else (*found, "auroc", "auprc"), float("nan"))
    if logits.shape[1] == 2:
        both = len(np.unique(target)) == 2
        score = logits[:, 1] - logits[:, 0]
        found["auroc"] = float(sk.roc_auc_score(target, score)) if both else float("nan")
        found["auprc"] = float(sk.average_precision_score(target, score)) if both else float("nan")
    return found
