"""A run with the settings that were asked for; what was not is chosen from the data's shape, as the estimators choose it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from leapcde.cli.run import RunConfig, load_data
from leapcde.data.dataset import Dataset
from leapcde.training import defaults as auto
from leapcde.training.config import TrainConfig


def own_run(asked: RunConfig, training: dict[str, Any]) -> tuple[RunConfig, Dataset]:
    """The whole config of a run, and its data. None in `training` means: choose."""
    loaded = load_data(asked)
    given = {key: value for key, value in training.items() if value is not None}
    chosen = {**auto.training_options(len(loaded.train), loaded.task), "stop_on": "validation", **given}
    if loaded.task != "classification":
        chosen.pop("class_weight", None)
    config = TrainConfig(**chosen)
    channels = asked.recipe.channels(loaded.train.values.shape[1])
    shape = (channels, loaded.train.lengths, config.batch_size)
    suited = auto.model_options(asked.model, *shape, task=loaded.task, interpolation=asked.recipe.interpolation)
    return replace(asked, options={**suited, **asked.options}, train=config), loaded
