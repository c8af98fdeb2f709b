"""The paper's architectures and training settings, by data set and model (the tables of its appendix).

Where the paper is silent or prints what cannot be run as it stands, the choice is written beside the number;
docs/decisions/0003-paper-presets.md says why.
"""

from __future__ import annotations

from typing import Any

from ..errors import InputError

# k and g: (D_h, width, hidden layers); f: one hidden layer of f_width. "FC" rows without ρ have no activation.
_TABLES: dict[str, dict[str, Any]] = {
    "character-trajectories": {"hidden": 40, "width": 100, "depth": 3, "f_width": 128},
    "speech-commands": {"hidden": 90, "width": 40, "depth": 4, "f_width": 128},
    "sepsis": {"hidden": 49, "width": 39, "depth": 3, "f_width": 128},
    "mujoco": {"hidden": 80, "width": 50, "depth": 5, "f_width": 40, "g_depth": 6, "g_activation": "elu"},
}
_ALPHA_BETA = {"character-trajectories": 1e-6, "speech-commands": 1e-6, "sepsis": 1e-6, "mujoco": 1e-4}
_TRAIN: dict[str, dict[str, Any]] = {
    "character-trajectories": {"epochs": 200, "batch": 32, "patience": 50, "rate": 1e-3},
    "speech-commands": {"epochs": 200, "batch": 1024, "patience": 50, "rate": 1e-3},
    "sepsis": {"epochs": 300, "batch": 1024, "patience": 50, "rate": 1e-3},
    "mujoco": {"epochs": 1000, "batch": 1024, "patience": 100, "rate": 1e-3},
}
SEEDS = {
    "character-trajectories": (112, 198, 234, 307, 425),
    "sepsis": (112, 176, 234, 929, 8888),
    "speech-commands": (112, 118, 198, 234, 824),
    "mujoco": (118, 176, 234, 345, 824),
}
# 1,024 samples of that many channels and steps: keeping every stage for the backward pass would take many gigabytes.
_LARGE = ("sepsis", "speech-commands")
_ALIASES = {"hopper": "mujoco", "mujoco-as-run": "mujoco"}


def paper_options(data: str, model: str) -> dict[str, Any]:
    """Model options of the paper for a data set.

    >>> paper_options("sepsis", "leap")["hidden"]
    49
    """
    name = _known(data)
    table = {**_TABLES[name], "linear_first": True, "anchored": False, "solver": "rk4-3/8"}
    if name in _LARGE:
        table["solver_options"] = {"checkpoint": True}
    if model == "ncde":
        return {key: value for key, value in table.items() if key not in ("f_width", "g_depth", "g_activation")}
    if model != "leap":
        raise InputError(f"there is no paper preset for model {model!r}; there is one for leap and ncde")
    return {**table, "alpha": _ALPHA_BETA[name], "beta": _ALPHA_BETA[name], "decoder_steps": None}


def paper_training(data: str) -> dict[str, Any]:
    """Training settings of the paper for a data set (constant rate, stop on the training loss, no clipping).

    >>> paper_training("mujoco")["epochs"]
    1000
    """
    return {**_TRAIN[_known(data)], "schedule": "constant", "stop_on": "train", "clip": None}


def _known(data: str) -> str:
    name = _ALIASES.get(data, data)
    if name not in _TABLES:
        raise InputError(f"there is no paper preset for {data!r}; there is one for: {', '.join([*_TABLES, *_ALIASES])}")
    return name
