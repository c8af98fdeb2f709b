"""The paper's architectures, training settings and search spaces, and those of the smaller budgets: a TOML file a data set.

`common.toml` holds what all share and says what the sections mean. Adding a data set to the comparison is adding a file.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from leapcde.errors import InputError
from leapcde.models.registry import options_of

COMMON = "common"
TRICKS = ("hide", "spans", "warp", "channel_drop", "in_window", "label_smoothing", "ema", "warmup", "accumulate")
# In a model's `standard` section, what is not an option of the model.
TRAINING = ("learning_rate", "weight_penalty", "optimizer", "weight_decay", *TRICKS)
NOTHING = "none"  # TOML has no word for it


def names() -> list[str]:
    """The data sets that there are presets for.

    >>> "sepsis" in names()
    True
    """
    files = (entry.name for entry in resources.files(__name__).iterdir() if entry.name.endswith(".toml"))
    return sorted(name.removesuffix(".toml") for name in files if name != f"{COMMON}.toml")


@cache
def preset(data: str) -> dict[str, Any]:
    """All that the files say of a data set.

    >>> preset("sepsis")["standard"]["training"]["epochs"]
    8
    """
    name = data.partition(":")[0]  # one file for all problems of an archive
    if name not in names():
        raise InputError(f"there is no paper preset for {data!r}; there is one for: {', '.join(names())}")
    own = dict(_read(name))
    base = preset(own.pop("like")) if "like" in own else _read(COMMON)
    return {**_merged(base, own), "rivals": own.get("rivals", {})}


def of_model(data: str, model: str) -> dict[str, Any]:
    """The section of a model; an ablation or a variant has that of the model it is made of, somebody else's model an empty one.

    >>> of_model("mujoco", "layers+ode-rnn") == of_model("mujoco", "ode-rnn")
    True
    """
    section = preset(data)["model"].get(model.removeprefix("layers+").removeprefix("ages+").partition(":")[0], {})
    usual = {"sizes": {}, "paper": {}, "standard": {}, "search": {}}
    usual |= {"without_noise": False, "interpolation": None}
    return {**usual, **section}


def known(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """Of some options, those that a model has.

    >>> known("gru", {"hidden": 3, "alpha": 1.0})
    {'hidden': 3}
    """
    there = options_of(model)
    return {key: value for key, value in options.items() if key in there}


def sizes(data: str, model: str) -> dict[str, Any]:
    """The size of a model in the paper's comparison on a data set, and nothing but the size.

    >>> sizes("character-trajectories", "gru")
    {'hidden': 40}
    """
    return dict(of_model(data, model)["sizes"])


def seeds(data: str) -> tuple[int, ...]:
    """The seeds of the paper's runs on a data set."""
    return tuple(preset(data)["seeds"])


def paper_options(data: str, model: str) -> dict[str, Any]:
    """Model options of the paper for a data set.

    >>> paper_options("sepsis", "leap")["hidden"]
    49
    """
    own = of_model(data, model)
    return {**own["sizes"], **known(model, {**preset(data)["paper"]["options"], **own["paper"]})}


def paper_training(data: str) -> dict[str, Any]:
    """Training settings of the paper for a data set (constant rate, stop on the training loss, no clipping).

    >>> paper_training("mujoco")["epochs"]
    1000
    """
    return dict(preset(data)["paper"]["training"])


def usual_rate(model: str) -> float:
    """Where the cosine schedule of a comparison starts that was not tuned.

    >>> usual_rate("rnn"), usual_rate("leap")
    (0.0005, 0.002)
    """
    usual = _read(COMMON)
    own = usual["model"].get(model, {}).get("standard", {})
    return {**usual["standard"]["training"], **own}["learning_rate"]


def space(data: str, model: str) -> dict[str, tuple[Any, ...]]:
    """The values that the paper's appendix searched for a model; `learning_rate` is of training, the rest are options.

    >>> space("sepsis", "leap")["hidden"], space("mujoco", "gru")["hidden"]
    ((39, 49, 59), (180,))
    """
    options_of(model)  # a model that there is not is an error
    found = {**preset(data)["search"], **of_model(data, model)["search"]}
    return {name: tuple(values) for name, values in found.items()}


@cache
def _read(name: str) -> dict[str, Any]:
    return without_word(tomllib.loads(resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")))


def without_word(value: Any) -> Any:
    """Inside a table, the word for nothing becomes nothing: a default may be something else.

    >>> without_word({"clip": "none"})
    {'clip': None}
    """
    if isinstance(value, dict):
        return {key: without_word(item) for key, item in value.items()}
    return None if value == NOTHING else value


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(base[key], own[key]) for key in base.keys() & own.keys() if isinstance(own[key], dict)}
    return {**base, **own, **both}
