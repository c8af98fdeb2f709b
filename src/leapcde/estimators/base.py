"""What the estimators share: the scikit-learn contract, from data as people have it to a trained `FittedModel`.

An estimator reads data into a `Series`, takes settings from its shape where none are given, and has the one trainer train
them (`training/fitted.py`). What it learned is its `fitted_`. The command line makes an estimator and calls `fit`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from leapcde.baselines.fitted import Baseline
from leapcde.compiled import prepare_to_compute
from leapcde.data.columns import Columns, as_trained, one_or_several
from leapcde.data.inputs import read
from leapcde.data.series import Series, counting
from leapcde.data.split import Divided, hold_out, hold_out_groups
from leapcde.data.windows import FreshWindows
from leapcde.errors import InputError, LeapWarning, meant
from leapcde.estimators.certainty.intervals import Conformal
from leapcde.estimators.rows import by_sample, check_per, row_options
from leapcde.estimators.several.members import Start, fresh_members, known_members, seed_of, train_members
from leapcde.estimators.several.race import needs_name, race
from leapcde.explain import attribution
from leapcde.explain.filling import some_samples
from leapcde.explain.looks import LooksInside
from leapcde.explain.summary import data_sizes, kept_history
from leapcde.models.options import table_of
from leapcde.paths.batch import Recipe
from leapcde.training import defaults as auto
from leapcde.training.config import TrainConfig, plain
from leapcde.training.devices import meet_others
from leapcde.training.fitted import Fitted, new_model
from leapcde.training.history import History
from leapcde.training.loop import Trained
from leapcde.training.preprocess import Preprocessor
from leapcde.training.track.callbacks import Callbacks

if TYPE_CHECKING:
    from leapcde.estimators.stream import Stream

# What a file says about a training, besides the model.
LEARNED = ("history", "n_iter", "stopped", "sizes", "split", "path_error", "race")
AMOUNTS = ("epochs", "batch_size", "learning_rate", "patience")  # parameters that are fields of TrainConfig


class Estimator(LooksInside, BaseEstimator):
    """What the estimators share. Abstract: use LeapClassifier, LeapRegressor, LeapSurvival or LeapForecaster."""

    model: str
    options: dict[str, Any] | None
    interpolation: str
    intensity: bool
    epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    patience: int | None
    training: dict[str, Any] | TrainConfig | None
    validation: float
    id: str | None
    time: str | None
    values: Sequence[str] | None
    static: Sequence[str] | None
    ensemble: int
    time_limit: float
    warm_start: bool
    seed: Any
    verbose: int
    fitted_: Fitted  # what was learned, once trained
    race_: list[dict[str, Any]]  # of model "auto": a row for each candidate
    conformal_: Conformal | None

    def fit(
        self,
        X,
        y=None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        validation: Any = None,
        checkpoint: Path | None = None,
        callbacks: Sequence[Any] = (),
    ):
        """Learn from series and their targets.

        Parameters
        ----------
        X, y
            Series in any form that `leapcde.as_series` takes, a `Series`, or a table (see `id`); one target a sample, or,
            with `target_per="row"`, a list of arrays with one a row.
        sample_weight : array, optional
            How much each sample counts in the loss, in what chooses the weights and in the calibration; all the same if None.
        groups : array, optional
            Samples of one group, such as the visits of a patient, are never both trained on and held out.
        validation : (X, y), (X, y, sample_weight) or Series, optional
            What chooses the weights, instead of a share of the data.
        checkpoint : Path, optional
            A file from which a killed training goes on when `fit` is called again with the same data and settings.
        callbacks : sequence of functions or `Callback` objects, optional
            Called with the row of each finished epoch, and when training starts and ends; see
            `leapcde.training.track.Callback`. An answer of True ends training cleanly.

        Returns
        -------
        self
        """
        prepare_to_compute()
        meet_others()
        series, held, calibration, fresh = self._divided(X, y, validation, sample_weight=sample_weight, groups=groups)
        race(self, series, held, fresh=fresh, checkpoint=checkpoint, callbacks=callbacks)
        self.conformal_ = None if calibration is None else self._calibrate(calibration)
        self._held, self._path_error = some_samples(held), None  # of which `path_error_` is made when it is asked for
        return self

    def partial_fit(self, X, y=None, classes: Sequence[Any] | None = None, sample_weight: Any = None):
        """One more pass over new data from where training stands, with the scaling of the first call.

        `classes` names all classes there will be, in the first call of a classifier. The optimiser starts afresh.
        """
        fresh = not hasattr(self, "fitted_")
        series = counting(self._training_series(X, y, settle=fresh, sample_weight=sample_weight))
        self._check_target(series)
        if fresh:
            self._see_task(series)
        once = replace(self._config(len(series)), epochs=1, schedule="constant", patience=None)
        needs_name(self, "partial_fit")
        starts = self._start(series, once, fresh=fresh, classes=classes)
        self._learn(starts, series, series)
        self._settle(starts[0][1], None)
        return self

    def _divided(self, X, y, validation: Any, *, sample_weight: Any = None, groups: Any = None) -> Divided:
        """What trains, what chooses the weights, and what calibrates intervals."""
        series = counting(self._training_series(X, y, settle=True, sample_weight=sample_weight, groups=groups))
        self._check_target(series)
        self._see_task(series)
        whole = lambda *of, seed: hold_out_groups(*of, by_class=self.task in ("classification", "labels"), seed=seed)
        calibration, part = None, self._hold_out if groups is None else whole
        if self._calibration():
            series, calibration = part(series, self._calibration(), seed=1)
        if validation is None:
            series, held = part(series, self.validation, seed=0)
        else:
            held = self._given(validation, series.categories)
        return Divided(*as_trained(series, held, calibration))

    def _given(self, validation: Any, categories: dict[str, tuple[str, ...]]) -> Series:
        """Validation data as `fit` takes it, with the categories of the training data."""
        given = validation if isinstance(validation, tuple) and len(validation) in (2, 3) else (validation, None)
        weight = given[2] if len(given) == 3 else None
        return counting(self._training_series(*given[:2], sample_weight=weight, categories=categories))

    def _train(self, series: Series, held: Series | None, **hooks: Any) -> np.ndarray | None:
        """Train what `model` names, on series that are read and split; see `_settle` for what is returned."""
        starts = self._start(series, self._config(len(series)), fresh=not (self.warm_start and hasattr(self, "fitted_")))
        self._learn(starts, series, held, **hooks)
        return self._settle(starts[0][1], held)

    def _start(self, series: Series, config: TrainConfig, *, fresh: bool, classes=None) -> list[Start]:
        """The models from which training starts, one for each member, and the settings with the weights of its classes."""
        if not fresh:
            config = self._weighted(config, self.fitted_.preprocessor, series)
            return known_members(self.fitted_, config, self.ensemble)
        recipe = Recipe(self.interpolation, intensity=self.intensity)
        options = self._options(series, recipe, config.batch_size)
        given = tuple(np.asarray([] if classes is None else classes).tolist())
        settings = {"task": self.task, "model": self.model, "options": options, "recipe": recipe, "seed": config.seed}
        start = new_model(series, **settings, classes=given, ahead=self._ahead(), robust=self._robust)
        start = replace(start, preprocessor=self._own(start.preprocessor))
        return fresh_members(start, self._weighted(config, start.preprocessor, series), self.ensemble)

    def _learn(
        self,
        starts: list[Start],
        series: Series,
        held: Series | None,
        *,
        checkpoint: Path | None = None,
        callbacks: Sequence[Any] = (),
        fresh: FreshWindows | None = None,
    ) -> None:
        told, (start, config) = Callbacks(callbacks), starts[0]
        self.sizes_ = data_sizes(series, held)
        if held is None and self.validation:
            message = f"{len(series)} samples are too few to hold any out: weights are chosen on the training data"
            warnings.warn(message, LeapWarning, stacklevel=3)
        held = series if held is None else held
        start.preprocessor.encode_target(np.asarray(held.target))  # what is wrong with it is found before anything starts
        train = config.to_json() | ({} if len(starts) == 1 else {"ensemble": len(starts)})
        told.on_start({"options": start.options, "recipe": start.preprocessor.recipe.to_json(), "train": train})
        if self.verbose:
            auto.tell_cost(start.name, start.model, series.lengths, config)
        more = {"checkpoint": checkpoint, "on_epoch": told.on_epoch, "fresh": fresh, "quiet": not self.verbose}
        with told.told_of_failure():
            self._keep(*train_members(starts, series, held, **more))
        told.on_end({"stopped": self.stopped_, "failed": False, "best": History(self.history_).best(start.metric)})

    def _options(self, series: Series, recipe: Recipe, batch_size: int) -> dict[str, Any]:
        """Options of the model: those given, and others from the data's shape unless `training` says all there is to say."""
        given = table_of(self.options)
        if isinstance(self.training, TrainConfig):
            return {**row_options(self.model, {}), **given} if series.per_row else given
        shape = (recipe.channels(series.values.shape[1]), series.lengths, batch_size)
        about = {"task": self.task, "interpolation": recipe.interpolation, "holes": series.missing}
        suited = auto.model_options(self.model, *shape, **about)
        return {**(row_options(self.model, suited) if series.per_row else suited), **given}

    def _config(self, samples: int) -> TrainConfig:
        mine = {key: value for key in AMOUNTS if (value := getattr(self, key)) is not None}
        mine["seed"] = seed_of(self.seed)
        if isinstance(self.training, TrainConfig):
            return replace(self.training, **mine)
        settings = {**auto.training_options(samples, self.task, self.model), "stop_on": "validation"}
        given = self.training or {}
        for name in set(given) - set(TrainConfig.__dataclass_fields__):
            known = meant(name, TrainConfig.__dataclass_fields__)
            raise InputError(f"training: no setting {name!r}; {known}it takes the fields of leapcde.TrainConfig")
        return TrainConfig(**{**settings, **mine, **given})

    @property
    def _robust(self) -> bool:
        """Whether wild values are kept out of the scale: not where every setting is given, as for the paper's records."""
        return not isinstance(self.training, TrainConfig)

    def _own(self, preprocessor: Preprocessor) -> Preprocessor:
        """What was learned of the training data, with what only the estimator knows."""
        return preprocessor

    def _weighted(self, config: TrainConfig, preprocessor: Preprocessor, series: Series) -> TrainConfig:
        return config

    def _settle(self, config: TrainConfig | None, held: Series | None, said: np.ndarray | None = None) -> np.ndarray | None:
        """What is learned after training (or after a race) from data that was held out; none is where there was too little.
        Returns what a race is to judge by, where that is not what the model now says of this data; `said` is that of one
        candidate that is alone the answer."""

    def _calibrated(self, baseline: Baseline, series: Series, held: Series) -> tuple[Fitted, np.ndarray | None]:
        """A baseline as a candidate of a race, and what it is to be judged by, as `_settle` has it."""
        return baseline, None

    def _keep(self, fitted: Fitted, trained: Trained | None = None) -> None:
        self.fitted_ = fitted
        if trained is not None:
            self.history_, self.n_iter_, self.stopped_ = trained.history.rows, len(trained.history.rows), trained.stopped
        channels = fitted.preprocessor.channels
        self.n_features_in_ = len(channels)
        if any(name != f"x{c}" for c, name in enumerate(channels)):
            self.feature_names_in_ = np.array(channels, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # Reading ------------------------------------------------------------------------------------------------------

    def _columns(self) -> Columns:
        """Which column of a table is what."""
        target, per = one_or_several(getattr(self, "target", None)), "row" if self._per == "row" else None
        return Columns(self.id, self.time, target, tuple(self.values or ()), tuple(self.static or ()), target_per=per)

    @property
    def _per(self) -> str:
        """What has a target of its own: a sample, or a row."""
        return getattr(self, "target_per", "sample")

    def _read(self, X, y=None, *, settle: bool = False, categories: dict | None = None, **more) -> Series:
        """Any form of data. Categories of a table are those given, or that training saw; where `settle`, its own."""
        if categories is None and hasattr(self, "fitted_") and (self.warm_start or not settle):
            categories = self.fitted_.preprocessor.categories
        return read(X, y, columns=replace(self._columns(), categories=categories), target_per=self._per, **more)

    def _training_series(self, X, y, *, settle: bool = False, **more) -> Series:
        """Series with targets. `settle` fixes what the first look at the data decides, such as a forecaster's window."""
        series = self._read(X, y, settle=settle, **more)
        if series.target is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give one entry a sample, "
                "a Series with a target, or the name of a table's column as target="
            )
        check_per(series, self._per)
        return series

    def _new_series(self, X) -> Series:
        """What is predicted from: read and checked against what training saw."""
        check_is_fitted(self, "fitted_")
        prepare_to_compute()
        series = replace(self._read(X, with_target=False), target=None)
        self.fitted_.preprocessor.check(series)
        return series

    @abstractmethod
    def _check_target(self, series: Series) -> None: ...

    def _see_task(self, series: Series) -> None:
        """Take from the targets which task it is, where the estimator has more than one."""

    def _ahead(self) -> tuple[float, ...]:
        """How long after a sample's end each forecast is for; nothing where forecasts follow each other like rows."""
        return ()

    def _hold_out(self, series: Series, share: float, seed: int) -> tuple[Series, Series | None]:
        return hold_out(series, share, by_id=True, seed=seed)

    def _calibration(self) -> float:
        return getattr(self, "calibration", 0.0)

    def _calibrate(self, series: Series) -> Conformal:
        predicted = self.fitted_.predict(series)
        truth = self.fitted_.preprocessor.asked(np.asarray(series.target, float))
        return Conformal.learn(truth.reshape(predicted.shape), predicted, self._rough(series))

    def _rough(self, series: Series) -> np.ndarray | None:
        """How rough what each prediction is made from is, where that says how wide an interval is to be."""
        return None

    # Answering ----------------------------------------------------------------------------------------------------

    def predict(self, X) -> Any:
        """Labels, numbers, risks, or future values (sample, step, channel), in the units of the data.

        With `target_per="row"`, a list: for each sample an array with the answer after each of its rows.
        """
        series = self._new_series(X)  # which checks that there is something fitted
        return by_sample(self.fitted_.predict(series), self.fitted_, series)

    def around(self, predicted: np.ndarray, coverage: float, series: Series) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals around predictions that are there already, of this series."""
        conformal = getattr(self, "conformal_", None)
        if conformal is None:
            raise InputError("no data was held out for intervals: fit again with calibration=0.15, or more")
        return conformal.around(predicted, coverage, self._rough(series))

    def permutation_importance(self, X, y=None, *, repeats: int = 5, seed: Any = 0) -> dict[str, tuple[float, float]]:
        """How much the score falls when a channel's observed values are shuffled: {channel: (mean, deviation)}."""
        check_is_fitted(self, "fitted_")
        series = self._training_series(X, y)
        return attribution.permutation_importance(
            self._score, series, self.fitted_.preprocessor, repeats=repeats, seed=seed_of(seed)
        )

    def stream(self, static: Any = None) -> Stream:
        """Answers while observations arrive: `push(t, x)`, then `predict()` at any moment. Needs a causal model.

        Of the default, that is one fitted with options={"causal": True}; of "leap", with interpolation="hermite".
        A forecaster that cut its own windows keeps the last one instead, and streams with any model.
        """
        from leapcde.estimators.stream import open_stream

        check_is_fitted(self, "fitted_")
        return open_stream(self.fitted_, window=getattr(self, "window_", None), static=static)

    def score(self, X, y=None, sample_weight: Any = None) -> float:
        """Accuracy of a classifier; concordance of risks; R² of a regressor or forecaster. With weights, samples count as much
        as those say."""
        check_is_fitted(self, "fitted_")
        return self._score(self._training_series(X, y, sample_weight=sample_weight))

    @abstractmethod
    def _score(self, series: Series) -> float: ...

    # Keeping ------------------------------------------------------------------------------------------------------

    def save(self, path: Path | str) -> None:
        """Write everything into one safetensors file, which `leapcde.load` reads on any device."""
        check_is_fitted(self, "fitted_")
        params = {key: plain(value) for key, value in self.get_params().items() if key != "verbose"}
        about = {"class": type(self).__name__, "params": params, "window": getattr(self, "window_", None)}
        about["learned"] = self._learned()
        self.fitted_.save(path, about={"estimator": about}, arrays=self._arrays())

    def _arrays(self) -> dict[str, dict[str, np.ndarray]]:
        """What a file holds besides the model."""
        conformal = getattr(self, "conformal_", None)
        return {} if conformal is None else {"conformal": conformal.arrays()}

    def _learned(self) -> dict[str, Any]:
        """Fitted attributes that JSON can hold, by their names without the underscore."""
        found = {name: getattr(self, f"{name}_") for name in LEARNED if hasattr(self, f"{name}_")}
        return {name: kept_history(kept) if name in ("history", "race") else kept for name, kept in found.items()}

    def _restore(self, arrays: dict[str, np.ndarray], learned: dict[str, Any]) -> None:
        """The other way round; older files hold less."""
        for name in set(LEARNED) & set(learned):
            setattr(self, "_path_error" if name == "path_error" else f"{name}_", learned[name])
        errors, usual = (arrays.get(f"conformal/['{name}']") for name in ("errors", "usual"))
        self.conformal_ = None if errors is None else Conformal(errors, usual).checked(self.fitted_.preprocessor)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags
