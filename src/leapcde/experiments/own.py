"""A run on a user's own file: what was not asked for is chosen from the data's shape, as the estimators choose it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import auto
from ..batches import Recipe
from ..datasets import Dataset, table_file
from ..train import TrainConfig
from .run import RunConfig, digest_of, load_data


def own_run(
    file: Path,
    columns: table_file.Columns,
    *,
    model: str,
    drop: float,
    options: dict[str, Any],
    recipe: Recipe,
    training: dict[str, Any],
) -> tuple[RunConfig, Dataset]:
    """The whole config of a run on a file, and its data. None in `training` means: choose."""
    path = str(file.resolve())
    bare = RunConfig(data=path, model=model, drop=drop, recipe=recipe, columns=columns, digest=digest_of(path))
    loaded = load_data(bare)
    given = {key: value for key, value in training.items() if value is not None}
    chosen = {**auto.training_options(len(loaded.train)), "stop_on": "validation", **given}
    if loaded.task != "classification":
        chosen.pop("class_weight", None)
    config = TrainConfig(**chosen)
    channels = recipe.channels(loaded.train.values.shape[1])
    suited = auto.model_options(model, channels, loaded.train.lengths, config.batch)
    return RunConfig(
        data=path,
        model=model,
        drop=drop,
        options={**suited, **options},
        recipe=recipe,
        train=config,
        columns=columns,
        digest=bare.digest,
    ), loaded
