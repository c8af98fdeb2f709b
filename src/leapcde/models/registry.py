"""The registry: every model by name, with what it can do."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from leapcde.errors import Problems, choose
from leapcde.models.ace_node import ACENODE
from leapcde.models.ancde import ANCDE
from leapcde.models.base import Model, Spec
from leapcde.models.gru_ode import GRUODE
from leapcde.models.latent_ode import LatentODE
from leapcde.models.leap import Leap
from leapcde.models.learnable_layers import LearnableLayers
from leapcde.models.ncde import NeuralCDE
from leapcde.models.ode_rnn import ODERNN
from leapcde.models.rnn import GRUD, Recurrent


@dataclass(frozen=True)
class ModelInfo:
    make: type[Model]
    summary: str
    reference: str
    tags: tuple[str, ...]
    fixed: dict[str, Any] = field(default_factory=dict)  # arguments of `make` that this entry decides
    variant: bool = False  # of a study of the paper, or of ours: not one of its thirteen models
    revision: int = 1  # raised when the same settings give other numbers: records of before are no longer taken for it


RUBANOVA = "Rubanova, Chen, Duvenaud, NeurIPS 2019"
LAYERS = "ablation of Jhin, Jo et al., AAAI 2023"
MODELS: dict[str, ModelInfo] = {
    "rnn": ModelInfo(
        Recurrent, "tanh recurrence over observations", "Elman, 1990", ("discrete",), {"cell": "rnn", "deltas": False}
    ),
    "lstm": ModelInfo(
        Recurrent, "LSTM over observations", "Hochreiter, Schmidhuber, 1997", ("discrete",), {"cell": "lstm", "deltas": False}
    ),
    "gru": ModelInfo(
        Recurrent, "GRU over observations", "Cho et al., EMNLP 2014", ("discrete",), {"cell": "gru", "deltas": False}
    ),
    "gru-dt": ModelInfo(
        Recurrent,
        "GRU that is told how long ago each channel was seen",
        "Che et al., Scientific Reports 2018",
        ("discrete", "time-aware"),
        {"cell": "gru", "deltas": True},
    ),
    "gru-d": ModelInfo(
        GRUD, "GRU whose inputs and state fade with time", "Che et al., Scientific Reports 2018", ("discrete", "time-aware")
    ),
    "gru-ode": ModelInfo(
        GRUODE, "GRU gates as a vector field", "De Brouwer et al., NeurIPS 2019; Jordan et al., 2021", ("continuous", "path")
    ),
    "ode-rnn": ModelInfo(ODERNN, "an ODE between observations, a GRU at them", RUBANOVA, ("continuous", "jumps")),
    "latent-ode": ModelInfo(
        LatentODE,
        "a variational autoencoder with an ODE in its latent space",
        RUBANOVA,
        ("continuous", "jumps", "generative"),
        {"augment": 0},
    ),
    "augmented-ode": ModelInfo(
        LatentODE,
        "Latent-ODE with zero dimensions appended",
        "Dupont, Doucet, Teh, NeurIPS 2019",
        ("continuous", "jumps", "generative"),
    ),
    "ace-node": ModelInfo(
        ACENODE, "state and attention evolve together", "Jhin et al., KDD 2021", ("continuous", "jumps", "attention")
    ),
    "ncde": ModelInfo(
        NeuralCDE,
        "the interpolated path drives a CDE",
        "Kidger et al., NeurIPS 2020",
        ("continuous", "path"),
        revision=2,  # `time_span`, here and below
    ),
    "ancde": ModelInfo(
        ANCDE,
        "attention decides how much of the path a CDE sees",
        "Jhin et al., ICDM 2021",
        ("continuous", "path", "attention"),
        revision=2,
    ),
    "leap": ModelInfo(
        Leap,
        "a learned path drives a CDE",
        "Jhin, Jo et al., AAAI 2023",
        ("continuous", "path", "learned-path"),
        {"residual": False},
        revision=3,  # 2: h starts as oscillators; all three fields are regularised
    ),
    "leap+": ModelInfo(
        Leap,
        "LEAP whose path is the observed one plus what it learned",
        "ours; not in the paper",
        ("continuous", "path", "learned-path"),
        {"residual": True, "swings": 0.0},  # m(h) is only what to change: it starts small
        variant=True,
        revision=2,
    ),
}


for _of in ("gru-ode", "ode-rnn", "ncde"):
    _info = MODELS[_of]
    MODELS[f"layers+{_of}"] = ModelInfo(
        LearnableLayers,
        f"a learned point-wise change of the input ahead of {_of}",
        LAYERS,
        _info.tags,
        {"of": _info.make},
        variant=True,
        revision=_info.revision,
    )


def options_of(name: str) -> dict[str, inspect.Parameter]:
    """The options a model takes, with their annotations and defaults.

    >>> options_of("ncde")["hidden"].default
    48
    """
    choose("model", name, MODELS)
    info = MODELS[name]
    found = _parameters(info.make)
    if "of" in info.fixed:
        found |= _parameters(info.fixed["of"])
    return {key: option for key, option in found.items() if key not in info.fixed}


def _parameters(make: type[Model]) -> dict[str, inspect.Parameter]:
    named = inspect.signature(make.__init__).parameters
    return {key: p for key, p in named.items() if key not in ("self", "spec", "key") and p.kind is p.KEYWORD_ONLY}


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
    info = MODELS[name]
    return info.make(spec, key=jax.random.key(seed), **info.fixed, **options)  # pyright: ignore[reportCallIssue]


def _problem(key: str, value: Any, known: dict[str, inspect.Parameter]) -> str:
    """What is wrong with an option, judged by its annotation: sizes are whole and positive, the rest has its type."""
    if key not in known:
        return f"no option {key!r}; it has: {', '.join(known)}"
    kind = str(known[key].annotation)
    if value is None and "None" in kind:
        return ""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    amount: Any = value if number else math.nan  # which is neither above nor below anything
    fits = {
        "int": number and isinstance(value, int) and value > 0,
        "Whole": number and isinstance(value, int) and value >= 0,
        "float": 0 <= amount < math.inf,
        "Positive": 0 < amount < math.inf,
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
        "dict": isinstance(value, dict),
    }
    wanted = {
        "int": "a whole number above 0",
        "Whole": "a whole number, 0 or more",
        "float": "a number of at least 0",
        "Positive": "a number above 0",
        "bool": "true or false",
        "str": "text",
    }
    type_name = next(name for name in fits if kind.startswith(name))
    return "" if fits[type_name] else f"option {key}={value!r}: give {wanted.get(type_name, 'a table of settings')}"


def count_parameters(model: Model) -> int:
    """How many numbers training can change; of shapes without numbers (`eqx.filter_eval_shape`) too."""
    arrays = [leaf for leaf in jax.tree.leaves(model) if hasattr(leaf, "dtype") and np.issubdtype(leaf.dtype, np.floating)]
    return sum(math.prod(leaf.shape) for leaf in arrays)
