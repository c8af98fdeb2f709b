"""Members of an ensemble: one model several times, each from a seed of its own, trained one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from leapcde.data.series import Series
from leapcde.data.windows import FreshWindows
from leapcde.ensemble.fitted import FittedEnsemble
from leapcde.errors import InputError
from leapcde.models.registry import build
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import Fitted, FittedModel, train_further
from leapcde.training.history import History
from leapcde.training.loop import Trained
from leapcde.training.track.progress import watch_training

MOST = 1000  # members; with more, somebody's number slipped
Start = tuple[FittedModel, TrainConfig]  # from where, and how, a member is trained


def seed_of(seed: Any) -> int:
    """A seed as people give it, as a number: None and generators draw one.

    >>> seed_of(7)
    7
    """
    if isinstance(seed, (int, np.integer)) and seed >= 0:
        return int(seed)  # how large it may be, TrainConfig says
    try:
        return int(check_random_state(seed).randint(2**31 - 1))
    except ValueError as error:
        raise InputError(f"seed: {error}") from None


def member_seeds(seed: int, count: int) -> list[int]:
    """The seed itself, and others made of it: ensembles of neighbouring seeds share no member.

    >>> member_seeds(7, 1), len(set(member_seeds(0, 5) + member_seeds(1, 5)))
    ([7], 10)
    """
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= MOST:
        raise InputError(f"ensemble {str(count)[:20]}: give how many members it has, 1 to {MOST}")
    return [seed, *(int(np.random.SeedSequence([seed, i]).generate_state(1)[0] >> 1) for i in range(1, count))]


def fresh_members(start: FittedModel, config: TrainConfig, count: int) -> list[Start]:
    """A model and its training for each member; they differ in the seed alone."""
    first, *others = member_seeds(config.seed, count)
    again = lambda seed: build(start.name, start.preprocessor.spec, seed=seed, **start.options)
    made = [(replace(start, model=again(seed)), replace(config, seed=seed)) for seed in others]
    return [(start, replace(config, seed=first)), *made]


def known_members(fitted: Fitted, config: TrainConfig, count: int) -> list[Start]:
    """The members that are there already, to be trained further."""
    models = [one for _, one in fitted.leaves() if isinstance(one, FittedModel)]
    seeds = member_seeds(config.seed, count)
    if len(models) != count:
        raise InputError(f"ensemble {count}: {len(models)} members were trained before; only these can be trained further")
    return [(one, replace(config, seed=seed)) for one, seed in zip(models, seeds, strict=True)]


def train_members(
    starts: Sequence[Start],
    series: Series,
    held: Series,
    *,
    checkpoint: Path | None = None,
    on_epoch: Callable[[dict[str, float]], bool] | None = None,
    fresh: FreshWindows | None = None,
    quiet: bool = True,
) -> tuple[Fitted, Trained]:
    """Train every member in its turn, each from its own checkpoint if there is one. An `on_epoch` that answers True ends it."""
    made, ended = [], [False]
    for i, (start, config) in enumerate(starts):
        title = start.name if len(starts) == 1 else f"{start.name} {i + 1}/{len(starts)}"
        with watch_training(title, config.epochs, start.metric, quiet=quiet) as hooks:

            def follow(row: dict[str, float], shown=hooks.on_epoch) -> bool:
                if shown is not None:
                    shown(row)
                ended.append(on_epoch is not None and on_epoch(row))
                return ended[-1]

            told = {"on_step": hooks.on_step, "on_epoch": follow, "fresh": fresh}
            made.append(train_further(start, series, held, config, checkpoint=_checkpoint(checkpoint, i), **told))
        if ended[-1]:
            break
    return _together(made)


def _checkpoint(checkpoint: Path | None, member: int) -> Path | None:
    """Where a member keeps what it goes on from: the first in the file itself, others beside it."""
    if checkpoint is None or member == 0:
        return checkpoint
    return checkpoint.with_name(f"{checkpoint.stem}-{member}{checkpoint.suffix}")


def _together(made: Sequence[tuple[FittedModel, Trained]]) -> tuple[Fitted, Trained]:
    """Trained members as one; their epochs follow each other in the history, with the number of the member."""
    if len(made) == 1:
        return made[0]
    rows: list[dict[str, Any]] = [{**row, "member": i} for i, (_, one) in enumerate(made) for row in one.history.rows]
    why = "; ".join(dict.fromkeys(one.stopped for _, one in made))
    fitted = FittedEnsemble.of([one for one, _ in made])
    return fitted, Trained(made[0][1].model, History(rows), f"{len(made)} members: {why}")
