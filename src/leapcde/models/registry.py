"""The registry: every model by name, with what it can do. `@register` on a class is all that a new model needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import numpy as np

from leapcde.errors import Problems, choose
from leapcde.models.base import Model, Spec
from leapcde.models.each_row import EachRow, RowModel
from leapcde.models.options import Option, options_in, problem_with


@dataclass(frozen=True)
class ModelInfo:
    """An entry of the registry: `make(spec, options(…), key=…)` builds the model."""

    make: type[Model]
    options: type  # a frozen dataclass
    summary: str = ""
    reference: str = ""
    tags: tuple[str, ...] = ()
    fixed: dict[str, Any] = field(default_factory=dict)  # options that this entry decides
    variant: bool = False  # of a study of the paper, or of ours: not one of its thirteen models
    revision: int = 1  # raised when the same settings give other numbers: records of before are no longer taken for it


MODELS: dict[str, ModelInfo] = {}
Kind = TypeVar("Kind", bound=Model)


def register(name: str, *, options: type | None = None, **about: Any) -> Callable[[type[Kind]], type[Kind]]:
    """Make a model known by its name, to estimators, files and the command line alike. A decorator for its class.

    **Arguments:** `options` is the dataclass of its options, `Options` of the class if not given; `about` are the other
    fields of `ModelInfo`: `summary`, `reference`, `tags`, `fixed`, `variant`, `revision`.

    **Returns:** what decorates the class, and returns it as it is. (An example that runs: docs/extending.md.)

    >>> MODELS["ncde"].reference
    'Kidger et al., NeurIPS 2020'
    """

    def known(kind: type[Kind]) -> type[Kind]:
        MODELS[name] = ModelInfo(kind, options or kind.Options, **about)
        return kind

    return known


def options_of(name: str) -> dict[str, Option]:
    """The options that a model takes, each with its default, its type and what it is.

    >>> options_of("ncde")["hidden"].default
    48
    """
    choose("model", name, MODELS)
    info = MODELS[name]
    return {key: option for key, option in options_in(info.options).items() if key not in info.fixed}


def build(name: str, spec: Spec, /, *, seed: int = 0, **options) -> Model:
    """A fresh model; the same seed gives the same weights.

    >>> count_parameters(build("ncde", Spec("classification", 3, 4, (20,)), hidden=8, width=8)) > 0
    True
    """
    known, problems = options_of(name), Problems()
    for key, value in options.items():
        if problem := problem_with(key, value, known):
            problems.add(problem)
    problems.raise_if_any(f"model {name!r} cannot be built")
    info = MODELS[name]
    made = info.make(spec, info.options(**info.fixed, **options), key=jax.random.key(seed))  # pyright: ignore[reportCallIssue]
    return RowModel.of(name, made, spec, answer_rows()) if spec.each_row else made


def answer_rows() -> list[str]:
    """Names of the models that can answer after each row.

    >>> answer_rows()
    ['rnn', 'lstm', 'gru', 'gru-dt', 'gru-d', 'leap+']
    """
    return [name for name, info in MODELS.items() if issubclass(info.make, EachRow)]


def count_parameters(model: Model) -> int:
    """How many numbers training can change; of shapes without numbers (`eqx.filter_eval_shape`) too."""
    arrays = [leaf for leaf in jax.tree.leaves(model) if hasattr(leaf, "dtype") and np.issubdtype(leaf.dtype, np.floating)]
    return sum(math.prod(leaf.shape) for leaf in arrays)
