"""A cell: one training with one seed, and what decides it. Its key is a hash of its settings; its identity of settings,
data and protocol.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

from leapcde.models.registry import MODELS
from leapcde.paths.batch import Recipe
from leapcde.training.config import TrainConfig

PROTOCOL = 1  # of what a cell does with its settings and data; raise it when numbers change for another reason than these
# and for all models; one that changes alone has its own `revision`.


@dataclass(frozen=True)
class CellConfig:
    """A model on a data set: what is trained, on what, and how. `data_dir` is where the data lies on this machine.

    >>> CellConfig.from_json(CellConfig("hopper", "gru").to_json()) == CellConfig("hopper", "gru")
    True
    """

    data: str
    model: str = "leap"
    drop: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)  # of the model
    recipe: Recipe = field(default_factory=Recipe)
    train: TrainConfig = field(default_factory=TrainConfig)
    dataset_options: dict[str, Any] = field(default_factory=dict)  # where not the data set's defaults
    data_dir: str | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Without the data's place on this machine, which is nobody's business."""
        plain = {key: getattr(self, key) for key in ("data", "model", "drop", "options", "dataset_options")}
        made = {**plain, "recipe": self.recipe.to_json(), "train": self.train.to_json()}
        return json.loads(json.dumps(made))  # lists for tuples, as it is read again

    @classmethod
    def from_json(cls, data: dict[str, Any], data_dir: str | None = None) -> CellConfig:
        """What `to_json` wrote, with data that lies in `data_dir`; what is missing has its default."""
        parts = {"recipe": Recipe(**data.get("recipe", {})), "train": TrainConfig(**data.get("train", {}))}
        return cls(**{**data, **parts, "data_dir": data_dir})


@dataclass(frozen=True)
class Cell:
    """One training with one seed. `samples` and `length` make the data small: so many of them, and the last so many rows
    of each, at even times, so that cells of all drop rates share what is compiled."""

    config: CellConfig
    budget: str = "standard"
    samples: int | None = None
    length: int | None = None
    paths: bool = False  # keep X and Y of some test samples, where the model learns a path

    @property
    def key(self) -> str:
        """A hash of all settings, wherever the data lies.

        >>> a, b = Cell(CellConfig("hopper")), Cell(CellConfig("hopper", data_dir="/data"))
        >>> a.key == b.key, a.key == Cell(CellConfig("hopper"), budget="full").key
        (True, False)
        """
        revision = MODELS[self.config.model].revision if self.config.model in MODELS else 1
        return _hash({**self.to_json(), "protocol": PROTOCOL, **({"revision": revision} if revision > 1 else {})})

    def identity(self, data_hash: str) -> str:
        """A hash of settings, data and protocol: the same cell is never run twice."""
        return _hash({"key": self.key, "data": data_hash})

    def name(self, identity: str) -> str:
        """The name of its record.

        >>> Cell(CellConfig("hopper", "gru-d", drop=0.3)).name("0123456789abcdef")
        'hopper-30-gru-d-0-0123456789ab'
        """
        data = self.config.data.replace(":", "-")
        return f"{data}-{round(100 * self.config.drop)}-{self.config.model}-{self.config.train.seed}-{identity[:12]}"

    def at(self, data_dir: str | None) -> Cell:
        """The same cell with data that lies somewhere else."""
        return replace(self, config=replace(self.config, data_dir=data_dir))

    def to_json(self) -> dict[str, Any]:
        own = {key: getattr(self, key) for key in ("budget", "samples", "length", "paths")}
        return {"config": self.config.to_json(), **own}

    @classmethod
    def from_json(cls, data: dict[str, Any], data_dir: str | None = None) -> Cell:
        """From what `to_json` wrote, or from a record, which holds it; with data that lies in `data_dir`."""
        own = {key: data[key] for key in ("budget", "samples", "length", "paths")}
        return cls(CellConfig.from_json(data["config"], data_dir), **own)


def _hash(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
