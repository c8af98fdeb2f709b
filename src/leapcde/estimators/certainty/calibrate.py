"""Probabilities that are frequencies, and sets of classes that hold the truth as often as they say.

Both are learned on data that did not train the weights. Scores are divided by a temperature, because trained models are
too sure (or too unsure), and shifted class by class, because class weights make rare classes look frequent: a model
that was trained with weights w says w·p / Σ w·p where p is the truth, so −log w is where the shift starts from
(decision 17).

What has learned its calibration from samples looks better on them than on others, the more so the fewer they are. Who is
to be compared is therefore asked about each sample with a calibration of the others (decision 27).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from leapcde.data.series import Series
from leapcde.data.split import folds, strata
from leapcde.ensemble.fitted import FittedEnsemble
from leapcde.errors import InputError
from leapcde.training.calibration import Calibration
from leapcde.training.events.metrics import losses
from leapcde.training.fitted import Fitted

FOLDS = 5  # parts of the held-out samples, each judged with a calibration of the others
SPREAD = 0.5  # how far log temperature and shifts may easily lie from where they start; matters where data is scarce


class Evidence(NamedTuple):
    """What is said of samples that did not train it, and the truth, as `Preprocessor.encode_target` has it."""

    scores: np.ndarray
    truth: np.ndarray
    weights: np.ndarray | None = None  # how much each sample counts

    def and_more(self, other: Evidence | None) -> Evidence:
        """Both, this one first."""
        if other is None:
            return self
        weights = [np.ones(len(one.truth)) if one.weights is None else one.weights for one in (self, other)]
        return Evidence(*(np.concatenate(parts) for parts in ([self.scores, other.scores], [self.truth, other.truth], weights)))

    def take(self, kept: np.ndarray) -> Evidence:
        """Some of the samples."""
        return Evidence(self.scores[kept], self.truth[kept], None if self.weights is None else self.weights[kept])


def known_shift(class_weight: Any, classes: int) -> np.ndarray:
    """The shift of each class's score that undoes the weights of training, of which there may be none.

    >>> known_shift((1.0, 4.0), 2).round(3).tolist()
    [0.693, -0.693]
    """
    shift = np.zeros(classes) if class_weight is None else -np.log(np.asarray(class_weight, float))
    return shift - shift.mean()


def learn_calibration(
    scores: np.ndarray, labels: np.ndarray, shift: np.ndarray, sample_weight: np.ndarray | None = None
) -> Calibration:
    """The temperature and shifts that are most probable after held-out data, before which they are about 1 and `shift`.

    Parameters
    ----------
    scores : (sample, class) array
        What the model says about data that did not train it.
    labels : (sample,) array
        The true classes, as numbers from 0.
    shift : (class,) array
        See `known_shift`.
    sample_weight : (sample,) array, optional
        How much each sample counts.

    Returns
    -------
    Calibration

    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(4000, 2))
    >>> labels = (rng.random(4000) < special.softmax(scores, 1)[:, 1]).astype(int)
    >>> round(learn_calibration(3.0 * scores, labels, np.zeros(2)).temperature)
    3
    """
    from scipy import optimize

    weight = np.ones(len(labels)) if sample_weight is None else sample_weight * len(labels) / sample_weight.sum()
    scores, truth = scores.astype(np.float64), np.eye(scores.shape[1])[labels]
    if not np.isfinite(scores).all():
        return Calibration(1.0, tuple(shift.tolist()))

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        shrunk, bias = scores * np.exp(-theta[0]), theta[1:]
        log_p = special.log_softmax(shrunk + bias, axis=1)
        off = weight[:, None] * (np.exp(log_p) - truth)
        away = (theta - start) / SPREAD
        value = -np.sum(weight * log_p[np.arange(len(labels)), labels]) + away @ away / 2
        return float(value), np.append(-np.sum(off * shrunk), off.sum(0)) + away / SPREAD

    start = np.append(0.0, shift)
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B").x
    return Calibration(float(np.exp(found[0])), tuple((found[1:] - found[1:].mean()).tolist()))


def learn_from(evidence: Evidence, shift: np.ndarray) -> Calibration:
    """See `learn_calibration`; of labels, each by itself, as the two classes that it is."""
    if evidence.truth.ndim == 1:
        return learn_calibration(evidence.scores, evidence.truth, shift, evidence.weights)
    found = []
    for score, truth, start in zip(evidence.scores.T, evidence.truth.T, shift, strict=True):
        two = np.stack([np.zeros_like(score), score], axis=1)
        found.append(learn_calibration(two, truth.astype(int), np.array([-start / 2, start / 2]), evidence.weights))
    return Calibration(tuple(one.temperature for one in found), tuple(one.bias[1] - one.bias[0] for one in found))


def judged_by_others(held: Series, evidence: Evidence, shift: np.ndarray) -> np.ndarray:
    """What would be said of each held-out sample after a calibration of all the others; they come first in the evidence."""
    truth = evidence.truth[: len(held)]
    part = folds(held, strata(truth), FOLDS)
    found = np.empty((len(held), evidence.scores.shape[1]))
    rest = np.full(len(evidence.truth) - len(held), -1)
    for number in np.unique(part):
        learned = learn_from(evidence.take(np.concatenate([part, rest]) != number), shift)
        found[part == number] = learned(evidence.scores[: len(held)][part == number])
    return found


def calibrated(
    fitted: Fitted, held: Series | None, shift: np.ndarray | None, more: Evidence | None = None
) -> tuple[Fitted, np.ndarray]:
    """What has learned, with a calibration from held-out data, and what it says of that data with calibrations of others.

    Members of an ensemble come first, each with `shift`, and then what they say together. Without held-out data `shift`
    is all. None stands for members of a race, which are calibrated already, and so is one that is alone. `more` is other
    evidence of the same kind.
    """
    if isinstance(fitted, FittedEnsemble):
        if shift is not None:
            fitted = replace(fitted, members=tuple(calibrated(one, held, shift)[0] for one in fitted.members))
        shift = np.zeros(fitted.preprocessor.spec.output)
    if shift is None:
        return fitted, np.zeros((0, 0)) if held is None else fitted.outputs(held)
    fitted = fitted.with_calibration(None)
    if held is None:
        return fitted.with_calibration(Calibration(1.0, tuple(shift.tolist()))), np.zeros((0, len(shift)))
    scores = fitted.outputs(held)
    evidence = Evidence(*fitted.preprocessor.known(scores, held)).and_more(more)
    learned = learn_from(evidence, shift)
    if held.per_row:  # judged as calibrated: rows of a sample belong together, and there are many
        return fitted.with_calibration(learned), learned(scores)
    return fitted.with_calibration(learned), judged_by_others(held, evidence, shift)


def calibrated_hazards(fitted: Fitted, held: Series | None, *, members: bool = False) -> Fitted:
    """What has learned hazards, with a temperature and a shift of all log hazard ratios that make what happened in held-out
    data most probable; `members`: of a race, which are calibrated already, so that one alone is left as it is."""
    if held is None or (members and not isinstance(fitted, FittedEnsemble)):
        return fitted
    fitted = fitted.with_calibration(None)
    target = fitted.preprocessor.encode_target(np.asarray(held.target)).astype(np.float64)
    return fitted.with_calibration(learn_hazard_calibration(fitted.outputs(held), target, held.weights))


def learn_hazard_calibration(scores: np.ndarray, target: np.ndarray, sample_weight: np.ndarray | None = None) -> Calibration:
    """As `learn_calibration`, of log hazard ratios (sample, bin); `target` as `Bins.encode` makes it."""
    from scipy import optimize

    weight = np.ones(len(scores)) if sample_weight is None else sample_weight * len(scores) / sample_weight.sum()

    def loss(theta: np.ndarray) -> float:
        wrong = losses(scores * np.exp(-theta[0]) + theta[1], target)
        return float(weight @ wrong + theta @ theta / SPREAD**2 / 2)

    if not np.isfinite(scores).all():
        return Calibration()
    found = optimize.minimize(loss, np.zeros(2), method="L-BFGS-B").x
    return Calibration(float(np.exp(found[0])), (float(found[1]),))


@dataclass(frozen=True, eq=False)
class ClassSets:
    """Sets of classes by split conformal prediction, class by class: of each class's samples, the share asked for have
    a set that holds it, on average and if new samples come from where the held-out ones came from.

    A class with too few held-out samples for a bound of its own has that of all samples together.

    >>> sets = ClassSets(np.linspace(0.1, 0.9, 9), np.zeros(9, int), 1)
    >>> sets.bounds(0.8).round(3).tolist()
    [0.2]
    """

    probability: np.ndarray  # (sample,): of the true class of each held-out sample
    labels: np.ndarray  # (sample,): its number
    classes: int

    @classmethod
    def learn(cls, probability: np.ndarray, labels: np.ndarray) -> ClassSets:
        """From rows of probabilities of held-out samples, and their true classes."""
        return cls(probability[np.arange(len(labels)), labels], np.asarray(labels), probability.shape[1])

    def bounds(self, coverage: float) -> np.ndarray:
        """The lowest probability with which each class is in a set."""
        if not isinstance(coverage, (int, float, np.number)) or not 0 < coverage < 1:
            raise InputError(f"coverage {coverage}: give a share between 0 and 1, such as 0.9")
        everybody = _bound(self.probability, coverage)
        own = [_bound(self.probability[self.labels == c], coverage) for c in range(self.classes)]
        return np.array([(0.0 if everybody is None else everybody) if one is None else one for one in own])

    def of(self, probability: np.ndarray, coverage: float) -> np.ndarray:
        """(sample, class): whether the class is in the sample's set. The most probable class always is."""
        inside = probability >= self.bounds(coverage)
        inside[np.arange(len(probability)), probability.argmax(1)] = True
        return inside


def _bound(probability: np.ndarray, coverage: float) -> float | None:
    """The ⌈(n + 1) coverage⌉-th largest of n; None if there are too few for so high a coverage."""
    rank = int(np.ceil((len(probability) + 1) * coverage - 1e-9))
    return float(np.sort(probability)[::-1][rank - 1]) if rank <= len(probability) else None
