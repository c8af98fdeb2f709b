"""One word for one thing: public names, options of commands and files use none of the words that the glossary rules out."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest
from typer.main import get_command

import leapcde
from conftest import ROOT
from leapcde.cli.main import app
from leapcde.models.registry import MODELS, options_of
from leapcde.training.config import TrainConfig

PAGE = (ROOT / "docs" / "glossary.md").read_text()
ROWS = [line.strip("| \n").split("|") for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]
WORDS = {row[0].strip() for row in ROWS}
RULED_OUT = {
    word.strip() for row in ROWS if len(row) > 2 for word in row[2].split(",") if word.strip() and word.strip() != "not"
}
ESTIMATORS = (leapcde.LeapClassifier, leapcde.LeapRegressor, leapcde.LeapForecaster)


def parts(name: str) -> set[str]:
    """The words of a name: learningRate, learning_rate and --learning-rate have the same."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return {spaced.strip("-_ "), *re.split(r"[^a-z0-9+]+", spaced)}


def commands(command=None, name: str = "leapcde"):
    command = command or get_command(app)
    yield name, command
    for sub, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {sub}")


def names() -> dict[str, str]:
    """Every name that a user meets, and where."""
    found = dict.fromkeys(leapcde.__all__, "leapcde")
    for estimator in ESTIMATORS:
        found |= dict.fromkeys(inspect.signature(estimator).parameters, estimator.__name__)
        found |= {key: estimator.__name__ for key, _ in inspect.getmembers(estimator) if not key.startswith("_")}
    found |= {field.name: "TrainConfig" for field in dataclasses.fields(TrainConfig)}
    found |= {option: model for model in MODELS for option in options_of(model)}
    for name, command in commands():
        found |= {flag: name for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    # scikit-learn's own machinery has its own words
    return {name: where for name, where in found.items() if "metadata" not in name and not name.startswith("set_")}


def test_the_page_says_what_it_should():
    assert {"interpolation", "learning rate", "baseline", "dataset option", "run", "record"} <= WORDS
    assert {"scheme", "honest", "naive", "protocol", "choice", "frame", "predictor"} <= RULED_OUT
    assert not WORDS & RULED_OUT


def test_names_use_no_other_word():
    found = names()
    assert len(found) > 100
    wrong = {name: (where, parts(name) & RULED_OUT) for name, where in found.items() if parts(name) & RULED_OUT}
    assert not wrong


def test_a_learning_rate_is_called_so():
    found = set(names())
    assert {"learning_rate", "--learning-rate"} <= found and not {"rate", "--rate"} & found


def test_file_names_use_no_other_word():
    files = [path for package in ("leapcde", "leapcde_paper") for path in (ROOT / "src" / package).rglob("*.py")]
    assert len(files) > 80
    assert not {path for path in files if parts(path.stem) & RULED_OUT}


@pytest.mark.parametrize("word", sorted(RULED_OUT))
def test_no_word_is_ruled_out_twice(word):
    lists = [[other.strip() for other in row[2].split(",")] for row in ROWS if len(row) > 2]
    assert sum(word in words for words in lists) == 1
