"""The paper's architectures and training settings, by data set and model (the tables of its appendix).

Where the paper is silent or prints what cannot be run as it stands, the choice is written beside the number;
docs/decisions/0003-paper-presets.md says why.
"""

from __future__ import annotations

from typing import Any

from leapcde.errors import InputError
from leapcde.models.registry import options_of

# k and g: (D_h, width, hidden layers); f: one hidden layer of f_width. "FC" rows without ρ have no activation.
_TABLES: dict[str, dict[str, Any]] = {
    "character-trajectories": {"hidden": 40, "width": 100, "depth": 3, "f_width": 128},
    "speech-commands": {"hidden": 90, "width": 40, "depth": 4, "f_width": 128},
    "sepsis": {"hidden": 49, "width": 39, "depth": 3, "f_width": 128},
    "mujoco": {"hidden": 80, "width": 50, "depth": 5, "f_width": 40, "g_depth": 6, "g_activation": "elu"},
}
_ALPHA_BETA = {"character-trajectories": 1e-6, "speech-commands": 1e-6, "sepsis": 1e-6, "mujoco": 1e-4}
_TRAIN: dict[str, dict[str, Any]] = {
    "character-trajectories": {"epochs": 200, "batch_size": 32, "patience": 50, "learning_rate": 1e-3},
    "speech-commands": {"epochs": 200, "batch_size": 1024, "patience": 50, "learning_rate": 1e-3},
    "sepsis": {"epochs": 300, "batch_size": 1024, "patience": 50, "learning_rate": 1e-3},
    "mujoco": {"epochs": 1000, "batch_size": 1024, "patience": 100, "learning_rate": 1e-3},
}
_SEEDS = {
    "character-trajectories": (112, 198, 234, 307, 425),
    "sepsis": (112, 176, 234, 929, 8888),
    "speech-commands": (112, 118, 198, 234, 824),
    "mujoco": (118, 176, 234, 345, 824),
}
# 1,024 samples of that many channels and steps: keeping every stage for the backward pass would take many gigabytes.
_LARGE = ("sepsis", "speech-commands")
_ALIASES = {"hopper": "mujoco", "mujoco-as-run": "mujoco"}
# Sizes of the baselines: the paper gives RNN, LSTM and GRU and a set to search for the rest ({10 … 60} on Character
# Trajectories, {60, 90, 120}, {50, 60, 70}, {50, 60, 70}); the GRU-like and ODE-RNN are those of the NCDE paper, which
# match its parameter counts, ANCDE's are its own paper's. Where all are silent: the size of LEAP's state.
_GRU = {"rnn": 0, "lstm": 0, "gru": 0, "gru-dt": 1, "gru-d": 1, "gru-ode": 1}
_SIZES: dict[str, tuple[int, int]] = {  # hidden size of (RNN, LSTM, GRU) and of (GRU-Δt, GRU-D, GRU-ODE)
    "character-trajectories": (40, 47),
    "speech-commands": (160, 160),
    "sepsis": (60, 187),
    "mujoco": (180, 60),
}
_ODE_RNN: dict[str, dict[str, int]] = {
    "character-trajectories": {"hidden": 32, "width": 32, "depth": 3},
    "speech-commands": {"hidden": 128, "width": 64, "depth": 4},
    "sepsis": {"hidden": 128, "width": 128, "depth": 4},
    "mujoco": {"hidden": 60, "width": 60, "depth": 3},
}
_ANCDE: dict[str, dict[str, int]] = {
    "character-trajectories": {"hidden": 40, "width": 40, "depth": 3, "attention_width": 20},
    "speech-commands": {"hidden": 90, "width": 40, "depth": 4, "attention_width": 20},
    "sepsis": {"hidden": 49, "width": 49, "depth": 4, "attention_width": 20},
    "mujoco": {"hidden": 80, "width": 50, "depth": 4, "attention_width": 20},
}


def sizes(data: str, model: str) -> dict[str, Any]:
    """The size of a model in the paper's comparison on a data set, and nothing but the size.

    >>> sizes("character-trajectories", "gru")
    {'hidden': 40}
    >>> sizes("mujoco", "layers+ode-rnn") == sizes("mujoco", "ode-rnn")
    True
    """
    name, model = _known(data), model.removeprefix("layers+")
    table = _TABLES[name]
    if model in _GRU:
        return {"hidden": _SIZES[name][_GRU[model]]}
    if model in ("leap", "leap+", "ncde"):
        own = ("hidden", "width", "depth") if model == "ncde" else tuple(table)
        return {key: value for key, value in table.items() if key in own}
    if model in ("ode-rnn", "ancde"):
        return dict((_ODE_RNN if model == "ode-rnn" else _ANCDE)[name])
    latent = {} if model == "ace-node" else {"latent": 15 if name == "mujoco" else 24}
    return {"hidden": table["hidden"], **latent}


def learning_rate(model: str) -> float:
    """Where the cosine schedule of a comparison starts. The plain RNN diverges at the others' rate: its gradient has no
    gates to hold it (validation accuracy on Character Trajectories, seed 112: 0.73 at 2e-3, 0.81 at 1e-3, 0.88 at 5e-4).
    """
    return 5e-4 if model == "rnn" else 2e-3


def paper_options(data: str, model: str) -> dict[str, Any]:
    """Model options of the paper for a data set.

    >>> paper_options("sepsis", "leap")["hidden"]
    49
    """
    known, fixed = options_of(model), {"linear_first": True, "anchored": False, "solver": "rk4-3/8"}
    if _known(data) in _LARGE:
        fixed["solver_options"] = {"checkpoint": True}
    fixed["time_span"] = None  # time runs at a unit for each typical gap
    options = {**sizes(data, model), **{key: value for key, value in fixed.items() if key in known}}
    if model not in ("leap", "leap+"):
        return options
    weight = _ALPHA_BETA[_known(data)]
    start = {"swings": 0.0} if "swings" in known else {}  # the paper says nothing of how it starts: random weights
    return {**options, **start, "alpha": weight, "beta": weight, "decoder_steps": None}


def seeds(data: str) -> tuple[int, ...]:
    """The seeds of the paper's runs on a data set."""
    return _SEEDS[_known(data)]


def paper_training(data: str) -> dict[str, Any]:
    """Training settings of the paper for a data set (constant rate, stop on the training loss, no clipping).

    >>> paper_training("mujoco")["epochs"]
    1000
    """
    return {**_TRAIN[_known(data)], "schedule": "constant", "stop_on": "train", "clip": None}


# The appendix's sets to search, as the paper prints them ("1.0 × e^-4" is 1e-4).
_RATES = {
    "character-trajectories": (1e-4, 5e-4, 1e-3, 5e-3),
    "speech-commands": (1e-6, 5e-6, 1e-5, 5e-5),
    "sepsis": (5e-5, 1e-4, 5e-4, 1e-3),
    "mujoco": (5e-5, 1e-4, 5e-4, 1e-3),
}
_HIDDEN = {
    "character-trajectories": (10, 20, 40, 50, 60),
    "speech-commands": (60, 90, 120),
    "sepsis": (50, 60, 70),
    "mujoco": (50, 60, 70),
}
_FIXED = {"character-trajectories": 40, "speech-commands": 160, "mujoco": 180}  # RNN, LSTM and GRU are not searched there
_LEAP: dict[str, tuple[Any, ...]] = {
    "depth": (1, 2, 3, 4, 5, 6),
    "hidden": (20, 30, 40, 50, 80, 100),
    "learning_rate": (1e-4, 5e-4, 1e-3, 5e-3),
    "alpha": (1e-6, 1e-5, 1e-4),
    "beta": (1e-6, 1e-5, 1e-4),
}


def space(data: str, model: str) -> dict[str, tuple[Any, ...]]:
    """The values that the paper's appendix searched for a model on a data set; `rate` is of training, the rest are options.

    >>> space("sepsis", "leap")["hidden"], space("mujoco", "gru")["hidden"]
    ((39, 49, 59), (180,))
    """
    name = _known(data)
    if model in ("leap", "leap+"):
        return {**_LEAP, "hidden": (39, 49, 59)} if name == "sepsis" else dict(_LEAP)
    options_of(model)  # a model that there is not is an error
    hidden = (_FIXED[name],) if model in ("rnn", "lstm", "gru") and name in _FIXED else _HIDDEN[name]
    return {"learning_rate": _RATES[name], "hidden": hidden}


def _known(data: str) -> str:
    name = _ALIASES.get(data, data)
    if name not in _TABLES:
        raise InputError(f"there is no paper preset for {data!r}; there is one for: {', '.join([*_TABLES, *_ALIASES])}")
    return name
