"""Time after a sample's end in bins: what is learned of durations, and curves of survival back from what a model says.

A model says by how much the hazard of each bin differs from that of the training data, as a logarithm: 0 is an average
sample. Within a bin the hazard is constant, so that who leaves in its midst counts for as long as they were there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leapcde.errors import InputError

EACH, MOST = 10, 20  # events in a bin at least, and bins at most
FAR = 10.0  # of a log hazard ratio, beyond which it says no more


@dataclass(frozen=True)
class Bins:
    """Bins of time since a sample's end, each with the hazard of the training data there.

    >>> Bins((1.0, 2.0), (0.0, 0.0)).survival(np.zeros((1, 2)), np.array([0.0, 1.0, 2.0])).round(3).tolist()
    [[1.0, 0.368, 0.135]]
    """

    edges: tuple[float, ...]  # where each bin ends; the first begins at 0, the last goes on
    log_hazard: tuple[float, ...]  # events in a unit of time

    @classmethod
    def learn(cls, target: np.ndarray, weights: np.ndarray | None = None) -> Bins:
        """From rows of (event, time): about equally many events in each bin."""
        event, time = _columns(target)
        if not event.any():
            raise InputError("no training sample has an event: nothing can be learned of when it comes")
        if not (time > 0).any():
            raise InputError("every training sample has a duration of 0: nothing can be learned of when the event comes")
        count = int(np.clip(event.sum() // EACH, 1, MOST))
        found = np.unique(np.quantile(time[event], np.arange(1, count + 1) / count, method="inverted_cdf"))
        found = found[found > 0] if (found > 0).any() else np.array([time.max()])
        each = np.ones(len(time)) if weights is None else weights / weights.mean()
        exposure, happened = each @ _exposure(time, found), each @ _happened(event, time, found)
        # Nothing is impossible: where weights leave a bin empty, half an event is thought to be in it.
        hazard = np.maximum(happened, 0.5) / np.where(exposure > 0, exposure, 1.0)
        return cls(tuple(map(float, found)), tuple(map(float, np.log(hazard))))

    def __len__(self) -> int:
        return len(self.edges)

    def encode(self, target: np.ndarray) -> np.ndarray:
        """Rows of (event, time) -> (sample, 2, bin): events that an average sample would have had while this one was watched,
        and the one that it had."""
        event, time = _columns(target)
        expected = _exposure(time, np.array(self.edges)) * np.exp(self.log_hazard)
        return np.stack([expected, _happened(event, time, np.array(self.edges))], 1).astype(np.float32)

    def rates(self, log_ratio: np.ndarray) -> np.ndarray:
        """The hazard of each sample in each bin."""
        return np.exp(np.clip(log_ratio.astype(np.float64), -FAR, FAR) + np.array(self.log_hazard))

    def survival(self, log_ratio: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(sample, time): how probable it is that nothing has happened by then; beyond the last bin its hazard goes on."""
        return np.exp(-self.rates(log_ratio) @ _exposure(np.asarray(times, float), np.array(self.edges)).T)

    def quantile(self, log_ratio: np.ndarray, share: float) -> np.ndarray:
        """(sample,): when this share has had the event; infinity if later than the last bin's end.

        >>> Bins((1.0, 2.0), (0.0, 0.0)).quantile(np.zeros((1, 2)), 0.5).round(3).tolist()
        [0.693]
        """
        starts, rates = np.array([0.0, *self.edges[:-1]]), self.rates(log_ratio)
        reached = np.cumsum(rates * (np.array(self.edges) - starts), axis=1)
        needed = -np.log1p(-share)
        bin = np.minimum((reached < needed).sum(1), len(self) - 1)
        row = np.arange(len(rates))
        before = np.where(bin > 0, reached[row, bin - 1], 0.0)
        return np.where(reached[:, -1] < needed, np.inf, starts[bin] + (needed - before) / rates[row, bin])

    def to_json(self) -> dict[str, Any]:
        return {"edges": list(self.edges), "log_hazard": list(self.log_hazard)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Bins:
        """What `to_json` wrote; what no data could have is refused."""
        found = cls(tuple(map(float, data["edges"])), tuple(map(float, data["log_hazard"])))
        rising = bool(np.all(np.diff([0.0, *found.edges]) > 0)) and bool(np.isfinite([*found.edges, *found.log_hazard]).all())
        if not rising or len(found.edges) != len(found.log_hazard) or not found.edges:
            raise InputError("bins of time must rise from 0, each with a hazard")
        return found


def risk(log_ratio: np.ndarray) -> np.ndarray:
    """One number a sample, higher where the event comes sooner: the log of the mean hazard ratio over the bins.

    >>> risk(np.array([[0.0, 0.0], [1.0, 1.0]])).tolist()
    [0.0, 1.0]
    """
    ratio = np.exp(np.clip(log_ratio.astype(np.float64), -FAR, FAR))
    return np.log(ratio.mean(-1))


def _columns(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(target[:, 0] > 0), np.asarray(target[:, 1], float)


def _exposure(time: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """(time, bin): how long each bin was lived through up to a time."""
    starts = np.array([0.0, *edges[:-1]])
    widths = np.array([*(edges - starts)[:-1], np.inf])
    return np.clip(time[:, None] - starts, 0.0, widths)


def _happened(event: np.ndarray, time: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """(sample, bin): 1 in the bin of the event."""
    found = np.zeros((len(time), len(edges)))
    found[np.arange(len(time)), np.minimum(np.searchsorted(edges, time), len(edges) - 1)] = event
    return found
