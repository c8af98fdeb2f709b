"""How much is spent on a cell: `full` is the paper's own, `standard` fits a machine with two cores, `smoke` takes minutes.

A budget decides seeds, training, sizes and how much of the data is used. It is part of every cell's identity and stands on
every table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from leapcde.cli.run import RunConfig
from leapcde.errors import choose
from leapcde.models.registry import MODELS, options_of
from leapcde.paths.batch import Recipe
from leapcde.training.config import TrainConfig
from leapcde_paper import presets
from leapcde_paper.baselines import is_fixed, is_honest

# Equal training for all models: epochs and samples a step, with a cosine schedule. Its rate and the weight penalty were
# chosen by the same trials for each model (`chosen`), or are the usual ones where a model was not tuned on a data set.
WITH_NOISE = {"epochs": 40, "batch_size": 16, "noise": 1.0}  # words have two trainings (decision 11)
WITHOUT_NOISE = {"epochs": 20, "batch_size": 32, "noise": 0.0}
# Better without, by the mean validation accuracy of the same seeds; tests/test_bench.py compares this with the records.
BETTER_WITHOUT_NOISE = {"rnn", "ode-rnn"}
_STANDARD = {
    "character-trajectories": {"epochs": 40, "batch_size": 32},
    "speech-commands": WITH_NOISE,
    "sepsis": {"epochs": 8, "batch_size": 128},
    "mujoco-as-run": {"epochs": 20, "batch_size": 64},
    "mujoco": {"epochs": 20, "batch_size": 64},
}
_PENALTY = 0.003
_DECODER_STEPS = 32  # as accurate as a step at every knot of a letter (results/decoder)
_STEPS_ALONG_X = {"character-trajectories": 32, "speech-commands": 32}  # long series: fewer steps learn more (decision 10)
_STRAIGHT = {"mujoco"}  # a spline through few points swings: for whoever follows X, straight lines (decision 10)
_SMOOTH = {("speech-commands", "leap"), ("speech-commands", "ncde")}  # SiLU instead of ReLU: most units die (decision 12)
_FEWER_STEPS = {"sepsis": 16}  # stays are short and their channels many; not compared with more steps
# What a cell of the smoke budget needs is time to compile: Euler's method and one layer make small programs.
_TINY: dict[str, Any] = {"hidden": 4, "width": 4, "depth": 1, "f_width": 4, "latent": 3, "decoder_steps": 3, "solver": "euler"}


_TINY |= {"alpha": 1e-4, "beta": 1e-4, "attention_width": 4, "layer_width": 4, "layer_depth": 1}


@dataclass(frozen=True)
class Budget:
    name: str
    about: str
    seeds: int
    samples: int | None = None  # of the training data; validation and test have half as many
    length: int | None = None  # last rows of each sample
    models: tuple[str, ...] = ()  # those that are run where a table has more; empty for all
    left_out: str = ""  # why some are not, for the note below a table
    sizes: dict[int, int] = field(default_factory=dict)  # of the state, where an experiment asks for one
    more_seeds: dict[tuple[str, str], int] = field(default_factory=dict)  # where two models are close, by data set and model


BUDGETS = {
    "full": Budget("full", "the paper's epochs, sizes, α and β, five seeds", 5),
    "standard": Budget(
        "standard",
        "fewer epochs with a cosine schedule, the paper's sizes, three seeds (LEAP and NCDE on Character Trajectories: five)",
        3,
        more_seeds={("character-trajectories", model): 5 for model in ("leap", "ncde")},
    ),
    "smoke": Budget(
        "smoke",
        "one epoch of tiny models on a few samples, two seeds: shows that everything runs, its numbers mean nothing",
        2,
        samples=40,
        length=12,
        models=("gru", "ncde", "leap"),
        left_out="Left out of this budget: the other models, and MiniRocket, whose compiler takes longer than all the rest.",
        sizes={39: 3, 49: 4, 59: 5},
    ),
}


def budget(name: str) -> Budget:
    """A budget by name; the error lists them.

    >>> budget("full").seeds
    5
    """
    choose("budget", name, BUDGETS)
    return BUDGETS[name]


def seeds(spend: Budget, data: str, model: str, *, plain: bool = True) -> tuple[int, ...]:
    """The paper's seeds for a data set, as many as the budget has, more for some `plain` models (without options of an
    experiment's own); one for what does not depend on them.

    >>> len(seeds(budget("standard"), "character-trajectories", "leap")), len(seeds(budget("standard"), "sepsis", "ridge"))
    (5, 1)
    """
    if is_fixed(model):
        return presets.seeds(data)[:1]
    return presets.seeds(data)[: spend.more_seeds.get((data, model), spend.seeds) if plain else spend.seeds]


def recipe(spend: Budget, data: str, model: str) -> Recipe:
    """Sepsis sees how often each channel was observed, as the paper's 69 channels say; its MuJoCo has no time channel."""
    straight = spend.name == "standard" and data in _STRAIGHT and not is_honest(model) and "path" in MODELS[model].tags
    time = not (spend.name == "full" and data == "mujoco-as-run")
    return Recipe("linear" if straight else "natural", time, intensity=data == "sepsis")


def config(
    spend: Budget, data: str, drop: float, model: str, options: dict[str, Any], dataset_options: dict[str, Any]
) -> RunConfig:
    """The settings of a model on a data set within a budget; `options` and `dataset_options` are the experiment's own."""
    if is_honest(model):
        return RunConfig(
            data, model, drop, recipe=recipe(spend, data, model), train=TrainConfig(epochs=1), dataset_options=dataset_options
        )
    options = {**_options(spend, data, model), **options}
    if "hidden" in options:
        options["hidden"] = spend.sizes.get(options["hidden"], options["hidden"])
    train = TrainConfig(**_training(spend, data, model))
    return RunConfig(data, model, drop, options, recipe(spend, data, model), train, dataset_options=dataset_options)


def _options(spend: Budget, data: str, model: str) -> dict[str, Any]:
    if spend.name == "full":
        return presets.paper_options(data, model)
    if spend.name == "standard":
        known = options_of(model)
        grid: dict[str, Any] = {"decoder_steps": _FEWER_STEPS.get(data, _DECODER_STEPS)}
        grid |= dict.fromkeys(("steps", "encoder_steps"), _STEPS_ALONG_X.get(data))
        grid |= {"activation": "silu" if (data, model.removeprefix("layers+")) in _SMOOTH else None}
        grid = {key: value for key, value in grid.items() if key in known and value is not None}
        tuned = {key: value for key, value in chosen(data, model).items() if key in known}
        return {**presets.sizes(data, model), **grid, **tuned}
    known = options_of(model)
    return {key: value for key, value in _TINY.items() if key in known}


def _training(spend: Budget, data: str, model: str) -> dict[str, Any]:
    if spend.name == "full":
        return presets.paper_training(data)
    if spend.name == "standard":
        usual = {"learning_rate": presets.learning_rate(model), "weight_penalty": _PENALTY}
        tuned = {key: value for key, value in chosen(data, model).items() if key in usual}
        plain = data == "speech-commands" and model.removeprefix("layers+") in BETTER_WITHOUT_NOISE
        return {**(WITHOUT_NOISE if plain else _STANDARD[data]), **usual, **tuned}
    return {"epochs": 1, "batch_size": 16, "learning_rate": 4e-3}


def chosen(data: str, model: str) -> dict[str, Any]:
    """What tools/tune_standard.py found best on validation data; ablations train as the model they are made of."""
    return _all_chosen().get(data, {}).get(model.removeprefix("layers+"), {})


@cache
def _all_chosen() -> dict[str, dict[str, dict[str, Any]]]:
    return json.loads(resources.files("leapcde_paper").joinpath("chosen.json").read_text(encoding="utf-8"))


def thirteen() -> tuple[str, ...]:
    """The models of the paper's tables, in its order."""
    return tuple(name for name, info in MODELS.items() if not info.variant)
