"""Scores -> scores that say how often; learned after training, and kept with what was trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from leapcde.errors import InputError


@dataclass(frozen=True)
class Calibration:
    """Class scores of a model -> scores whose softmax says how often each class is the true one; of labels, whose sigmoid.

    >>> Calibration(2.0, (0.0, 1.0))(np.array([[0.0, 4.0]])).tolist()
    [[0.0, 3.0]]
    """

    temperature: float | tuple[float, ...] = 1.0  # of labels, one for each
    bias: tuple[float, ...] = (0.0,)  # of each class or label, or one for all

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return scores.astype(np.float64) / np.array(self.temperature) + np.array(self.bias)


def header_calibration(calibration: Calibration | None) -> dict[str, Any]:
    """What a file says about a calibration; nothing if there is none."""
    return {} if calibration is None else {"calibration": asdict(calibration)}


def read_calibration(about: dict[str, Any], classes: int) -> Calibration | None:
    """The other way round; files from before there was one hold none. One that no data could have taught is refused."""
    kept = about.get("calibration")
    if kept is None:
        return None
    temperature = np.atleast_1d(np.asarray(kept["temperature"], float))  # of labels, one of each
    bias = tuple(map(float, kept["bias"]))
    sound = ((temperature > 0) & (temperature < np.inf)).all() and np.isfinite(bias).all()
    if not sound or len(bias) not in (1, classes) or len(temperature) not in (1, classes):
        raise InputError(f"a calibration with the temperature {kept['temperature']} and {len(bias)} biases")
    return Calibration(tuple(temperature.tolist()) if isinstance(kept["temperature"], list) else float(temperature[0]), bias)
