"""How a CDE follows X: the time channel at a pace of its own, and steps longer than the gaps, against SciPy."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from test_leap import batch_of, dense, double, matrix, run, spline_of
from test_paths import fit_path

from leapcde.data.read import as_series
from leapcde.errors import InputError
from leapcde.files import load_file, save_file
from leapcde.models.base import Spec
from leapcde.models.registry import MODELS, build, options_of
from leapcde.paths.batch import Batch, Recipe
from leapcde.training.fitted import FittedModel
from leapcde.training.preprocess import Preprocessor

pytestmark = pytest.mark.usefixtures("x64")
SPEC = Spec("classification", values=3, channels=4, output=(5,), span=16.0)
SMALL = {"hidden": 6, "width": 7, "depth": 2, "time_span": 5.0}
FINE = {"solver": "rk4", "solver_options": {"substeps": 16}}
STEPS = 5


def followed(field, start, batch: Batch, b: int, *, pace: float):
    """The state at the end of sample b, driven by straight lines between the means of X around STEPS equal steps."""
    t, mask = np.asarray(batch.obs.times[b]), np.asarray(batch.obs.mask[b]) > 0
    x = np.asarray(batch.obs.values[b])
    splines = [spline_of(t[mask[:, c]], x[mask[:, c], c])[0] for c in range(3)]
    channels, knots = [lambda q: pace * q, *splines], np.linspace(0.0, t[-1], STEPS + 1)
    X = np.array([[mean_around(value, q, t) for value in channels] for q in knots])
    z = dense(start, [value(0.0) for value in channels])
    for moved in np.diff(X, axis=0):
        z = solve_ivp(lambda _, z, moved=moved: matrix(field, z) @ moved, (0, 1), z, rtol=1e-9, atol=1e-10).y[:, -1]
    return z


class Given(eqx.Module):
    """A layer that answers the same whatever it is asked."""

    answer: jax.Array

    def __call__(self, _):
        return self.answer


def mean_around(value, q, t):
    low, high = max(q - t[-1] / STEPS / 2, 0.0), min(q + t[-1] / STEPS / 2, t[-1])
    return quad(value, low, high, points=t[(t > low) & (t < high)], epsabs=1e-10)[0] / (high - low)


@pytest.mark.parametrize("name", ["ncde", "leap"])
def test_pace_and_steps(name):
    option = {"ncde": {"steps": STEPS, "activation": "tanh"}, "leap": {"encoder_steps": STEPS, "activation": "tanh"}}[name]
    model, batch = double(build(name, SPEC, seed=2, **SMALL, **FINE, **option)), batch_of()
    if name == "leap":
        seen = lambda model, h: run(eqx.tree_at(lambda m: m.φ_h, model, Given(h)), batch).prediction  # h(0) for every sample
        e = np.stack([followed(model.k, model.φ_e, batch, b, pace=5 / 16) for b in range(4)])
        want = seen(model, model.φ_h(jnp.asarray(e)))
    else:
        z = np.stack([followed(model.g, model.φ_z, batch, b, pace=5 / 16) for b in range(4)])
        want = dense(model.head.layer, z)
    np.testing.assert_allclose(run(model, batch).prediction, want, atol=1e-6)
    for other in ({"time_span": None}, {option_name(name): None}):
        changed = double(build(name, SPEC, seed=2, **{**SMALL, **FINE, **option, **other}))
        assert not np.allclose(run(changed, batch).prediction, want, atol=1e-3)


def option_name(model: str) -> str:
    return "encoder_steps" if model == "leap" else "steps"


@pytest.mark.parametrize("name", ["ncde", "ancde", "leap"])
def test_only_the_time_channel_changes_its_pace(name):
    """Half the pace is a time channel of half the size: counts and values are left alone."""
    spec = Spec("classification", 3, 7, (5,), span=16.0, recipe=Recipe(intensity=True))
    obs = batch_of().obs
    X = fit_path(obs, "natural", intensity=True)
    half = lambda a: a * np.array([0.5, 1, 1, 1, 1, 1, 1])
    slower = Batch(obs, eqx.tree_at(lambda X: (X.values, X.left, X.right), X, tuple(map(half, (X.values, X.left, X.right)))))
    options = {"hidden": 6, "width": 7, "depth": 1}
    asked, plain = (double(build(name, spec, seed=1, time_span=span, **options)) for span in (8.0, None))
    np.testing.assert_allclose(run(asked, Batch(obs, X)).prediction, run(plain, slower).prediction, atol=1e-12)
    assert not np.allclose(run(plain, Batch(obs, X)).prediction, run(plain, slower).prediction, atol=1e-3)


@pytest.mark.parametrize("name", ["ncde", "ancde", "leap"])
def test_steps_do_not_see_padding(name):
    obs, longer = (batch_of().obs for _ in range(2))
    repeat = lambda a, last: jnp.concatenate([a, jnp.repeat(last, 3, axis=1)], 1)
    longer = longer._replace(
        times=repeat(obs.times, obs.times[:, -1:]),
        values=repeat(obs.values, jnp.zeros_like(obs.values[:, -1:])),
        mask=repeat(obs.mask, jnp.zeros_like(obs.mask[:, -1:])),
    )
    model = double(build(name, SPEC, hidden=6, width=7, depth=1, **{option_name(name): STEPS}))
    short, long = (run(model, Batch(o, fit_path(o, "natural"))).prediction for o in (obs, longer))
    np.testing.assert_allclose(short, long, atol=1e-9)


def test_without_a_time_channel_there_is_no_pace():
    spec = Spec("classification", 3, 3, (5,), span=16.0, recipe=Recipe(time_channel=False))
    obs = batch_of().obs
    batch = Batch(obs, fit_path(obs, "natural", time_channel=False))
    a, b = (run(double(build("ncde", spec, hidden=6, time_span=span)), batch).prediction for span in (8.0, None))
    assert np.array_equal(a, b)


@pytest.mark.parametrize("name", MODELS)
def test_files_from_before_can_be_read(name, tmp_path):
    """Of every model: some have a span of their own, which is not that of a path's time channel."""
    series = as_series(np.random.default_rng(0).normal(size=(6, 9, 2)), target=list("abcabc"))
    preprocessor = Preprocessor.learn(series, "classification", Recipe())
    options = {"hidden": 4, **({"time_span": None} if "time_span" in options_of(name) else {})}
    model = eqx.filter_eval_shape(lambda: build(name, preprocessor.spec, **options))
    numbers = lambda leaf: np.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
    tree = {"model": eqx.filter(jax.tree.map(numbers, model), eqx.is_inexact_array)}
    about = {"model": name, "options": {"hidden": 4}, "preprocessor": preprocessor.to_json()}
    save_file(tmp_path / "old", "model", tree, about)
    assert FittedModel.load(tmp_path / "old").options == options


def test_means_are_not_taken_of_jumps():
    spec = Spec("classification", 3, 4, (5,), span=16.0, recipe=Recipe("rectilinear"))
    with pytest.raises(InputError, match="jumps at its last row"):
        build("ncde", spec, steps=4)


def test_files_from_before_keep_their_pace(tmp_path):
    """They name neither time_span nor revision; what they predict must not change."""
    rng = np.random.default_rng(0)
    series = as_series(rng.normal(size=(6, 9, 2)), target=list("abcabc"))
    preprocessor = Preprocessor.learn(series, "classification", Recipe())
    options = {"hidden": 4, "width": 5, "depth": 1}
    as_it_was = FittedModel(preprocessor, build("ncde", preprocessor.spec, seed=3, time_span=None, **options), "ncde", options)
    as_it_was.save(tmp_path / "new")
    _, about = load_file(tmp_path / "new", "model")
    tree = {"model": eqx.filter(as_it_was.model, eqx.is_inexact_array)}
    save_file(tmp_path / "old", "model", tree, {key: about[key] for key in ("model", "options", "preprocessor")})
    old, new = (FittedModel.load(tmp_path / name) for name in ("old", "new"))
    assert np.array_equal(old.raw(series), as_it_was.raw(series)) and not np.allclose(new.raw(series), old.raw(series))
    old.save(tmp_path / "again")  # written again, it says what it is
    assert np.array_equal(FittedModel.load(tmp_path / "again").raw(series), old.raw(series))
