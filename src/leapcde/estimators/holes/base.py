"""What LeapImputer and LeapDetector share: the path of LEAP+ learned without labels, and how far off it is.

Training hides observations and asks for them; nothing else is learned (the task's loss is nothing, L_Y is all). On samples
that are held out, the learned path and four interpolations are asked for what was hidden there. Channel by channel, the
best is used; and what the path says of its own spread is stretched until it holds for 68 % of what was hidden.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from leapcde.data.columns import Columns
from leapcde.data.inputs import read
from leapcde.data.series import Series
from leapcde.data.split import hold_out
from leapcde.errors import InputError, LeapWarning
from leapcde.estimators.base import plain
from leapcde.estimators.holes.asked import NAMES, TASK, Asked, learned, path_of, questions
from leapcde.estimators.several.members import seed_of
from leapcde.explain.hidden import CLASSICAL, LEARNED
from leapcde.models.registry import build
from leapcde.paths.batch import Recipe
from leapcde.training import defaults as auto
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel
from leapcde.training.loop import Trained, fit
from leapcde.training.preprocess import Preprocessor
from leapcde.training.track.progress import watch_training

MODEL = "leap+"  # whose path it is
WITHIN = 0.68  # of hidden observations lie so near: a spread, as the deviation of a normal distribution
CHOSEN, NEAREST = "chosen", "straight line"  # a straight line has its nearest value beyond its ends
FEW = 20  # hidden observations of a channel from which it has a spread of its own
CLEARLY = 0.9  # times the error of the learned path, below which another one is better
PARTLY = 0.01  # share of rows that are seen in part, from which holes are single observations
SINGLE = {"hide": 0.2, "hide_values": 0.4}  # what training hides where they are


class PathEstimator(BaseEstimator):
    """Learns a path from series without labels. Abstract: use LeapImputer or LeapDetector."""

    options: dict[str, Any] | None
    interpolation: str | None
    epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    training: dict[str, Any] | TrainConfig | None
    validation: float
    id: str | None
    time: str | None
    values: Sequence[str] | None
    seed: Any
    verbose: int
    fitted_: FittedModel  # what was learned, once trained
    errors_: dict[str, float]  # mean squared error at hidden observations, standardised
    channel_errors_: dict[str, np.ndarray]  # the same, channel by channel
    chosen_: dict[str, str]  # which path fills each channel
    stretch_: np.ndarray  # of each channel's spread
    ends_: dict[str, np.ndarray]  # before a channel's first observation and after its last: what is held, how far off it is

    def _learn(self, series: Series) -> Series:
        """Train, choose for each channel, measure; returns the series that were held out."""
        what = kind_of_holes(series)
        train, held = hold_out(series, self.validation, by_id=True, seed=0)
        if held is None and self.validation:
            message = f"{len(series)} samples are too few to hold any out: all is chosen on the training data"
            warnings.warn(message, LeapWarning, stacklevel=4)
        held = train if held is None else held
        self._keep(*self._trained(train, held, what))
        self._choose(Asked.of(self.fitted_.preprocessor, held, what=what, seed=0))
        self._choose_ends(Asked.of(self.fitted_.preprocessor, held, what="ends", seed=0))
        self._measure(Asked.of(self.fitted_.preprocessor, held, what=what, seed=1))
        return held

    def _trained(self, train: Series, held: Series, what: str) -> tuple[FittedModel, Trained]:
        blank = replace(train, target=np.zeros(len(train)))  # the trainer wants targets; no loss looks at them
        config, preprocessor = (
            self._config(len(train), what),
            Preprocessor.learn(blank, TASK, Recipe(self._interpolation(train))),
        )
        asked = Asked.of(preprocessor, held, what=what, seed=0)
        shape = (preprocessor.spec.channels, train.lengths, config.batch_size)
        suited = auto.model_options(MODEL, *shape, task=TASK, interpolation=preprocessor.recipe.interpolation)
        options = {**suited, **(self.options or {})}
        model = build(MODEL, preprocessor.spec, seed=config.seed, **options)
        start = FittedModel(preprocessor, model, MODEL, options)
        with watch_training("path", config.epochs, "val_loss", quiet=not self.verbose) as hooks:
            how = {"metric": "val_loss", "validate": asked.loss, **hooks._asdict()}
            trained = fit(model, TASK, start.encode(blank), [], config, **how)
        return replace(start, model=trained.model), trained

    def _interpolation(self, train: Series) -> str:
        """The one that is asked for, or the better one at what is hidden of the training data."""
        if self.interpolation is not None:
            return self.interpolation
        some = train.take(np.arange(min(len(train), 500)))
        preprocessor = Preprocessor.learn(replace(some, target=np.zeros(len(some))), TASK, Recipe("linear"))
        asked = Asked.of(preprocessor, some, what=kind_of_holes(some), seed=0)
        error = {name: np.nanmean(asked.errors(path_of(None, name, asked.data, asked.times))) for name in CLASSICAL}
        return "natural" if error["natural cubic"] < error["straight line"] else "linear"

    def _config(self, samples: int, what: str) -> TrainConfig:
        mine = {key: value for key in ("epochs", "batch_size", "learning_rate") if (value := getattr(self, key)) is not None}
        mine["seed"] = seed_of(self.seed)
        if isinstance(self.training, TrainConfig):
            return replace(self.training, **mine)
        settings = {**auto.training_options(samples, TASK, MODEL), "stop_on": "validation"}
        settings |= SINGLE if what == "values" else {}
        try:
            return TrainConfig(**{**settings, **mine, **(self.training or {})})
        except TypeError as error:
            raise InputError(f"training: {error}; it takes the fields of leapcde.TrainConfig") from None

    def _keep(self, fitted: FittedModel, trained: Trained | None = None) -> None:
        self.fitted_ = fitted
        if trained is not None:
            self.history_, self.n_iter_, self.stopped_ = trained.history.rows, len(trained.history.rows), trained.stopped
        self.n_features_in_ = len(fitted.preprocessor.channels)

    def _choose(self, asked: Asked) -> None:
        """The best path of each channel, and how its spread is stretched.

        The learned one is left only for one that is clearly better: differences on so few samples are mostly chance.
        """
        error = self._errors(asked)
        error = {**error, LEARNED: CLEARLY * error[LEARNED]}
        best = np.argmin([np.nan_to_num(error[name], nan=np.inf) for name in NAMES], axis=0)
        self.chosen_ = dict(zip(self.fitted_.preprocessor.channels, [NAMES[i] for i in best], strict=True))
        self.stretch_ = np.ones(len(best))
        self.ends_ = {"held": np.zeros(len(best)), "spread": np.zeros(len(best))}
        Y, s = self._read(asked.data, asked.times)
        self.stretch_ = _usual(np.abs(Y - asked.truth) / s)

    def _choose_ends(self, asked: Asked) -> None:
        """The same where a path has observations on one side only, and its own spread knows little."""
        Y, _ = self._read(asked.data, asked.times)
        line = path_of(None, NEAREST, asked.data, asked.times)
        held = asked.errors(line) < asked.errors(Y)
        self.ends_ = {"held": held.astype(float), "spread": _usual(np.abs(np.where(held, line, Y) - asked.truth))}

    def _measure(self, asked: Asked) -> None:
        self.channel_errors_ = self._errors(asked)
        self.channel_errors_[CHOSEN] = asked.errors(self._read(asked.data, asked.times)[0])
        count = (~np.isnan(asked.truth)).sum((0, 1))
        mean = lambda error: float(np.nansum(error * count) / max(count.sum(), 1))
        self.errors_ = {name: mean(error) for name, error in self.channel_errors_.items()}

    def _errors(self, asked: Asked) -> dict[str, np.ndarray]:
        return {name: asked.errors(path_of(self.fitted_.model, name, asked.data, asked.times)) for name in NAMES}

    def _read(self, data: list, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The path that was chosen for each channel and its spread, at the times asked; all standardised."""
        Y, log_s, beyond = learned(self.fitted_.model, data, times)
        chosen = np.array(list(self.chosen_.values()))
        for name in set(chosen) - {LEARNED}:
            Y[..., chosen == name] = path_of(self.fitted_.model, name, data, times)[..., chosen == name]
        spread, outside, held = np.exp(log_s.astype(np.float64)) * self.stretch_, beyond > 0, self.ends_["held"] > 0
        if (outside & held).any():
            Y = np.where(outside & held, path_of(None, NEAREST, data, times), Y)
        far = self.ends_["spread"] * np.sqrt(np.clip(beyond, 1.0, 1e9))  # as of a random walk, up to the channel's deviation
        far = np.minimum(far, np.maximum(self.ends_["spread"], 1.0))
        return Y, np.where(outside, np.maximum(spread, far), spread)

    def _path(self, series: Series, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Path and spread at (sample, query) times, in the units of the data."""
        scaler = self.fitted_.preprocessor.scaler
        Y, spread = self._read(*questions(self.fitted_.preprocessor, series, times))
        return scaler.unscale(Y), spread * np.array(scaler.std)

    def _series(self, X: Any) -> Series:
        return replace(read(X, columns=self._columns(), with_target=False), target=None, static=None)

    def _new_series(self, X: Any) -> Series:
        """What is asked about: read and checked against what training saw."""
        check_is_fitted(self, "fitted_")
        series = self._series(X)
        self.fitted_.preprocessor.check(series)
        return series

    def _columns(self) -> Columns:
        return Columns(self.id, self.time, None, tuple(self.values or ()))

    def save(self, path: Path | str) -> None:
        """Write everything into one safetensors file, which `leapcde.load` reads on any device."""
        check_is_fitted(self, "fitted_")
        params = {key: plain(value) for key, value in self.get_params().items() if key != "verbose"}
        about = {"class": type(self).__name__, "params": params, "errors": self.errors_, "chosen": self.chosen_}
        self.fitted_.save(path, about={"estimator": about}, arrays={"path": self._arrays()})

    def _arrays(self) -> dict[str, np.ndarray]:
        ends = {f"ends {name}": array for name, array in self.ends_.items()}
        return {"stretch": self.stretch_, **ends, **{f"error {name}": error for name, error in self.channel_errors_.items()}}

    def restore(self, fitted: FittedModel, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
        """What `save` wrote besides the parameters; `leapcde.load` calls it."""
        self._keep(fitted)
        self.errors_, self.chosen_ = about["errors"], about["chosen"]
        self.stretch_ = arrays["path/['stretch']"]
        self.ends_ = {name: arrays[f"path/['ends {name}']"] for name in ("held", "spread")}
        self.channel_errors_ = {name: arrays[f"path/['error {name}']"] for name in self.errors_}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = False
        return tags


def kind_of_holes(series: Series) -> str:
    """Whether single "values" are missing, or whole "rows"; what training hides is like what is missing.

    >>> from leapcde.data.read import as_series
    >>> kind_of_holes(as_series([[[1.0, 2.0], [3.0, float("nan")]]]))
    'values'
    """
    there = ~np.isnan(series.values)
    return "values" if np.mean(there.any(1) & ~there.all(1)) > PARTLY else "rows"


def _usual(off: np.ndarray) -> np.ndarray:
    """For each channel, how far off 68 % are at most; of channels with few that are known, of all together."""
    known = [part[~np.isnan(part)] for part in np.moveaxis(off, -1, 0)]
    together = np.concatenate(known)
    if not len(together):
        return np.ones(len(known))
    own = [np.quantile(part if len(part) >= FEW else together, WITHIN) for part in known]
    return np.maximum(np.array(own, np.float64), 1e-6)
