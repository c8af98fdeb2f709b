"""Model "auto": a race of a few candidates on data that did not train them, within a time limit.

The baselines run first, in seconds; then models, in a fixed order, each if it fits in the time that is left. Which answer,
and with which weights, is decided by the validation data alone (`ensemble/weigh.py`, decision 19), of which each candidate is
asked once: with calibrations of samples other than those asked about (decision 27). With a folder every candidate that is
through lies there, and a killed race goes on where it was.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leapcde import RACE
from leapcde.baselines.fitted import fit_baseline, kinds_of
from leapcde.data.series import Series, known_targets
from leapcde.data.windows import FreshWindows
from leapcde.ensemble.fitted import FittedEnsemble, restore_fitted
from leapcde.ensemble.weigh import losses, of_samples, standard_error, weigh
from leapcde.errors import CheckpointError, InputError, LeapWarning, SolveError, TrainingError
from leapcde.estimators.several.members import member_seeds
from leapcde.explain.summary import data_sizes
from leapcde.files import DAMAGE, json_text, load_file, write_text
from leapcde.paths.batch import Recipe
from leapcde.training.config import plain
from leapcde.training.defaults import told
from leapcde.training.devices import meet_others
from leapcde.training.fitted import Fitted
from leapcde.training.preprocess import Preprocessor
from leapcde.training.track.callbacks import Callbacks
from leapcde.training.track.progress import note

if TYPE_CHECKING:
    from leapcde.estimators.base import Estimator

FEWEST = 5  # epochs that a first model must have time for; with less it is no use
LOOKED_AT = 3  # epochs after which it is known how long all of them take
FOLDER = "race"  # beside the checkpoint


class Candidate(NamedTuple):
    """A model with settings; its name is that of its row and its files."""

    name: str
    params: dict[str, Any]


@dataclass
class Entry:
    """A candidate that is through, or that had no time."""

    name: str
    fitted: Fitted | None
    seconds: float
    history: list[dict[str, float]]
    why: str = ""  # if it did not take part
    said: np.ndarray | None = None  # of the validation data, by which it is judged


class _TooLong(Exception):
    """Raised in an early epoch of a training that will not end in time."""

    def __init__(self, epochs: int, seconds: float):
        self.epochs, self.seconds = epochs, seconds  # how many would fit; how long all would take


CANDIDATES = (Candidate("leap+", {"model": "leap+"}), Candidate("gru-d", {"model": "gru-d"}))  # in the order of their start


def needs_name(estimator: Estimator, what: str) -> None:
    """Some things can only be done to a model that is named."""
    if estimator.model == RACE:
        raise InputError(f"{what} needs a model by its name: model='auto' is a race of several, which starts anew each time")


def race(
    estimator: Estimator,
    series: Series,
    held: Series | None,
    *,
    checkpoint: Path | None = None,
    callbacks: Sequence[Any] = (),
    fresh: FreshWindows | None = None,
) -> None:
    """Train an estimator: the model that it names, or all candidates if it is to be raced for."""
    if estimator.model != RACE:
        estimator._train(series, held, checkpoint=checkpoint, callbacks=callbacks, fresh=fresh)
        return
    _check(estimator, len(series))
    folder = None if checkpoint is None else checkpoint.with_name(FOLDER)
    hooks = Callbacks(callbacks)
    course = Course(estimator, series, held, folder, hooks, fresh)
    hooks.on_start(course.settings())
    with hooks.told_of_failure():
        _decide(estimator, held, course.run())
    estimator.sizes_ = data_sizes(series, held)
    hooks.on_end({"stopped": estimator.stopped_, "failed": False, "best": None})


class Course:
    """One race as it goes."""

    def __init__(
        self,
        estimator: Estimator,
        series: Series,
        held: Series | None,
        folder: Path | None,
        hooks: Callbacks,
        fresh: FreshWindows | None,
    ):
        self.estimator, self.series, self.held, self.folder = estimator, series, held, folder
        self.hooks, self.fresh, self.ended = hooks, fresh, False
        self.used = 0.0  # seconds, those of an earlier start included
        recipe = Recipe(estimator.interpolation, intensity=estimator.intensity)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeapWarning)  # the first model will say it
            found = Preprocessor.learn(series, estimator.task, recipe, (), estimator._ahead(), robust=estimator._robust)
        self.preprocessor = estimator._own(found)
        if held is not None:
            self.preprocessor.encode_target(np.asarray(held.target))

    def settings(self) -> dict[str, Any]:
        """What a folder is bound to."""
        names = [one.name for one in CANDIDATES]
        params = {key: getattr(self.estimator, key) for key in ("epochs", "batch_size", "learning_rate", "ensemble", "seed")}
        training = plain(self.estimator.training) or {}
        train = {"candidates": names, **params, "training": training, "time_limit": self.estimator.time_limit}
        return {"options": {}, "recipe": self.preprocessor.recipe.to_json(), "train": train}

    def run(self) -> list[Entry]:
        """Every candidate in its turn."""
        names = [] if self.held is None else list(kinds_of(self.preprocessor))
        entries = [self._turn(name, lambda name=name: self._baseline(name)) for name in names]
        for i, one in enumerate(CANDIDATES):
            entries.append(self._turn(one.name, lambda one=one, first=i == 0: self._model(one, first)))
        return entries

    @property
    def left(self) -> float:
        return float(self.estimator.time_limit) - self.used

    def _turn(self, name: str, begin: Callable[[], Entry]) -> Entry:
        entry = self._kept(name) or begin()
        self.used += entry.seconds
        self._keep(entry)
        if self.estimator.verbose:
            note(f"{name}: {entry.why or self._how(entry)}; {entry.seconds:.1f} s, {max(self.left, 0):.0f} s are left")
        return entry

    def _how(self, entry: Entry) -> str:
        """How a candidate did, in a few words."""
        if self.held is None or entry.fitted is None:
            return "trained"
        metric = entry.fitted.metric
        return f"validation {metric} {entry.fitted.judge(_said(entry, self.held), self.held)[metric]:.4f}"

    def _baseline(self, name: str) -> Entry:
        began = time.perf_counter()
        assert self.held is not None
        found = fit_baseline(name, self.series, self.held, self.preprocessor)
        fitted, said = self.estimator._calibrated(found, self.series, self.held)
        return Entry(name, fitted, time.perf_counter() - began, [], said=said)

    def _model(self, one: Candidate, first: bool) -> Entry:
        began = time.perf_counter()
        if self.ended:
            return Entry(one.name, None, 0.0, [], "a callback had stopped the race")
        if self.left <= 0 and not first:
            return Entry(one.name, None, 0.0, [], "no time was left")
        epochs = self._epochs(one.name)
        try:
            try:
                made, said = self._train(one, epochs, first)
            except _TooLong as long:
                if not first or long.epochs < FEWEST:
                    why = f"would take about {told(long.seconds)}"
                    return Entry(one.name, None, time.perf_counter() - began, [], why)
                self._shorten(one.name, long.epochs)
                made, said = self._train(one, long.epochs, first)
        except (TrainingError, SolveError) as error:
            return Entry(one.name, None, time.perf_counter() - began, [], str(error))
        return Entry(one.name, made.fitted_, time.perf_counter() - began, made.history_, said=said)

    def _train(self, one: Candidate, epochs: int | None, first: bool) -> tuple[Estimator, np.ndarray | None]:
        made = copy(self.estimator).set_params(**one.params)
        if epochs is not None:
            made.set_params(epochs=epochs)
        clock = None if epochs is not None else _Clock(made, len(self.series), self.left)

        def follow(row: dict[str, float]) -> bool:
            if clock is not None:
                clock(row)
            self.ended = self.hooks.on_epoch(row)
            return self.ended

        with warnings.catch_warnings():
            if not first:
                warnings.simplefilter("ignore", LeapWarning)  # said by the first
            file = self._file(one.name, "training.safetensors")
            said = made._train(self.series, self.held, checkpoint=file, callbacks=[follow], fresh=self.fresh)
        return made, said

    # What lies in the folder ----------------------------------------------------------------------------------------

    def _file(self, name: str, ending: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{name}.{ending}"

    def _epochs(self, name: str) -> int | None:
        """How many epochs a candidate was cut to before a kill."""
        file = self._file(name, "epochs.json")
        if file is None or not file.exists():
            return None
        try:
            return int(json.loads(file.read_text(encoding="utf-8")))
        except DAMAGE as error:
            raise CheckpointError(f"{file} is damaged ({error}); remove {file.parent} to race again") from None

    def _shorten(self, name: str, epochs: int) -> None:
        if self.folder is None:
            return
        for old in self.folder.glob(f"{name}.training*.safetensors"):
            old.unlink()
        write_text(self.folder / f"{name}.epochs.json", str(epochs))

    def _kept(self, name: str) -> Entry | None:
        """A candidate that was through before a kill."""
        file = self._file(name, "json")
        if file is None or not file.exists():
            return None
        try:
            about = json.loads(file.read_text(encoding="utf-8"))
            why, seconds, history = str(about["why"]), float(about["seconds"]), list(map(dict, about["history"]))
            model = self._file(name, "safetensors")
            if why or model is None:
                return Entry(name, None, seconds, history, why)
            arrays, header = load_file(model, "model")
            fitted, said = restore_fitted(model, arrays, header), arrays.get("said/['outputs']")
        except (OSError, *DAMAGE) as error:  # a CheckpointError is a ValueError
            warnings.warn(f"{file} or its model is damaged, so {name} runs again ({error})", LeapWarning, stacklevel=2)
            file.unlink()
            return None
        return Entry(name, fitted, seconds, history, said=said)

    def _keep(self, entry: Entry) -> None:
        file, model = self._file(entry.name, "json"), self._file(entry.name, "safetensors")
        if file is None or file.exists():
            return
        if entry.fitted is not None and model is not None:
            entry.fitted.save(model, arrays={} if self.held is None else {"said": {"outputs": _said(entry, self.held)}})
        write_text(file, json_text({"seconds": entry.seconds, "history": entry.history, "why": entry.why}))


class _Clock:
    """Looks at the first epochs of a candidate, and stops one that will not end in time."""

    def __init__(self, estimator: Estimator, samples: int, left: float):
        self.began, self.left = time.perf_counter(), left
        self.all, self.fastest = estimator._config(samples).epochs * estimator.ensemble, np.inf

    def __call__(self, row: dict[str, float]) -> None:
        self.fastest = min(self.fastest, _seconds(row))  # others compile as they go
        if row["epoch"] != LOOKED_AT - 1:
            return
        spent, each = time.perf_counter() - self.began, self.fastest
        seconds = spent + (self.all - LOOKED_AT) * each
        if seconds > self.left:
            raise _TooLong(int((self.left - spent) / each), seconds)


def _seconds(row: dict[str, float]) -> float:
    """How long an epoch took; never nothing."""
    return max(row["seconds"], 1e-9)


def _said(entry: Entry, held: Series) -> np.ndarray:
    """What a candidate says of the validation data; it is asked once."""
    if entry.said is None:
        assert entry.fitted is not None
        entry.said = entry.fitted.outputs(held)
    return entry.said


def _decide(estimator: Estimator, held: Series | None, entries: list[Entry]) -> None:
    """The answer, from what every candidate says of the validation data; and the table of the race."""
    through = {entry.name: entry for entry in entries if entry.fitted is not None}
    if not through:
        problems = [f"{entry.name}: {entry.why}" for entry in entries]
        raise TrainingError("no candidate of the race came through; give more time_limit=, or a model by name", problems)
    weights = {next(iter(through)): 1.0}
    judged: dict[str, dict[str, float]] = {}
    if held is not None:
        weights, judged = _judge(through, held)
    chosen = {name: weight for name, weight in weights.items() if weight > 0}
    members = [fitted for name in chosen if (fitted := through[name].fitted) is not None]
    estimator._keep(members[0] if len(members) == 1 else FittedEnsemble.of(members, list(chosen.values())))
    estimator.history_ = [{**row, "candidate": entry.name} for entry in entries for row in entry.history]
    estimator.n_iter_, estimator.stopped_ = len(estimator.history_), f"{len(through)} candidates raced"
    rows = [_row(entry, judged.get(entry.name, {}), weights.get(entry.name, 0.0)) for entry in entries]
    estimator.race_ = rows
    alone = None if len(members) > 1 else through[next(iter(chosen))].said
    estimator._settle(None, held, alone)


def _judge(through: dict[str, Entry], held: Series) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The weight of every candidate, and how it did."""
    one = next(iter(through.values())).fitted
    assert one is not None
    task, (_, target, weights) = one.preprocessor.task, one.preprocessor.known(np.asarray(held.target), held)
    outputs = {name: _said(entry, held) for name, entry in through.items()}
    owner = held.owner[known_targets(np.asarray(held.target))] if held.per_row else None
    said = {name: one.preprocessor.known(rows, held)[0] for name, rows in outputs.items()}
    wrong = {name: of_samples(losses(task, rows, target), owner) for name, rows in said.items()}
    judged = {
        name: {
            one.metric: one.judge(rows, held)[one.metric],
            "loss": float(wrong[name].mean()),
            "standard error": standard_error(task, wrong[name]),
        }
        for name, rows in outputs.items()
    }
    found = weigh(task, list(said.values()), target, weights, owner)
    return dict(zip(outputs, found.tolist(), strict=True)), judged


def _row(entry: Entry, judged: dict[str, float], weight: float) -> dict[str, Any]:
    return {"candidate": entry.name, **judged, "seconds": entry.seconds, "weight": weight, "why": entry.why}


def race_csv(rows: list[dict[str, Any]]) -> str:
    """The table of a race as text."""
    import pandas as pd

    return pd.DataFrame(rows).to_csv(index=False)


def _check(estimator: Estimator, samples: int) -> None:
    """Mistakes are told before anything is trained or written."""
    if estimator.options:
        raise InputError("options belong to a model: name it with model=, or leave them out for a race")
    if estimator.warm_start:
        needs_name(estimator, "warm_start")
    if meet_others() > 1:  # each has its own clock, and would leave out other candidates
        needs_name(estimator, "a training of several processes")
    limit = estimator.time_limit
    if isinstance(limit, bool) or not isinstance(limit, (int, float, np.number)) or not limit > 0:
        raise InputError(f"time_limit {estimator.time_limit}: give seconds, more than 0")
    for one in CANDIDATES:
        member_seeds(copy(estimator).set_params(**one.params)._config(samples).seed, estimator.ensemble)
