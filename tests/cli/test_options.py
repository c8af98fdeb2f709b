"""Flags of the commands: named as the estimators' parameters are, and each one used by the command that has it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import fields

import pytest
from typer.main import get_command

from leapcde.cli import fit as commands
from leapcde.cli.main import app
from leapcde.cli.options import print_table
from leapcde.data.columns import Columns
from leapcde.estimators.load import ESTIMATORS
from leapcde.training.config import TrainConfig

# What a file needs and an estimator does not, or the other way round.
FILE_ONLY = {"files", "event", "duration", "out", "final", "task", "drop", "as_json", "quiet", "time_format", "weights"}
PYTHON_ONLY = {"validation", "calibration", "warm_start", "verbose"}
GROUPS = {"training", "options"}


def all_commands(group=None, path=()) -> dict[str, object]:
    group = group or get_command(app)
    found = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= all_commands(command, (*path, name))
        else:
            found[" ".join((*path, name))] = command
    return found


COMMANDS = all_commands()


def parameters() -> set[str]:
    """Of all estimators, with what their groups hold."""
    names = {name for make in ESTIMATORS.values() for name in make().get_params()}
    names |= {field.name for field in fields(TrainConfig)}
    return names - GROUPS


def test_flags_of_fit_are_parameters_of_the_estimators():
    flags = set(inspect.signature(commands.fit).parameters)
    assert flags - FILE_ONLY - {"option"} <= parameters()
    rare = {"optimizer", "weight_decay", "clip", "stop_on", "hide", "spans", "warp", "channel_drop"}  # of TrainConfig
    rare |= {"in_window", "label_smoothing", "ema", "warmup", "accumulate", "hide_values"}
    assert parameters() - flags == PYTHON_ONLY | rare
    spelled = {flag for option in COMMANDS["fit"].params for flag in option.opts}
    assert {"--interpolation", "--learning-rate", "--batch-size", "--class-weight", "--intensity", "--option"} <= spelled


def test_train_has_the_flags_of_fit_for_everything_but_the_file():
    of = lambda command: set(inspect.signature(command).parameters)
    table = {
        "files",
        "event",
        "duration",
        "task",
        "horizon",
        "window",
        "stride",
        "split",
        "known",
        *(field.name for field in fields(Columns)),
    }
    assert of(commands.fit) - table == of(commands.train) - {"data", "paper", "dataset_option", "data_dir"}


@pytest.mark.parametrize("make", ESTIMATORS.values())
def test_every_parameter_is_documented_and_stored(make):
    text, given = inspect.getdoc(make), make().get_params()
    assert len(given) <= 26
    for name, parameter in inspect.signature(make).parameters.items():
        assert f"\n{name} : " in text, name
        assert parameter.default == given[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_used_by_its_command(name):
    function = inspect.unwrap(COMMANDS[name].callback)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert set(inspect.signature(function).parameters) <= used


def test_tables_are_plain_text_when_piped(capsys):
    long = "x" * 200
    print_table(["model", "[mse]"], [["leap", "0.1"], [long, "12.25"]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["model", "[mse]"] and lines[2] == f"{long}  12.25"
    assert {len(line) for line in lines} == {207} and not any(mark in line for line in lines for mark in "│┃─━")
