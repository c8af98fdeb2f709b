"""What happened in every epoch, and which one was best."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from leapcde.training.metrics import better


@dataclass
class History:
    """One row an epoch: epoch, train_loss, train_total, val_loss (classes weighed as in training), metrics of the validation
    data, rate, seconds on the wall and of the processor."""

    rows: list[dict[str, float]] = field(default_factory=list)

    def column(self, name: str) -> list[float]:
        return [row[name] for row in self.rows]

    def best(self, metric: str) -> dict[str, float]:
        """The epoch whose weights are kept: best by the metric, of equals the one with the lowest validation loss."""
        best = self.rows[0]
        for row in self.rows[1:]:
            equal = row[metric] == best[metric] and row["val_loss"] < best["val_loss"]
            score = None if np.isnan(best[metric]) else best[metric]
            best = row if equal or better(metric, row[metric], score) else best
        return best

    def stale(self, name: str) -> int:
        """How many epochs have passed since the lowest value of a column.

        >>> History([{"loss": 0.5}, {"loss": np.nan}, {"loss": 0.4}]).stale("loss")
        0
        """
        values = np.nan_to_num(self.column(name), nan=np.inf)  # an epoch without a loss is not the lowest
        return len(values) - 1 - int(np.argmin(values)) if len(values) else 0
