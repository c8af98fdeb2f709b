"""Raw series and targets -> what a model eats, and its answers back into the units of the data. Learned from training data."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from leapcde.data.batch import WASTE
from leapcde.data.drop import without_empty_rows
from leapcde.data.scale import Scaler
from leapcde.data.series import Series, known_targets
from leapcde.errors import InputError, LeapWarning, Problems
from leapcde.models.base import Spec
from leapcde.paths.batch import Recipe
from leapcde.paths.ragged import Bucket, make_buckets
from leapcde.training.events.bins import Bins, risk
from leapcde.training.metrics import sigmoid, softmax

FEW = 10  # training samples, of which a class may be missing for no other reason
STRANGE = 1e4  # deviations from the training mean that deserve a warning
FAR = 2.0  # a sample that lasts so many times longer than the longest of training deserves a warning


@dataclass(frozen=True)
class Preprocessor:
    """How raw series and targets become arrays and back. Learned from training data, shared by all models of a run."""

    spec: Spec  # the task, how X is made, and all shapes
    scaler: Scaler
    channels: tuple[str, ...]
    classes: tuple[Any, ...] = ()
    target_mean: float | tuple[float, ...] = 0.0  # regression only; of each target where there are several
    target_std: float | tuple[float, ...] = 1.0
    targets: tuple[int, ...] = ()  # channels that are forecast, all if none are named; the others' future trains nothing
    target_names: tuple[str, ...] = ()  # names of several targets
    static_names: tuple[str, ...] = ()
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of columns of text; see `Series`
    bins: Bins | None = None  # of the time to an event

    @property
    def task(self) -> str:
        return self.spec.task

    @property
    def forecast(self) -> tuple[str, ...]:
        """Names of the channels that are forecast."""
        return tuple(self.channels[c] for c in self.targets) or self.channels

    def asked(self, values: np.ndarray) -> np.ndarray:
        """Of (sample, step, channel), the channels that are forecast; anything else as it is."""
        return values[:, :, list(self.targets)] if self.targets else values

    @property
    def recipe(self) -> Recipe:
        return self.spec.recipe

    @classmethod
    def learn(
        cls,
        train: Series,
        task: str,
        recipe: Recipe,
        classes: tuple[Any, ...] = (),
        ahead: tuple[float, ...] = (),
        *,
        robust: bool = False,
    ) -> Preprocessor:
        """Look at the training data, and only at it. `classes` names those that this part of the data may not show.

        `ahead` says how long after a sample's end each forecast is for; without it, they follow each other like rows.
        `robust` keeps a few wild values from setting the scale of their channel.
        """
        scaler = Scaler.fit(train, robust=robust)
        if train.target is None:
            raise InputError("training needs targets: labels, numbers, or windows to forecast")
        values = train.values.shape[1]
        mean, std, names, bins = 0.0, 1.0, (), None
        output: tuple[int, ...] = (1,)
        target = train.target[known_targets(train.target)] if train.per_row else train.target
        if task == "classification":
            whole = train.per_row and target.dtype.kind == "f" and bool(np.all(target == np.round(target)))
            target = target.astype(int) if whole else target  # where some rows have none, whole numbers came as others
            classes = tuple(np.unique([*target.tolist(), *classes]).tolist())
            if len(classes) < 2:
                few = f"too few samples: {len(train)} for training, and " if len(train) < FEW else ""
                only = f"every training {train.target_per} has the class {np.unique(target)[0]}"
                raise InputError(f"{few}{only}: one class; give at least two classes")
            output = (len(classes),)
        elif task == "labels":
            names = train.target_names or tuple(f"y{j}" for j in range(np.asarray(train.target).shape[1]))
            _check_both(check_truths(train.target), names)
            output = (len(names),)
        elif task == "forecasting":
            output = tuple(target.shape[1:])
        elif task == "survival":
            bins = Bins.learn(np.asarray(target, float), train.weights)
            output = (len(bins),)
        else:
            mean, std = _number_scale(target)
            if isinstance(mean, tuple):
                output, names = (len(mean),), train.target_names or tuple(f"y{j}" for j in range(len(mean)))
        ends, starts = train.times[train.offsets[1:] - 1], train.times[train.offsets[:-1]]
        spec = Spec(
            task=task,
            values=values,
            channels=recipe.channels(values),
            output=output,
            static=0 if train.static is None else train.static.shape[1],
            span=float(np.max(ends - starts) / scaler.time_unit) or 1.0,
            recipe=recipe,
            ahead=tuple(float(x) / scaler.time_unit for x in ahead),
            each_row=train.per_row,
        )
        warn_unseen(train)
        kept = {"target_names": names, "static_names": train.static_names, "categories": train.categories, "bins": bins}
        return cls(spec, scaler, train.channels, classes, mean, std, **kept)

    def encode(self, series: Series, *, round_to: int = 1, waste: float = WASTE) -> list[Bucket]:
        """Ready to be scaled, padded and given paths; targets as the loss wants them."""
        self.check(series)
        if series.target is not None:
            series = replace(series, target=self.encode_target(series.target))
        tight = self.spec.each_row  # others keep the groups that their records were made with
        return make_buckets(series, self.recipe, scaled=self.scaled, round_to=round_to, waste=waste, tight=tight)

    def scaled(self, series: Series) -> Series:
        """Standardised, without rows on which nothing was observed: but where each row has its answer, those are asked for."""
        return self.scaler.apply(series if self.spec.each_row else without_empty_rows(series))

    def encode_target(self, target: np.ndarray) -> np.ndarray:
        """As the loss wants them; -1 or NaN for rows that have none."""
        if not self.spec.each_row:
            return self._encoded(target)
        there = known_targets(target)
        some = self._encoded(target[there])
        found = np.full((len(target), *some.shape[1:]), -1 if some.dtype.kind == "i" else np.nan, some.dtype)
        found[there] = some
        return found

    def known(self, outputs: np.ndarray, series: Series) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """What was said of the targets that there are, these targets as the loss wants them, and how much each counts."""
        target, weights = self.encode_target(np.asarray(series.target)), series.target_weights
        if not self.spec.each_row:
            return outputs, target, weights
        there = known_targets(np.asarray(series.target))
        return outputs[there], target[there], None if weights is None else weights[there]

    def _encoded(self, target: np.ndarray) -> np.ndarray:
        if self.task == "classification":
            check_labels(target, self.classes)
            known = {label: i for i, label in enumerate(self.classes)}
            return np.array([known[v] for v in target.tolist()], np.int32)
        if self.task == "forecasting":
            return self.scaler.scale(target)
        if self.task == "labels":
            return check_truths(target, len(self.target_names)).astype(np.float32)
        if self.bins is not None:
            return self.bins.encode(np.asarray(target, float))
        numbers = np.asarray(target, float).reshape(len(target), -1)
        if numbers.shape[1:] != self.spec.output:
            raise InputError(f"y has {numbers.shape[1]} numbers a sample; training saw {self.spec.output[0]}")
        return ((numbers - np.array(self.target_mean)) / np.array(self.target_std)).astype(np.float32)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        """Raw predictions as people want them: labels, numbers, risks, or future values in their own units."""
        if self.task == "classification":
            return np.array(self.classes)[raw.argmax(-1)]
        if self.task == "labels":
            return (raw > 0).astype(int)
        if self.task == "forecasting":
            return self.asked(self.scaler.unscale(raw))
        if self.bins is not None:
            return risk(raw)
        found = raw.astype(float) * np.array(self.target_std) + np.array(self.target_mean)
        return found if self.target_names else found[:, 0]

    def probability(self, raw: np.ndarray) -> np.ndarray:
        """Raw predictions as probabilities of classes or labels."""
        if self.task not in ("classification", "labels"):
            raise InputError(f"probabilities exist for classification only; this model does {self.task}")
        return (sigmoid if self.task == "labels" else softmax)(raw.astype(np.float64))

    def check(self, series: Series) -> None:
        """The series must have the channels and statics that training saw."""
        if series.values.shape[1] != len(self.channels):
            raise InputError(
                f"the series has {series.values.shape[1]} channels ({', '.join(series.channels)}), "
                f"the model was trained on {len(self.channels)} ({', '.join(self.channels)})"
            )
        unnamed = all(name == f"x{c}" for c, name in enumerate(series.channels))
        if series.channels != self.channels and not unnamed:
            raise InputError(
                f"the channels are {', '.join(series.channels)}; training saw {', '.join(self.channels)}, in this order"
            )
        if series.target is not None and series.per_row != self.spec.each_row:
            trained = "row" if self.spec.each_row else "sample"
            raise InputError(f"the series has a target per {series.target_per}, the model was trained on one per {trained}")
        static = 0 if series.static is None else series.static.shape[1]
        if static != self.spec.static:
            raise InputError(f"the series has {static} static features, the model was trained on {self.spec.static}")

    def to_json(self) -> dict[str, Any]:
        names = ("channels", "classes", "target_mean", "target_std", *(["targets"] if self.targets else []))
        names += ("target_names", "static_names", "categories")
        own = {key: getattr(self, key) for key in names}
        own |= {} if self.bins is None else {"bins": self.bins.to_json()}
        return {**own, "scaler": self.scaler.to_json(), "spec": self.spec.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Preprocessor:
        """What `to_json` wrote; parts that do not belong together are refused."""
        parts: dict[str, Any] = {"scaler": Scaler.from_json(data["scaler"]), "spec": Spec.from_json(data["spec"])}
        parts["bins"] = Bins.from_json(data["bins"]) if data.get("bins") else None
        lists: dict[str, Any] = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
        lists["categories"] = {name: tuple(kinds) for name, kinds in data.get("categories", {}).items()}
        found = cls(**{**data, **parts, **lists})
        spec, scaler = found.spec, found.scaler
        fits = len(found.channels) == len(scaler.mean) == spec.values and len(scaler.static_mean) == spec.static
        classes = (len(set(found.classes)),) == (len(found.classes),) == spec.output
        fits &= classes if spec.task == "classification" else not found.classes
        fits &= spec.task != "labels" or (len(found.target_names),) == spec.output
        fits &= (found.bins is not None) == (spec.task == "survival")
        fits &= found.bins is None or spec.output == (len(found.bins),)
        scales = np.array(found.target_std, float)
        fits &= bool(np.isfinite(np.array(found.target_mean, float)).all() and ((scales > 0) & (scales < np.inf)).all())
        if not fits:
            raise InputError("channels, classes, scales and shapes do not belong together")
        return found


def check_labels(target: np.ndarray, classes: Collection[Any]) -> None:
    """Labels that training does not see cannot be predicted or judged.

    >>> check_labels(np.array(["a"]), ["a", "b"])
    """
    unknown = sorted({str(v) for v in target.tolist() if v not in classes})
    if unknown:
        raise InputError(
            f"labels that training did not see: {', '.join(unknown)} (too few samples? merge or remove them); "
            f"known: {', '.join(map(str, classes))}"
        )


def check_truths(target: Any, labels: int | None = None) -> np.ndarray:
    """Labels as rows of 0 and 1; anything else is told.

    >>> check_truths(np.array([[True, False]])).tolist()
    [[1.0, 0.0]]
    """
    try:
        found = np.asarray(target).astype(float)
    except ValueError:
        raise InputError("labels are 0 or 1 (or true and false) for each sample, not text") from None
    if found.ndim != 2 or (labels is not None and found.shape[1] != labels):
        raise InputError(f"y has shape {found.shape}; labels are (sample, label)" + (f", here {labels}" if labels else ""))
    wrong = ~np.isin(found, (0.0, 1.0))
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise InputError(f"label {j} of sample {i} is {found[i, j]:g}; labels are 0 or 1 for each sample")
    return found


def _check_both(labels: np.ndarray, names: tuple[str, ...]) -> None:
    problems = Problems()
    for name, column in zip(names, labels.T, strict=True):
        if (column == column[0]).all():
            problems.add(f"{name} is {column[0]:g} in every training sample; leave it out, or give samples of both kinds")
    problems.raise_if_any("labels that cannot be learned")


def _number_scale(target: np.ndarray) -> tuple[Any, Any]:
    """Mean and deviation; of each target where there are several."""
    try:
        numbers = np.asarray(target, float)
    except ValueError:
        raise InputError(
            f"regression needs numbers as targets, not text such as '{target[0]}'; use task classification"
        ) from None
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers).reshape(len(numbers), -1).all(1)))
        raise InputError(f"target {row} is not finite; every training sample needs a target")
    if numbers.ndim == 1:
        return float(numbers.mean()), float(numbers.std()) or 1.0
    std = numbers.std(0)
    return tuple(map(float, numbers.mean(0))), tuple(map(float, np.where(std > 0, std, 1.0)))


def warn_far(series: Series, preprocessor: Preprocessor) -> None:
    """A model knows nothing of times and values far beyond those it was trained on; often the unit is another one."""
    mean, std = np.array(preprocessor.scaler.mean), np.array(preprocessor.scaler.std)
    away = lambda part: np.max(np.nan_to_num(np.abs((part.values - mean) / std), posinf=np.inf), axis=0, initial=0.0)
    most = np.max([away(part) for part in series.blocks()], axis=0, initial=0.0)
    if most.max() > STRANGE:
        channel = f"channel {preprocessor.channels[int(most.argmax())]!r}"
        channel += f" is {most.max():.3g} deviations away from the training mean. "
        warnings.warn(channel + "Is the unit the same? Predictions are a guess there", LeapWarning, stacklevel=4)
    duration = series.times[series.offsets[1:] - 1] - series.times[series.offsets[:-1]]
    seen = preprocessor.spec.span * preprocessor.scaler.time_unit
    far = duration > FAR * seen
    if far.any():
        message = f"{int(far.sum())} of {len(series)} samples last up to {duration.max():g}; training saw at most {seen:g}. "
        warnings.warn(message + "Is the unit of time the same? Predictions are a guess there", LeapWarning, stacklevel=4)


def check_finite(raw: np.ndarray, series: Series, preprocessor: Preprocessor) -> None:
    bad = np.flatnonzero(~np.isfinite(raw).reshape(len(raw), -1).all(1))
    if not len(bad):
        return
    problems = []
    for i in np.unique(series.owner[bad]) if preprocessor.spec.each_row else bad:
        values = np.abs(preprocessor.scaler.scale(series.sample(int(i))[1]))
        worst = int(np.nanargmax(np.nanmax(np.where(np.isnan(values), 0, values), 0)))
        far = float(np.nanmax(values[:, worst]))
        problems.append(
            f"sample {i}: channel {preprocessor.channels[worst]!r} is {far:.3g} deviations away from what training saw"
        )
    raise InputError("the model's answer is not a number; check the units, or set such values to NaN", problems)


def warn_unseen(series: Series) -> None:
    """Channels that some samples never observe are constant there; say so once, with names and counts."""
    unseen = lambda part: (~np.logical_or.reduceat(~np.isnan(part.values), part.offsets[:-1], axis=0)).sum(0)
    never = np.sum([unseen(part) for part in series.blocks()], axis=0)
    if never.any():
        worst = ", ".join(f"{series.channels[c]!r} in {never[c]}" for c in np.argsort(-never)[:5] if never[c])
        more = f" and {(never > 0).sum() - 5} other channels" if (never > 0).sum() > 5 else ""
        message = f"never observed (held at the training mean) in some of {len(series)} samples: {worst}{more}"
        warnings.warn(message, LeapWarning, stacklevel=3)
