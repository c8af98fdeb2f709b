"""An answer after each row instead of one a sample (`target_per="row"`): what estimators do differently then."""

from __future__ import annotations

from typing import Any

import numpy as np

from leapcde.data.series import Series, known_targets
from leapcde.errors import InputError
from leapcde.models.registry import MODELS, options_of
from leapcde.training.fitted import Fitted


def row_options(model: str, suited: dict[str, Any]) -> dict[str, Any]:
    """Options for answers after each row, from those that suit the data: nothing may look ahead, and knots are the rows.

    >>> row_options("leap+", {"knots": 32, "hidden": 8})
    {'hidden': 8, 'causal': True}
    """
    kept = {key: value for key, value in suited.items() if key not in ("knots", "steps", "encoder_steps")}
    return kept | ({"causal": True} if model in MODELS and "causal" in options_of(model) else {})


def by_sample(found: np.ndarray, fitted: Fitted, series: Series) -> Any:
    """Answers as an estimator gives them: of rows, a list with an array for each sample."""
    return np.split(found, series.offsets[1:-1]) if fitted.preprocessor.spec.each_row else found


def known_pairs(said: np.ndarray, series: Series) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The targets that there are, what was said of them, and how much each counts."""
    truth, weights = np.asarray(series.target), series.target_weights
    there = known_targets(truth) if series.per_row else np.ones(len(truth), bool)
    return truth[there], said[there], None if weights is None else weights[there]


def known_part(series: Series) -> np.ndarray:
    """The targets that there are."""
    target = np.asarray(series.target)
    return target[known_targets(target)] if series.per_row else target


def check_per(series: Series, per: str) -> None:
    """Targets must be those that were asked for; of rows, some must differ."""
    if series.target_per != per:
        other = "target_per='row'" if series.per_row else "a target for each row, or no target_per"
        raise InputError(f"the data has one target a {series.target_per}, and target_per is {per!r}: give {other}")
    if series.per_row and len(np.unique(known_part(series))) < 2:
        only = known_part(series)[:1].tolist()
        raise InputError(f"the target is {only[0] if only else 'empty'} in every row: there is nothing to learn")


def not_of_rows(per: str, what: str, instead: str) -> None:
    """Some answers are about samples only."""
    if per == "row":
        raise InputError(f"{what} is not for answers after each row (target_per='row'), which resemble each other; {instead}")
