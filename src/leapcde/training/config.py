"""Everything that decides a training besides the model and the data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from leapcde.data.columns import Columns
from leapcde.errors import InputError, Problems, choose

SEEDS = 2**32


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a run besides the model and the data."""

    epochs: int = 60
    batch_size: int = 32
    learning_rate: float = 1e-3
    schedule: str = "cosine"  # or "constant", "plateau"
    optimizer: str = "adam"  # or "adamw"
    weight_decay: float = 0.0  # adamw only
    clip: float | None = 1.0  # largest norm of the gradient
    weight_penalty: float = 0.0  # times Σ‖θ‖ of the model's regularised part; never in a reported metric
    noise: float = 0.0  # of fresh Gaussian errors in the observations of every step, in deviations of their channel
    patience: int | None = None  # stop after so many epochs without a better loss
    stop_on: str = "train"  # whose loss: "train" (the paper's appendix) or "validation"
    class_weight: str | tuple[float, ...] | None = None  # or "balanced", or a weight for each class in its order
    hide: float = 0.0  # up to so large a share of each sample's rows is hidden in a step; a learned path is asked for them
    spans: float = 0.0  # and two spans of up to so large a share of its time
    warp: float = 0.0  # how unevenly time may run in a step
    channel_drop: float = 0.0  # share of channels that a sample does not show in a step
    in_window: float = 0.0  # weight of the forecast from a random earlier row of each window
    label_smoothing: float = 0.0  # how much of the truth all classes share
    ema: float = 0.0  # the weights that are validated and kept are averages over about 1 / (1 − ema) steps
    warmup: float = 0.0  # epochs in which the learning rate rises from 0
    accumulate: int = 1  # equal parts of a step's samples whose gradients are averaged: less memory, the same step
    hide_values: float = 0.0  # and up to so large a share of its single observations
    seed: int = 0

    def __post_init__(self):
        self._check_kinds()
        choose("schedule", self.schedule, ("constant", "cosine", "plateau"))
        choose("optimizer", self.optimizer, ("adam", "adamw"))
        choose("stop_on", self.stop_on, ("train", "validation"))
        if isinstance(self.class_weight, (tuple, list)):
            weights = self.class_weight
            if not all(isinstance(weight, Real) and 0 < weight < 10**300 for weight in weights):
                raise InputError(f"class weights {str(weights)[:40]}: each must be a positive number")
            object.__setattr__(self, "class_weight", tuple(map(float, weights)))  # JSON knows lists only
        else:
            choose("class_weight", "none" if self.class_weight is None else self.class_weight, ("none", "balanced"))
        if self.epochs < 1 or self.batch_size < 1 or not self.learning_rate > 0:
            raise InputError(
                f"epochs {self.epochs}, batch_size {self.batch_size}, learning_rate {self.learning_rate}: each must be positive"
            )
        if self.patience is not None and self.patience < 1:
            raise InputError(f"patience {self.patience}: give at least 1 epoch, or leave it out")
        if self.weight_penalty < 0 or self.weight_decay < 0 or (self.clip is not None and not self.clip > 0):
            raise InputError("weight_penalty and weight_decay must not be negative, clip must be positive or None")
        if not 0 <= self.noise < np.inf:
            raise InputError(f"noise {self.noise}: give a number that is not negative")
        shares = ("hide", "spans", "channel_drop", "label_smoothing", "ema", "hide_values")
        if not all(0 <= getattr(self, name) < 1 for name in shares):
            raise InputError(f"{', '.join(shares)}: each must be a share from 0 up to, but not including, 1")
        if not all(0 <= number < np.inf for number in (self.warp, self.in_window, self.warmup)) or self.accumulate < 1:
            raise InputError("warp, in_window and warmup must not be negative, accumulate must be at least 1")

    def _check_kinds(self) -> None:
        """Numbers must be numbers, and whole where they count something, before they can be compared."""
        problems = Problems()
        for each in fields(self):
            value: Any = getattr(self, each.name)
            number: Any = value
            optional = each.name in ("patience", "clip")
            if each.name in ("schedule", "optimizer", "stop_on", "class_weight") or (optional and value is None):
                continue
            whole = each.name in ("epochs", "batch_size", "patience", "accumulate", "seed")
            if isinstance(value, bool) or not isinstance(value, Integral if whole else Real) or abs(value) > 10**300:
                problems.add(f"{each.name} {str(value)[:20]}: give a {'whole ' if whole else ''}number")
            elif each.name == "seed" and not 0 <= number < SEEDS:
                problems.add(f"seed {value}: give a whole number from 0 to {SEEDS - 1}; larger ones would repeat smaller ones")
        problems.raise_if_any("the training cannot be set so")

    def to_json(self) -> dict[str, Any]:
        """Without later fields that are neutral: runs from before they could be had stay what they were, by name too."""
        return {key: value for key, value in asdict(self).items() if key not in LATER or value != LATER[key]}


LATER = {
    "noise": 0.0,
    "hide": 0.0,
    "spans": 0.0,
    "warp": 0.0,
    "channel_drop": 0.0,
    "in_window": 0.0,
}  # and their neutral values
LATER |= {"label_smoothing": 0.0, "ema": 0.0, "warmup": 0.0, "accumulate": 1, "hide_values": 0.0}


def plain(value: Any) -> Any:
    """Parameters as JSON can hold them; a generator of random numbers, which it cannot, is forgotten."""
    if isinstance(value, TrainConfig):
        return {"exactly": value.to_json()}
    if isinstance(value, Columns):
        return value.to_json()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (str, int, float, bool)) else None
