"""Checkpoints: where a training stands after an epoch, so that a killed one goes on and ends with the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leapcde.errors import CheckpointError
from leapcde.files import load_file, restore, save_file
from leapcde.training.config import TrainConfig
from leapcde.training.history import History
from leapcde.training.step import State


def save_checkpoint(path: Path, config: TrainConfig, state: State, best, history: History, halvings: int) -> None:
    """Write where training stands: weights, optimiser, the best weights so far, and what happened in every epoch."""
    about = {"config": config.to_json(), "history": history.rows, "halvings": halvings}
    save_file(path, "training", {"state": state, "best": best}, about)


def resume(path: Path, config: TrainConfig, like: State) -> tuple[State, Any, History, int]:
    """What `save_checkpoint` wrote, if it was written with the same settings."""
    arrays, about = load_file(path, "training")
    before, now = ({**c, "epochs": 0} for c in (about["config"], json.loads(json.dumps(config.to_json()))))
    if before != now or (config.schedule == "cosine" and about["config"]["epochs"] != config.epochs):
        raise CheckpointError(f"{path} was made with other settings; use another run folder, or the same settings")
    state, best = restore("state", like, arrays, path), restore("best", like.params, arrays, path)
    return state, best, History(about["history"]), about["halvings"]
