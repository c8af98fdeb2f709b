"""Baselines: what takes no training, or only minutes of it with tools that everybody has. They stand in every table.

`class-prior` and `last-value` need nothing. `boosted-trees` see, of each channel, how often it was observed, its mean, lowest,
highest and last value. `all-summaries` are boosted trees on what `leapcde fit` gives them: first values, deviations, slopes,
how long ago each channel was last observed, and the duration besides. `minirocket` sees the interpolated path on an even grid.
`ridge` sees each channel's last value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np

from leapcde.baselines.fitted import fit_baseline
from leapcde.baselines.summary import features, last_values, summary
from leapcde.baselines.tabular import PENALTIES
from leapcde.data.dataset import Dataset
from leapcde.data.series import Series
from leapcde.errors import need
from leapcde.paths.batch import Recipe
from leapcde.paths.ragged import Bucket
from leapcde.training.preprocess import Preprocessor

PLAIN = ("class-prior", "last-value")  # as the library has them
MOST_FEATURES = 100_000_000  # of MiniRocket, over all samples: half a gigabyte
FEWEST_POINTS = 9  # that MiniRocket's kernels span
Raw = dict[str, np.ndarray]  # by split: class scores, or values in standardised units


def baselines_for(task: str) -> tuple[str, ...]:
    """Names of the rows that fit a task.

    >>> baselines_for("forecasting")
    ('last-value', 'ridge')
    """
    classes = ("class-prior", "boosted-trees", "all-summaries", "minirocket")
    return {"classification": classes, "forecasting": ("last-value", "ridge")}.get(task, ())


def is_baseline(model: str) -> bool:
    """Whether a name is one of these rows, and not a model that is trained.

    >>> is_baseline("ridge"), is_baseline("leap")
    (True, False)
    """
    return model in _FITS or model in PLAIN


def is_fixed(model: str) -> bool:
    """Whether no seed can change what a row reaches; MiniRocket draws its kernels.

    >>> is_fixed("ridge"), is_fixed("minirocket"), is_fixed("leap")
    (True, False, False)
    """
    return is_baseline(model) and model != "minirocket"


def scores(model: str, data: Dataset, recipe: Recipe, seed: int) -> tuple[Preprocessor, Raw]:
    """Raw predictions for validation and test, in the preprocessor that trained models have too."""
    preprocessor = Preprocessor.learn(data.train, data.task, recipe)
    fit = _FITS.get(model, lambda preprocessor, data, seed: _plain(model, preprocessor, data))
    return preprocessor, fit(preprocessor, data, seed)


def _plain(model: str, preprocessor: Preprocessor, data: Dataset) -> Raw:
    return _of_parts(fit_baseline(model, data.train, data.validation, preprocessor).outputs, data)


def _boosted_trees(preprocessor: Preprocessor, data: Dataset, seed: int, *, of: Callable = summary) -> Raw:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=seed)
    model.fit(of(data.train), preprocessor.encode_target(np.asarray(data.train.target)))
    return _of_parts(lambda series: np.log(np.maximum(model.predict_proba(of(series)), 1e-12)), data)


def _ridge(preprocessor: Preprocessor, data: Dataset, seed: int) -> Raw:
    from sklearn.linear_model import Ridge

    flat = lambda series: preprocessor.encode_target(np.asarray(series.target)).reshape(len(series), -1)
    inputs = lambda series: np.nan_to_num(preprocessor.scaler.scale(last_values(series)))
    x, y, x_val, y_val = inputs(data.train), flat(data.train), inputs(data.validation), flat(data.validation)
    trained = [Ridge(alpha=float(penalty)).fit(x, y) for penalty in PENALTIES]
    best = min(trained, key=lambda model: float(np.mean((model.predict(x_val) - y_val) ** 2)))
    return _of_parts(lambda series: best.predict(inputs(series)).reshape(len(series), *preprocessor.spec.output), data)


def _minirocket(preprocessor: Preprocessor, data: Dataset, seed: int) -> Raw:
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rocket = need("aeon.transformations.collection.convolution_based", "rocket").MiniRocket
    points = max(FEWEST_POINTS, int(data.train.lengths.max()))
    inputs = lambda series: _interpolated(preprocessor.encode(series), points)
    kernels = int(np.clip(MOST_FEATURES // len(data.train), 84, 10_000))
    transform = rocket(n_kernels=kernels, n_jobs=1, random_state=seed)
    model = make_pipeline(transform, StandardScaler(), RidgeClassifierCV(alphas=PENALTIES))
    model.fit(inputs(data.train), preprocessor.encode_target(np.asarray(data.train.target)))

    def decide(series: Series) -> np.ndarray:
        found = model.decision_function(inputs(series))
        return np.stack([-found, found], 1) if found.ndim == 1 else found

    return _of_parts(decide, data)


def _interpolated(buckets: list[Bucket], points: int) -> np.ndarray:
    """The path X of each sample on an even grid from its start to its end: (sample, channel, point)."""
    parts, places = [], []
    for samples, (obs, X, _) in (part for bucket in buckets for part in bucket.batches()):
        t = obs.times[:, -1:] * jnp.linspace(0.0, 1.0, points)
        parts.append(np.asarray(X.evaluate(t))[..., -obs.values.shape[-1] :])
        places.append(samples)
    return np.concatenate(parts)[np.argsort(np.concatenate(places))].swapaxes(1, 2).astype(np.float32)


def _of_parts(answer: Callable[[Series], np.ndarray], data: Dataset) -> Raw:
    return {"validation": answer(data.validation), "test": answer(data.test)}


_FITS: dict[str, Callable[[Preprocessor, Dataset, int], Raw]] = {
    "boosted-trees": _boosted_trees,
    "all-summaries": partial(_boosted_trees, of=features),
    "ridge": _ridge,
    "minirocket": _minirocket,
}
