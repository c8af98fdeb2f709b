"""How useful alarms are, as PhysioNet / CinC Challenge 2019 counts it: early ones gain, late, missed and false ones cost.

Sepsis comes at t_s, which is six hours after a record's first positive label. An alarm in an hour of a patient who falls ill
gains u(t − t_s): it rises from 0 at −12 to 1 at −6 and falls back to 0 at 3; still earlier it costs 0.05, as an alarm of a
patient who stays well does. An hour without alarm costs nothing up to −6, then more and more, 2 at 3. Later hours do not count.
The score is 1 for alarms from −12 to 3 of all who fall ill and no other, and 0 for none at all; it can be negative.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leapcde.data.series import Series
from leapcde.errors import InputError

AHEAD = 6.0  # hours by which labels come before sepsis
EARLY, OPTIMAL, LATE = -12.0, -6.0, 3.0  # hours around sepsis
FALSE, MISSED = -0.05, -2.0


class Gains(NamedTuple):
    """What an alarm and what silence is worth in each row, and in how many rows alarms are best."""

    alarm: np.ndarray
    silence: np.ndarray
    best: np.ndarray  # whether the perfect alarm sounds


def gains(series: Series) -> Gains:
    """Of hourly rows with labels 0 and 1; rows without a label count nothing.

    >>> from leapcde.data.read import as_series
    >>> one = as_series([(np.arange(4.0), np.zeros(4))], target=[[0, 0, 0, 1]], target_per="row")
    >>> gains(one).alarm.round(3).tolist()  # 9, 8, 7 and 6 hours before
    [0.5, 0.667, 0.833, 1.0]
    """
    if not series.per_row or series.target is None:
        raise InputError("utility is of alarms in each row: give labels per row (target_per='row')")
    label, starts, owner = np.asarray(series.target, float), series.offsets[:-1], series.owner
    first = np.minimum.reduceat(np.where(label == 1, series.times, np.inf), starts)[owner] + AHEAD
    since = np.where(np.isfinite(first), series.times - np.where(np.isfinite(first), first, 0.0), -np.inf)
    rising, falling = 1 + (since - OPTIMAL) / (OPTIMAL - EARLY), (LATE - since) / (LATE - OPTIMAL)
    alarm = np.where(since <= OPTIMAL, np.maximum(rising, FALSE), falling)
    silence = np.where(since <= OPTIMAL, 0.0, MISSED * (since - OPTIMAL) / (LATE - OPTIMAL))
    counts = ~np.isnan(label) & (since <= LATE)
    return Gains(np.where(counts, alarm, 0.0), np.where(counts, silence, 0.0), counts & (since >= EARLY))


def utility(series: Series, alarm: np.ndarray) -> float:
    """The normalised utility of alarms, one truth value a row of all samples end to end; NaN where nobody falls ill."""
    worth = gains(series)
    total = lambda sounds: float(np.sum(np.where(sounds, worth.alarm, worth.silence)))
    none, best = total(np.zeros(len(alarm), bool)), total(worth.best)
    return (total(np.asarray(alarm, bool)) - none) / (best - none) if best > none else float("nan")


def best_threshold(series: Series, probability: np.ndarray) -> float:
    """The probability from which on alarms are most useful, exactly: all that there are were tried."""
    worth = gains(series)
    order = np.argsort(-probability, kind="stable")
    gained, sorted_p = np.cumsum((worth.alarm - worth.silence)[order]), probability[order]
    last = np.append(sorted_p[1:] != sorted_p[:-1], True)  # rows of one probability have the same fate
    tried = np.where(last, gained, -np.inf)
    best = int(np.argmax(tried))
    return float(sorted_p[best]) if tried[best] > 0 else float("inf")


def alarm_metrics(validation: Series, said: np.ndarray, series: Series, probability: np.ndarray) -> dict[str, float]:
    """The utility of alarms from the threshold that was best on validation data, of which `said` are the probabilities.

    Probabilities are (row, class), and the second class is that of the alarm.
    """
    threshold = best_threshold(validation, said[:, 1])
    return {"utility": utility(series, probability[:, 1] >= threshold), "threshold": threshold}
