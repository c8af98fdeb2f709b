"""Prediction intervals by split conformal prediction: how far off were predictions on data that training never saw?

If new samples come from where the held-out ones came from, an interval of 90 % covers at least 90 % of the truths on
average, whatever the model. Windows of one sequence resemble each other, which makes the figure rougher, not biased.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leapcde.errors import InputError


@dataclass(frozen=True, eq=False)
class Conformal:
    """Absolute errors on held-out data, sorted along the samples; NaN (truth unknown) last.

    >>> Conformal.learn(np.arange(9.0), np.zeros(9)).margin(0.8)
    array(7.)
    """

    errors: np.ndarray  # (samples, ...)

    @classmethod
    def learn(cls, truth: np.ndarray, predicted: np.ndarray) -> Conformal:
        return cls(np.sort(np.abs(np.asarray(truth, float) - predicted), axis=0))

    def margin(self, coverage: float) -> np.ndarray:
        """Half the width of the interval, for every output: the ⌈(n + 1) coverage⌉-th smallest error of n."""
        if not 0 < coverage < 1:
            raise InputError(f"coverage {coverage}: give a share between 0 and 1, such as 0.9")
        count = (~np.isnan(self.errors)).sum(0)
        rank = np.ceil((count + 1) * coverage - 1e-9).astype(int)
        found = np.take_along_axis(self.errors, np.clip(rank - 1, 0, len(self.errors) - 1)[None], 0)[0]
        return np.where(rank <= count, found, np.inf)

    def around(self, predicted: np.ndarray, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends; infinite where too little was held out for so high a coverage."""
        margin = self.margin(coverage)
        return predicted - margin, predicted + margin
