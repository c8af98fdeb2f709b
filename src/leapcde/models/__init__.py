"""The registry: every model by name, with what it can do."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..errors import InputError, choose
from .base import TASKS, Batch, Model, Output, Spec
from .leap import Leap
from .ncde import NeuralCDE

__all__ = ["MODELS", "TASKS", "Batch", "Model", "ModelInfo", "Output", "Spec", "build", "count_parameters", "options_of"]


@dataclass(frozen=True)
class ModelInfo:
    make: type[Model]
    summary: str
    reference: str
    tags: tuple[str, ...]


MODELS: dict[str, ModelInfo] = {
    "leap": ModelInfo(
        Leap, "a learned path drives a CDE", "Jhin, Jo et al., AAAI 2023", ("continuous", "path", "learned-path")
    ),
    "ncde": ModelInfo(NeuralCDE, "the interpolated path drives a CDE", "Kidger et al., NeurIPS 2020", ("continuous", "path")),
}


def options_of(name: str) -> dict[str, Any]:
    """The options a model takes, with their defaults.

    >>> options_of("ncde")["hidden"]
    48
    """
    choose("model", name, MODELS)
    parameters = inspect.signature(MODELS[name].make.__init__).parameters
    return {key: p.default for key, p in parameters.items() if key not in ("self", "spec", "key")}


def build(name: str, spec: Spec, *, seed: int = 0, **options) -> Model:
    """A fresh model; the same seed gives the same weights.

    >>> count_parameters(build("ncde", Spec("classification", 3, 4, (20,)), hidden=8, width=8)) > 0
    True
    """
    known = options_of(name)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(f"model {name!r} has no option {', '.join(map(repr, unknown))}; it has: {', '.join(known)}")
    return MODELS[name].make(spec, key=jax.random.key(seed), **options)  # pyright: ignore[reportCallIssue]


def count_parameters(model: Model) -> int:
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
