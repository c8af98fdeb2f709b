"""What docs/extending.md shows is one new file each: here the files are written, imported, and used for everything."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from leapcde.data.read import as_series
from leapcde.errors import CheckpointError, InputError
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.load import load
from leapcde.models.registry import MODELS, build, options_of
from leapcde.paths.batch import Recipe
from leapcde.paths.interpolation import INTERPOLATIONS
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel, train_model

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
SMALL = {"hidden": 5, "width": 6, "depth": 1}

pytestmark = pytest.mark.filterwarnings("ignore:never observed")


def shown(title: str) -> list[str]:
    """The Python blocks of a section: the file, and how it is used."""
    section = re.split(r"^## ", PAGE.split(f"## {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    return re.findall(r"^```python\n(.*?)^```", section, flags=re.M | re.S)


@pytest.fixture
def extended(tmp_path, monkeypatch):
    """Writes a file of the page, imports it, and forgets what it registered when the test is over."""
    monkeypatch.syspath_prepend(tmp_path)

    def extend(title: str) -> str:
        text, use = shown(title)
        name = re.match(r"# (\w+)\.py", text)[1]
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        importlib.import_module(name)
        written.append(name)
        exec(use, {})
        return name

    written: list[str] = []
    with mock.patch.dict(MODELS), mock.patch.dict(INTERPOLATIONS):
        yield extend
    for name in written:
        sys.modules.pop(name)


@pytest.fixture(scope="module")
def data():
    """Uneven times and holes; classes that differ in their mean."""
    rng = np.random.default_rng(0)
    samples = []
    for i in range(24):
        values = rng.normal(size=(10, 2)).cumsum(0) + 2.0 * (i % 2)
        values[rng.random((10, 2)) < 0.3] = np.nan
        samples.append((np.cumsum(rng.uniform(0.2, 2.0, 10)), values))
    return as_series(samples, target=np.arange(24) % 2)


def does_everything(classifier: LeapClassifier, data, folder: Path) -> None:
    """Trains, predicts, saves, loads, streams and explains."""
    classifier.fit(data)
    expected = classifier.predict_proba(data)
    classifier.save(folder / "model")
    loaded = load(folder / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data), expected)
    stream = loaded.stream()
    for t, x in zip(*data.sample(3), strict=True):
        stream.push(t, x)
    assert stream.predict_proba() == pytest.approx(expected[3], abs=1e-5)
    explained = loaded.explain(data.take([0, 1]))
    assert all(np.nansum(np.abs(each)) > 0 for each in explained.importance)


@pytest.mark.parametrize("title", ["A model", "An interpolation"])
def test_each_is_less_than_thirty_lines(title):
    assert len([line for line in shown(title)[0].splitlines() if line.strip()]) < 30


def test_a_model(extended, data, tmp_path):
    assert extended("A model") == "bag" and options_of("bag")["hidden"].about == "size of the sum"
    with pytest.raises(InputError, match="hidden=0: give a whole number above 0"):
        LeapClassifier("bag", options={"hidden": 0}).fit(data)
    does_everything(LeapClassifier("bag", options={"hidden": 4}, epochs=2), data, tmp_path)


@pytest.mark.parametrize("model", ["ncde", "leap"])
def test_an_interpolation(extended, data, tmp_path, model):
    name = extended("An interpolation")
    how = {"interpolation": name, "intensity": True, "epochs": 2}
    does_everything(LeapClassifier(model, options=dict(SMALL), **how), data, tmp_path)


def test_an_interpolation_with_noise_in_training(extended, data):
    recipe, how = Recipe(extended("An interpolation")), {"task": "classification", "model": "ncde", "options": SMALL}
    plain, shaken = (
        train_model(data, data, recipe=recipe, config=TrainConfig(epochs=1, noise=noise), **how)[0] for noise in (0.0, 0.3)
    )
    assert np.abs(plain.raw(data) - shaken.raw(data)).max() > 1e-6


def test_what_is_not_known_is_said_when_a_file_is_loaded(extended, data, tmp_path):
    """A file of a model or an interpolation that was never imported names it, and those that there are."""
    extended("A model"), extended("An interpolation")
    for model, interpolation in (("bag", "linear"), ("ncde", "ramp")):
        fitted = LeapClassifier(model, options={"hidden": 4}, interpolation=interpolation, epochs=1).fit(data).fitted_
        fitted.save(tmp_path / model)
    del MODELS["bag"], INTERPOLATIONS["ramp"]
    with pytest.raises(CheckpointError, match=r"no model 'bag'; import the package that registers it; known here: .*ncde"):
        FittedModel.load(tmp_path / "bag")
    with pytest.raises(CheckpointError, match=r"no interpolation 'ramp'; choose one of: .*hermite"):
        FittedModel.load(tmp_path / "ncde")


def test_a_model_without_three_methods_is_not_streamed(extended, data):
    extended("A model")
    kind = MODELS["bag"].make
    del kind.advance
    classifier = LeapClassifier("bag", options={"hidden": 4}, epochs=1).fit(data)
    with pytest.raises(InputError, match="'bag' cannot be streamed; these can"):
        classifier.stream()
    assert build("bag", classifier.fitted_.preprocessor.spec).layer.weight.shape == (4, 16)  # hidden by default
