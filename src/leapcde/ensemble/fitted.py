"""Several that have learned, as one: models, baselines and ensembles of them, each with its weight. One object, one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit

from leapcde.baselines.fitted import Baseline
from leapcde.data.series import Series
from leapcde.errors import CheckpointError, InputError
from leapcde.files import DAMAGE
from leapcde.training.calibration import Calibration, header_calibration, read_calibration
from leapcde.training.fitted import Fitted, FittedModel
from leapcde.training.metrics import sigmoid, softmax
from leapcde.training.preprocess import Preprocessor

SMALLEST = 1e-12  # a probability below which nothing is said: its logarithm must be a number


@dataclass(frozen=True, eq=False)
class FittedEnsemble(Fitted):
    """Members whose answers are averaged: of classes their probabilities, else what they say, in standardised units."""

    preprocessor: Preprocessor
    name: str
    members: tuple[Fitted, ...]
    weights: tuple[float, ...]  # of the members; they add up to 1
    options: dict[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None

    @classmethod
    def of(cls, members: Sequence[Fitted], weights: Sequence[float] | None = None) -> FittedEnsemble:
        """Members that learned from the same data, equal in weight if none are given."""
        given = np.ones(len(members)) if weights is None else np.asarray(weights, float)
        name = members[0].name if len({one.name for one in members}) == 1 else "auto"
        shares = tuple((given / given.sum()).tolist())
        return cls(members[0].preprocessor, name, tuple(members), shares, members[0].options if name != "auto" else {})

    def outputs(self, series: Series) -> np.ndarray:
        return self.mixed([one.outputs(series) for one in self.members])

    def new_outputs(self, series: Series) -> np.ndarray:
        return self.mixed([one.new_outputs(series) for one in self.members])

    def mixed(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """One answer from those of the members."""
        return self.calibrated(mix(self.preprocessor.task, outputs, self.weights))

    def leaves(self) -> list[tuple[float, Fitted]]:
        inner = zip(self.weights, self.members, strict=True)
        return [(weight * share, leaf) for weight, one in inner for share, leaf in one.leaves()]

    @property
    def parameters(self) -> int:
        return sum(one.parameters for one in self.members)

    @property
    def has_path(self) -> bool:
        return any(one.has_path for one in self.members)

    @property
    def reach(self) -> float:
        return min((one.reach for _, one in self._with_path()), default=0.0)

    def path(self, series: Series, queries: int = 200) -> dict[str, np.ndarray]:
        found = [(share, one.path(series, queries)) for share, one in self._with_path()]
        return {key: np.sum([share * paths[key] for share, paths in found], axis=0) for key in found[0][1]}

    def path_at(self, series: Series, times: np.ndarray) -> np.ndarray:
        return np.sum([share * one.path_at(series, times) for share, one in self._with_path()], axis=0)

    def _with_path(self) -> list[tuple[float, Fitted]]:
        """Members that learned a path, and shares of them that add up to 1."""
        found = [(weight, one) for weight, one in zip(self.weights, self.members, strict=True) if one.has_path]
        if not found:
            names = ", ".join(sorted({one.name for _, one in self.leaves()}))
            raise InputError(f"no member of this ensemble learned a path ({names}); fit with model='leap+' for one")
        total = sum(weight for weight, _ in found)
        return [(weight / total, one) for weight, one in found]

    def header(self) -> dict[str, Any]:
        own = {"members": [one.header() for one in self.members], "weights": list(self.weights)}
        return {**own, **header_calibration(self.calibration)}

    def trees(self) -> dict[str, Any]:
        return {f"{_prefix(i)}{name}": tree for i, one in enumerate(self.members) for name, tree in one.trees().items()}

    @classmethod
    def restore(cls, path: Path, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> FittedEnsemble:
        """From what `load_file` found in a file; every member is checked as if it were alone in it."""
        try:
            headers, weights = list(about["members"]), [float(w) for w in about["weights"]]
            whole = all(w > 0 for w in weights) and abs(sum(weights) - 1) < 1e-6
            if not headers or len(headers) != len(weights) or not whole:
                raise TypeError(f"{len(headers)} members with the weights {weights}")
            members = [restore_fitted(path, _under(_prefix(i), arrays), header) for i, header in enumerate(headers)]
            if len({_answers(one) for one in members}) > 1:
                raise TypeError("members that answer different questions")
            calibration = read_calibration(about, members[0].preprocessor.spec.output[0])
        except CheckpointError:
            raise
        except DAMAGE as error:
            raise CheckpointError(f"{path} has a damaged header ({error})") from None
        made = cls.of(members)
        return cls(made.preprocessor, made.name, made.members, tuple(weights), made.options, calibration)


def mix(task: str, outputs: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """The average of outputs: of class scores, scores whose softmax is the average of the probabilities.

    >>> p = [np.log([[0.5, 0.5]]), np.log([[0.1, 0.9]])]
    >>> np.exp(mix("classification", p, [0.5, 0.5])).round(2).tolist()
    [[0.3, 0.7]]
    """
    if task == "labels":
        share = np.sum([w * sigmoid(rows) for w, rows in zip(weights, outputs, strict=True)], axis=0)
        return logit(np.clip(share, SMALLEST, 1 - SMALLEST))
    if task != "classification":
        return np.sum([w * rows.astype(np.float64) for w, rows in zip(weights, outputs, strict=True)], axis=0)
    shares = [w * softmax(rows.astype(np.float64)) for w, rows in zip(weights, outputs, strict=True)]
    return np.log(np.maximum(np.sum(shares, axis=0), SMALLEST))


def restore_fitted(path: Path, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Fitted:
    """A model, a baseline or an ensemble, from what `load_file` found in a file."""
    if not isinstance(about, dict):
        raise CheckpointError(f"{path} has a damaged header")
    kind = FittedEnsemble if "members" in about else Baseline if "baseline" in about else FittedModel
    return kind.restore(path, arrays, about)


def _answers(one: Fitted) -> tuple[Any, ...]:
    """What must be the same of all members, or their answers cannot be averaged."""
    of = one.preprocessor
    return of.task, of.classes, of.channels, of.spec.output, of.targets


def _prefix(i: int) -> str:
    return f"member{i}/"


def _under(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {key[len(prefix) :]: array for key, array in arrays.items() if key.startswith(prefix)}
