"""How good statements about times to an event are, where some were cut short: ranking, probabilities, likelihood."""

from __future__ import annotations

import numpy as np

from leapcde.training.events.bins import FAR, Bins, risk

BLOCK = 4_000_000  # pairs of samples that are compared at once
SAME = 1e-8  # risks that differ by no more are the same
POINTS = 50  # times at which probabilities are judged


def losses(log_ratio: np.ndarray, target: np.ndarray) -> np.ndarray:
    """How wrong each sample's hazards are, −log-likelihood up to a constant; `target` as `Bins.encode` makes it."""
    ratio = np.clip(log_ratio.astype(np.float64), -FAR, FAR)
    return np.sum(target[:, 0] * np.exp(ratio) - target[:, 1] * ratio, axis=-1)


def measure_hazards(log_ratio: np.ndarray, target: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """Concordance and loss of what a model says; `target` as `Bins.encode` makes it.

    Expected events of an average sample rise with the time watched, so they order samples as times do.
    """
    if not np.isfinite(log_ratio).all():
        return {"concordance": float("nan"), "loss": float("nan")}
    event, time = target[:, 1].sum(1) > 0, target[:, 0].astype(np.float64).sum(1)
    found = concordance(event, time, risk(log_ratio), weights)
    return {"concordance": found, "loss": float(np.average(losses(log_ratio, target), weights=weights))}


def concordance(event: np.ndarray, time: np.ndarray, risk: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Of all pairs of which it is known who came first, the share in which that one had the higher risk (Harrell's C).

    Equal risks count half. Pairs with two events at the same time are left out; who was watched up to the time of
    another's event and had none comes later. With weights a pair counts their product. NaN where there is no pair.

    >>> concordance(np.array([1, 1, 0]), np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 2.0]))
    0.8333333333333334
    """
    event, weights = np.asarray(event, bool), np.ones(len(time)) if weights is None else weights
    first, right, all_of_them = np.flatnonzero(event), 0.0, 0.0
    step = max(1, BLOCK // max(len(time), 1))
    for start in range(0, len(first), step):
        i = first[start : start + step, None]
        later = (time[i] < time) | ((time[i] == time) & ~event)
        pairs = np.where(later, weights[i] * weights, 0.0)
        lead = risk[i] - risk
        right += float(np.sum(pairs * np.where(np.abs(lead) <= SAME, 0.5, lead > 0)))
        all_of_them += float(pairs.sum())
    return right / all_of_them if all_of_them else float("nan")


def kaplan_meier(event: np.ndarray, time: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Different times, rising, and the share without an event after each of them.

    >>> kaplan_meier(np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0]))[1].round(3).tolist()
    [0.667, 0.667, 0.0]
    """
    weights = np.ones(len(time)) if weights is None else weights
    times, place = np.unique(time, return_inverse=True)
    at_risk = np.cumsum(np.bincount(place, weights=weights)[::-1])[::-1]
    had = np.bincount(place, weights=weights * np.asarray(event, bool))
    return times, np.cumprod(1 - had / np.where(at_risk > 0, at_risk, 1.0))


def _staying(event: np.ndarray, time: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of leaving without an event; who had one is gone before others leave at the same time."""
    times, place = np.unique(time, return_inverse=True)
    had, left = (np.bincount(place, weights=weights * whom, minlength=len(times)) for whom in (event, ~event))
    at_risk = np.cumsum((had + left)[::-1])[::-1] - had
    return times, np.cumprod(1 - left / np.where(at_risk > 0, at_risk, 1.0))


def at_times(times: np.ndarray, share: np.ndarray, asked: np.ndarray, *, before: bool = False) -> np.ndarray:
    """A curve of steps at the times asked, or just before them."""
    place = np.searchsorted(times, asked, side="left" if before else "right")
    return np.concatenate([[1.0], share])[place]


def brier(
    event: np.ndarray, time: np.ndarray, survival: np.ndarray, times: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """The Brier score at each time: mean squared distance of S(t), (sample, time), and who is still without an event.

    Who left before counts through others that stayed as long (inverse probability of censoring weights, by the
    Kaplan–Meier curve of leaving in the same data), as by Graf and others.
    """
    event = np.asarray(event, bool)
    weights = np.ones(len(time)) if weights is None else weights
    curve = _staying(event, time, weights)
    own, then = at_times(*curve, time)[:, None], at_times(*curve, times)[None]
    had, left = (time[:, None] <= times) & event[:, None], time[:, None] > times
    share = np.where(had, 1 / np.where(own > 0, own, 1.0), 0.0) * (own > 0) + np.where(
        left, 1 / np.where(then > 0, then, 1.0), 0.0
    )
    return np.average(share * (survival - left) ** 2, axis=0, weights=weights)


def integrated_brier(bins: Bins, log_ratio: np.ndarray, target: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The mean Brier score over time, from the first decile of the events in `target`, rows of (event, time), to the ninth."""
    event, time = target[:, 0] > 0, np.asarray(target[:, 1], float)
    if not event.any():
        return float("nan")
    low, high = np.quantile(time[event], [0.1, 0.9])
    times = np.linspace(low, high, POINTS)
    found = brier(event, time, bins.survival(log_ratio, times), times, weights)
    return float(found.mean()) if high <= low else float(np.trapezoid(found, times) / (high - low))


def calibration_curve(
    event: np.ndarray, time: np.ndarray, probability: np.ndarray, when: float, groups: int = 10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean probability, frequency, samples) of no event up to `when`, in groups of equally many samples.

    The frequency of a group is what its Kaplan–Meier curve says at that time, so that those who left early count.

    >>> said = np.array([0.9, 0.9, 0.1, 0.1])
    >>> calibration_curve(np.array([0, 0, 1, 1]), np.array([5.0, 5.0, 1.0, 1.0]), said, 2.0, groups=2)
    (array([0.1, 0.9]), array([0., 1.]), array([2, 2]))
    """
    parts = [part for part in np.array_split(np.argsort(probability, kind="stable"), groups) if len(part)]
    share = lambda part: at_times(*kaplan_meier(event[part], time[part]), np.array([when]))[0]
    said, came = ([float(of(part)) for part in parts] for of in (lambda part: probability[part].mean(), share))
    return np.array(said), np.array(came), np.array([len(part) for part in parts])
