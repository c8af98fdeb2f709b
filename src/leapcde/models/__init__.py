"""The registry: every model by name, with what it can do."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..errors import Problems, choose
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


def options_of(name: str) -> dict[str, inspect.Parameter]:
    """The options a model takes, with their annotations and defaults.

    >>> options_of("ncde")["hidden"].default
    48
    """
    choose("model", name, MODELS)
    parameters = inspect.signature(MODELS[name].make.__init__).parameters
    return {key: p for key, p in parameters.items() if key not in ("self", "spec", "key")}


def build(name: str, spec: Spec, /, *, seed: int = 0, **options) -> Model:
    """A fresh model; the same seed gives the same weights.

    >>> count_parameters(build("ncde", Spec("classification", 3, 4, (20,)), hidden=8, width=8)) > 0
    True
    """
    known = options_of(name)
    problems = Problems()
    for key, value in options.items():
        problem = _problem(key, value, known)
        if problem:
            problems.add(problem)
    problems.raise_if_any(f"model {name!r} cannot be built")
    return MODELS[name].make(spec, key=jax.random.key(seed), **options)  # pyright: ignore[reportCallIssue]


def _problem(key: str, value: Any, known: dict[str, inspect.Parameter]) -> str:
    """What is wrong with an option, judged by its annotation: sizes are whole and positive, the rest has its type."""
    if key not in known:
        return f"no option {key!r}; it has: {', '.join(known)}"
    kind = str(known[key].annotation)
    if value is None and "None" in kind:
        return ""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = {
        "int": number and isinstance(value, int) and value > 0,
        "float": number and not value < 0,  # pyright: ignore[reportOptionalOperand]
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
        "dict": isinstance(value, dict),
    }
    wanted = {"int": "a whole number above 0", "float": "a number of at least 0", "bool": "true or false", "str": "text"}
    type_name = next(name for name in fits if kind.startswith(name))
    return "" if fits[type_name] else f"option {key}={value!r}: give {wanted.get(type_name, 'a table of settings')}"


def count_parameters(model: Model) -> int:
    """How many numbers training can change."""
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
