"""The model that is kept, trained again on all data after its test: as many epochs as were best, the same weights of members.

What was learned from held-out data stays as it was: calibration, intervals, sets of classes, and the numbers of the test. Of
the new model nothing can be measured, because nothing is left that it has not seen.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from leapcde import RACE
from leapcde.baselines.fitted import Baseline, refit_baseline
from leapcde.data.series import Series
from leapcde.ensemble.fitted import FittedEnsemble
from leapcde.errors import LeapWarning
from leapcde.estimators.base import Estimator
from leapcde.estimators.several.members import train_members
from leapcde.estimators.several.race import CANDIDATES
from leapcde.training.fitted import Fitted
from leapcde.training.history import History
from leapcde.training.preprocess import Preprocessor

Rows = list[dict[str, Any]]


def refit(estimator: Estimator, everything: Series, folder: Path | None = None) -> None:
    """Train what an estimator answers with again, on `everything`; with a folder, a killed training goes on from there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeapWarning)  # said when it was trained first
        _ = estimator.path_error_  # of data that the model has not seen yet
        estimator._keep(_again(estimator, everything, folder))


def _again(estimator: Estimator, everything: Series, folder: Path | None) -> Fitted:
    old, rows = estimator.fitted_, estimator.history_
    if estimator.model != RACE:
        return _trained(estimator, everything, rows, old, _file(folder, estimator.model))
    chosen = [row["candidate"] for row in estimator.race_ if row["weight"] > 0]
    members = old.members if len(chosen) > 1 and isinstance(old, FittedEnsemble) else (old,)
    params = {one.name: one.params for one in CANDIDATES}
    recipe, classes = old.preprocessor.recipe, old.preprocessor.classes
    own = Preprocessor.learn(everything, estimator.task, recipe, classes, estimator._ahead(), robust=estimator._robust)
    own, made = estimator._own(own), []
    for name, member in zip(chosen, members, strict=True):
        if isinstance(member, Baseline):
            made.append(refit_baseline(member, everything, own))
            continue
        mine = [row for row in rows if row["candidate"] == name]
        made.append(_trained(copy(estimator).set_params(**params[name]), everything, mine, member, _file(folder, name)))
    if len(made) == 1:
        return made[0]
    assert isinstance(old, FittedEnsemble)
    return replace(old, preprocessor=own, members=tuple(made))


def _trained(estimator: Estimator, everything: Series, rows: Rows, old: Fitted, checkpoint: Path | None) -> Fitted:
    """Every member for as many epochs as were best for it."""
    starts = estimator._start(everything, estimator._config(len(everything)), fresh=True)
    epochs = [_best(rows, i, old.chosen_by) for i in range(len(starts))]
    starts = [(start, replace(own, epochs=n, patience=None)) for (start, own), n in zip(starts, epochs, strict=True)]
    return _carried(train_members(starts, everything, everything, checkpoint=checkpoint)[0], old)


def _best(rows: Rows, member: int, metric: str) -> int:
    return int(History([row for row in rows if row.get("member", 0) == member]).best(metric)["epoch"]) + 1


def _carried(new: Fitted, old: Fitted) -> Fitted:
    """With the calibration that held-out data taught."""
    if isinstance(new, FittedEnsemble) and isinstance(old, FittedEnsemble):
        pairs = zip(new.members, old.members, strict=True)
        new = replace(new, members=tuple(_carried(one, before) for one, before in pairs))
    return new.with_calibration(old.calibration)


def _file(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / "final" / f"{name}.safetensors"
