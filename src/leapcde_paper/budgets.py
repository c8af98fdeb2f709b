"""How much is spent on a cell: `full` is the paper's own, `standard` fits a machine with two cores, `smoke` takes minutes.

A budget decides seeds, training, sizes and how much of the data is used. It is part of every cell's identity and stands on
every table. The numbers are in presets/*.toml.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leapcde.errors import choose
from leapcde.models.registry import MODELS
from leapcde.paths.batch import Recipe
from leapcde.training.config import TrainConfig
from leapcde_paper import presets
from leapcde_paper.baselines import is_baseline, is_fixed
from leapcde_paper.presets import TRAINING, known, of_model, preset
from leapcde_paper.run.cell import CellConfig


@dataclass(frozen=True)
class Budget:
    name: str
    about: str
    seeds: int  # of the main tables
    samples: int | None = None  # of the training data; validation and test have half as many
    length: int | None = None  # last rows of each sample
    study_seeds: int | None = None  # of what only studies have; as many as the main tables without it
    models: tuple[str, ...] = ()  # those that are run where a table has more; empty for all
    left_out: str = ""  # why some are not, for the note below a table
    sizes: dict[int, int] = field(default_factory=dict)  # of the state, where an experiment asks for one


BUDGETS = {
    "full": Budget("full", "the paper's epochs, sizes, α and β, five seeds", 5),
    "standard": Budget(
        "standard",
        "fewer epochs with a cosine schedule, the paper's sizes, five seeds (three of what only studies have)",
        5,
        study_seeds=3,
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


def seeds(spend: Budget, data: str, model: str, *, main: bool = True) -> tuple[int, ...]:
    """The paper's seeds for a data set, as many as the budget has for a `main` table or for studies; one for what does not
    depend on them.

    >>> [len(seeds(budget("standard"), "sepsis", *one)) for one in (("leap",), ("ridge",))]
    [5, 1]
    >>> len(seeds(budget("standard"), "sepsis", "leap", main=False))
    3
    """
    if is_fixed(model):
        return presets.seeds(data)[:1]
    return presets.seeds(data)[: spend.seeds if main else spend.study_seeds or spend.seeds]


def recipe(spend: Budget, data: str, model: str) -> Recipe:
    """How X is made: where series are few points, whoever follows a path may follow straight lines."""
    own = preset(data)
    follows = spend.name == "standard" and not is_baseline(model) and "path" in MODELS[model].tags
    interpolation = of_model(data, model)["interpolation"] or own["standard"]["interpolation"] if follows else "natural"
    return Recipe(interpolation, spend.name != "full" or own["paper"]["time_channel"], intensity=own["intensity"])


def config(
    spend: Budget, data: str, drop: float, model: str, options: dict[str, Any], dataset_options: dict[str, Any]
) -> CellConfig:
    """The settings of a model on a data set within a budget; `options` and `dataset_options` are the experiment's own."""
    parts = {"recipe": recipe(spend, data, model), "dataset_options": dataset_options}
    if is_baseline(model):
        return CellConfig(data, model, drop, train=TrainConfig(epochs=1), **parts)
    options = {**_options(spend, data, model), **options}
    if "hidden" in options:
        options["hidden"] = spend.sizes.get(options["hidden"], options["hidden"])
    return CellConfig(data, model, drop, options, train=TrainConfig(**_training(spend, data, model)), **parts)


def _options(spend: Budget, data: str, model: str) -> dict[str, Any]:
    if spend.name == "full":
        return presets.paper_options(data, model)
    if spend.name == "smoke":
        return known(model, preset(data)["smoke"]["options"])
    own = of_model(data, model)
    return {**own["sizes"], **known(model, {**preset(data)["standard"]["options"], **own["standard"]})}


def _training(spend: Budget, data: str, model: str) -> dict[str, Any]:
    if spend.name == "full":
        return presets.paper_training(data)
    if spend.name == "smoke":
        return preset(data)["smoke"]["training"]
    own, usual = of_model(data, model), preset(data)["standard"]
    tuned = {key: value for key, value in own["standard"].items() if key in ("epochs", *TRAINING)}
    return {**usual["training"], **(usual["without_noise"] if own["without_noise"] else {}), **tuned}
