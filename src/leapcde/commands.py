"""What all commands share: their common options, how they are registered, and how they print."""

from __future__ import annotations

import functools
import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import InputError, LeapWarning

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets lie; LEAPCDE_DATA also sets it.")]


def command(on: typer.Typer, **settings):
    """Register a command that shows our warnings as short notes, and can be stopped from the keyboard."""

    def register(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            quiet = kwargs.get("quiet") or kwargs.get("as_json")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if quiet else "always", LeapWarning)
                warnings.showwarning = lambda message, *rest, **more: typer.echo(f"note: {message}", err=True)
                try:
                    return function(*args, **kwargs)
                except KeyboardInterrupt:  # caught here, because Typer would exit without a word
                    typer.echo("stopped; the same command goes on from the last finished epoch of a run folder", err=True)
                    raise typer.Exit(130) from None

        on.command(**settings)(wrapped)
        return wrapped

    return register


def name_values(pairs: list[str], flag: str, example: str) -> dict[str, Any]:
    """name=value pairs; a value is JSON where it can be (numbers, true, null), text otherwise."""
    found = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark:
            raise InputError(f"{flag} {pair!r}: write name=value, for example {example}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def print_json(data: dict[str, Any]) -> None:
    from .checkpoint import json_text

    typer.echo(json_text(data))


def print_table(header: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    for line in [header, *rows]:
        cells = [line[0].ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]]
        typer.echo("  ".join(cells).rstrip())
