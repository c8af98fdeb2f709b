"""What other packages add to the command line: commands, and presets for data sets and models. Found by entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import typer

from leapcde.errors import InputError

COMMANDS, PRESETS = "leapcde.commands", "leapcde.presets"


def add_commands(app: typer.Typer) -> None:
    """Let every installed package that offers commands register them."""
    for point in entry_points(group=COMMANDS):
        point.load()(app)


def presets(name: str) -> Any:
    """A module of presets by the name under which a package offers it."""
    for point in entry_points(group=PRESETS, name=name):
        return point.load()
    raise InputError(f"no installed package offers presets called {name!r}; leapcde_paper has those of the paper")
