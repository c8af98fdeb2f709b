"""Which observations made the answer: integrated gradients, and what shuffling a channel costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leapcde.data.batch import Padded
from leapcde.data.drop import without_empty_rows
from leapcde.data.series import Series
from leapcde.errors import InputError, meant
from leapcde.paths.batch import Batch, Recipe
from leapcde.paths.interpolation import fit_path
from leapcde.training.fitted import Fitted, FittedModel
from leapcde.training.predict import checked
from leapcde.training.preprocess import Preprocessor

CHUNK = 64  # samples at a time: each keeps the gradient of every observation


class Attribution(NamedTuple):
    """`values` belong to the rows of `series`, NaN where nothing was observed; they and `static` add up to `change`."""

    series: Series
    values: np.ndarray  # (rows, channels)
    static: np.ndarray  # (samples, features)
    change: np.ndarray  # (samples,): the answer minus the answer to a series at the training mean
    unit: str
    measured: np.ndarray | None = None  # (samples,): that answer minus the answer if nothing had been measured at all


def attribute(fitted: Fitted, series: Series, *, of: Any = None, steps: int = 32) -> Attribution:
    """Integrated gradients from a series that always stands at the training mean, with the same times and holes.

    The answer of a classifier is the lead of one class's score over the mean of the others'. Of an ensemble, it is the mean
    over its members that are models: a baseline has no gradients.
    """
    if not isinstance(steps, int) or steps < 1:
        raise InputError(f"steps {steps!r}: give a whole number of at least 1; 32 is enough for most models")
    if fitted.preprocessor.spec.each_row:
        what = "observations are explained for one answer a sample; here each row has one"
        raise InputError(f"{what}. leapcde explain RUN draws the answers over time")
    models, kept = _models(fitted), without_empty_rows(replace(series, target=None))
    weights, unit = _answer(fitted, kept, of)
    found = [[share * part for part in _integrated(model, kept, weights, steps)] for share, model in models]
    values, static, change, measured = (np.sum(parts, axis=0) for parts in zip(*found, strict=True))
    return Attribution(kept, np.where(np.isnan(kept.values), np.nan, values), static, change, unit, measured)


def _models(fitted: Fitted) -> list[tuple[float, FittedModel]]:
    """The members that are models, and shares of them that add up to 1."""
    found = [(weight, one) for weight, one in fitted.leaves() if isinstance(one, FittedModel)]
    if not found:
        names = ", ".join(sorted({one.name for _, one in fitted.leaves()}))
        what = "permutation_importance tells what counts for it; or fit with model='leap+', which can be explained"
        raise InputError(f"the answer comes from a baseline alone ({names}), which has no gradients; {what}")
    total = sum(weight for weight, _ in found)
    return [(weight / total, one) for weight, one in found]


def _integrated(fitted: FittedModel, kept: Series, weights: np.ndarray, steps: int) -> tuple[np.ndarray, ...]:
    """Values, static, change and measured of `Attribution`, of one model."""
    preprocessor = fitted.preprocessor
    if fitted.calibration is not None:
        weights = weights / np.array(fitted.calibration.temperature, np.float32)
    found = np.full(kept.values.shape, np.nan)
    static, change = np.zeros((len(kept), preprocessor.spec.static)), np.zeros(len(kept))
    measured = np.zeros(len(kept))
    for samples, batch in (part for bucket in preprocessor.encode(kept) for part in bucket.batches(CHUNK)):
        answer = checked(_gradients, fitted.model, preprocessor.recipe, batch.obs, jnp.asarray(weights[samples]), steps)
        each, static[samples], change[samples], measured[samples] = map(np.asarray, answer)
        for row, i in zip(each, samples, strict=True):
            found[kept.offsets[i] : kept.offsets[i + 1]] = row[: kept.lengths[i]]
    return found, static, change, measured


def permutation_importance(
    score: Callable[[Series], float], series: Series, preprocessor: Preprocessor, *, repeats: int, seed: int
) -> dict[str, tuple[float, float]]:
    """How far `score` falls when one channel's observed values are shuffled among all samples and times.

    When a value was measured stays as it is; static features are shuffled among samples.
    """
    if repeats < 1:
        raise InputError(f"repeats {repeats}: give at least 1")
    whole, generator = score(series), np.random.default_rng(seed)
    found = {}
    names = [*preprocessor.channels, *static_names(preprocessor)]
    for c, name in enumerate(names):
        falls = [whole - score(_shuffled(series, c, generator)) for _ in range(repeats)]
        found[name] = (float(np.mean(falls)), float(np.std(falls)))
    return found


def static_names(preprocessor: Preprocessor) -> list[str]:
    """Of the static features: those of their columns, or numbers."""
    known = list(preprocessor.static_names)  # what is known ahead, if anything, comes behind them
    return known + [f"static {i}" for i in range(len(known), preprocessor.spec.static)]


def _shuffled(series: Series, c: int, generator: np.random.Generator) -> Series:
    channels = series.values.shape[1]
    if c >= channels:
        static = np.array(series.static)
        static[:, c - channels] = generator.permutation(static[:, c - channels])
        return replace(series, static=static)
    values = series.values.copy()
    seen = ~np.isnan(values[:, c])
    values[seen, c] = generator.permutation(values[seen, c])
    return replace(series, values=values)


def _answer(fitted: Fitted, series: Series, of: Any) -> tuple[np.ndarray, str]:
    """Weights over the model's outputs that make one number of them, (sample, *output), and what that number is."""
    preprocessor = fitted.preprocessor
    shape = (len(series), *preprocessor.spec.output)
    if preprocessor.target_names:
        return _target_weights(preprocessor, shape, of)
    if preprocessor.task == "survival":
        return np.full(shape, 1 / shape[1], np.float32), "added to the mean log hazard ratio"
    if preprocessor.task == "regression":
        return np.full(shape, preprocessor.target_std, np.float32), "added to the predicted number"
    if preprocessor.task == "forecasting":
        return _forecast_weights(preprocessor, shape, of)
    classes = list(preprocessor.classes)
    if of is not None and of not in classes:
        raise InputError(f"no class {of!r}; {meant(of, map(str, classes))}there are: {', '.join(map(str, classes))}")
    index = fitted.new_outputs(series).argmax(-1) if of is None else np.full(len(series), classes.index(of))
    chosen = np.eye(len(classes), dtype=np.float32)[index]
    others = (1 - chosen) / (len(classes) - 1)
    return chosen - others, f"added to the score of {'the predicted class' if of is None else of}"


def _target_weights(preprocessor: Preprocessor, shape: tuple[int, ...], of: Any) -> tuple[np.ndarray, str]:
    labels = preprocessor.task == "labels"
    if of is None:
        what = "scores of all labels" if labels else "standardised predictions"
        return np.full(shape, 1 / shape[1], np.float32), f"added to the mean of the {what}"
    if of not in preprocessor.target_names:
        raise InputError(f"no target {of!r}; there are: {', '.join(preprocessor.target_names)}")
    j = preprocessor.target_names.index(of)
    weights = np.zeros(shape, np.float32)
    weights[:, j] = 1.0 if labels else np.atleast_1d(np.array(preprocessor.target_std))[j]
    return weights, f"added to the score of {of}" if labels else f"added to {of}"


def _forecast_weights(preprocessor: Preprocessor, shape: tuple[int, ...], of: Any) -> tuple[np.ndarray, str]:
    if of is None:
        asked = np.isin(np.arange(shape[2]), preprocessor.targets or np.arange(shape[2]))
        weights = np.broadcast_to(asked / (shape[1] * asked.sum()), shape).astype(np.float32)
        return weights, "added to the mean of the standardised forecast"
    try:
        step, channel = of
        name = channel if isinstance(channel, str) else preprocessor.forecast[channel]
        c = preprocessor.channels.index(preprocessor.forecast[preprocessor.forecast.index(name)])
        k = range(shape[1])[step]
    except (TypeError, ValueError, IndexError):
        names = ", ".join(preprocessor.forecast)
        raise InputError(f"of={of!r}: give (step from 0 to {shape[1] - 1}, channel); channels are: {names}") from None
    weights = np.zeros(shape, np.float32)
    weights[:, k, c] = preprocessor.scaler.std[c]
    return weights, f"added to step {k + 1} of {preprocessor.channels[c]}"


@eqx.filter_jit
def _gradients(model, recipe: Recipe, obs: Padded, weights, steps: int):
    answer = lambda values, static: jnp.sum(weights * _predict(model, recipe, obs, values, static), range(1, weights.ndim))
    total = jax.grad(lambda *at: jnp.sum(answer(*at)), argnums=(0, 1))
    shares = (jnp.arange(steps) + 0.5) / steps

    def add(sums, share):
        found = total(share * obs.values, share * obs.static)
        return jax.tree.map(jnp.add, sums, found), None

    sums, _ = jax.lax.scan(add, (jnp.zeros_like(obs.values), jnp.zeros_like(obs.static)), shares)
    average = answer(0 * obs.values, 0 * obs.static)
    ends = answer(obs.values, obs.static) - average
    unseen = _predict(model, recipe, obs._replace(mask=0 * obs.mask), 0 * obs.values, 0 * obs.static)
    measured = average - jnp.sum(weights * unseen, range(1, weights.ndim))
    return sums[0] * obs.values / steps, sums[1] * obs.static / steps, ends, measured


def _predict(model, recipe: Recipe, obs: Padded, values, static):
    """The model as a function of the observed values: everything made of them is made again."""
    length = obs.mask.shape[1]
    newest = jnp.max(jnp.where(obs.mask > 0, jnp.arange(length)[None, :, None], 0), 1, keepdims=True)
    last = jnp.take_along_axis(values * obs.mask, newest, 1)[:, 0]
    obs = obs._replace(values=values, static=static, last=last)
    X = fit_path(obs, recipe.interpolation, time_channel=recipe.time_channel, intensity=recipe.intensity)
    return model(Batch(obs, X)).prediction
