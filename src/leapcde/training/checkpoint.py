"""Checkpoints: where a training stands after an epoch, so that a killed one goes on and ends with the same bits."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from leapcde.errors import CheckpointError, LeapWarning
from leapcde.files import DAMAGE, load_file, restore, save_file
from leapcde.training.config import TrainConfig
from leapcde.training.history import History
from leapcde.training.step import State


def older(path: Path) -> Path:
    """Where the checkpoint before the last one is kept.

    >>> older(Path("training.safetensors")).name
    'training.older.safetensors'
    """
    return path.with_name(f"{path.stem}.older{path.suffix}")


def is_there(path: Path) -> bool:
    """Whether there is a checkpoint, or at least the one before it."""
    return path.exists() or older(path).exists()


def remove(path: Path) -> None:
    """Both checkpoints, the older one first: a kill in between must not leave it as the only one."""
    older(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def save_checkpoint(path: Path, config: TrainConfig, state: State, best, history: History, halvings: int) -> None:
    """Write where training stands: weights, optimiser, the best weights so far, and what happened in every epoch."""
    about = {"config": config.to_json(), "history": history.rows, "halvings": halvings}
    save_file(path, "training", {"state": state, "best": best}, about, older=older(path))


def resume(path: Path, config: TrainConfig, like: State) -> tuple[State, Any, History, int]:
    """What `save_checkpoint` wrote, if it was written with the same settings; of a damaged one, the one before."""
    try:
        return _resume(path, config, like)
    except Damaged as error:
        if not older(path).exists():
            raise CheckpointError(str(error)) from None
    try:
        found = _resume(older(path), config, like)
    except Damaged:
        raise CheckpointError(f"{path} and {older(path)} are both damaged; remove them to train from the start") from None
    what = "is damaged" if path.exists() else "is missing"
    warnings.warn(f"{path} {what}: training goes on from the checkpoint before it", LeapWarning, stacklevel=4)
    return found


class Damaged(CheckpointError):
    """A checkpoint that cannot be read, whatever the settings are."""


def _resume(path: Path, config: TrainConfig, like: State) -> tuple[State, Any, History, int]:
    try:
        arrays, about = load_file(path, "training")
        settings, rows, halvings = dict(about["config"]), list(map(dict, about["history"])), int(about["halvings"])
    except (CheckpointError, *DAMAGE) as error:
        raise Damaged(str(error)) from None
    before, now = ({**c, "epochs": 0} for c in (settings, json.loads(json.dumps(config.to_json()))))
    if before != now or (config.schedule == "cosine" and settings["epochs"] != config.epochs):
        raise CheckpointError(f"{path} was made with other settings; use another run folder, or the same settings")
    state, best = restore("state", like, arrays, path), restore("best", like.params, arrays, path)
    return state, best, History(rows), halvings
