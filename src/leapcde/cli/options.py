"""What all commands share: their common options, how they are registered, and how they print."""

from __future__ import annotations

import functools
import json
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from leapcde.errors import InputError, LeapWarning

# Parameters of the library that are options of commands by the same name.
FLAGS = ("id", "time", "time_format", "target", "values", "static", "horizon", "window", "stride", "task", "model", "epochs")
FLAGS += ("batch_size", "learning_rate", "interpolation", "class_weight", "seed", "split", "known", "weights", "ensemble")
FLAGS += ("time_limit", "patience", "target_per")
WIDE = 10_000  # columns; a file or a pipe has no edge
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets lie; LEAPCDE_DATA also sets it.")]
RunFolder = Annotated[Path, typer.Argument(help="A folder that 'leapcde fit' or 'leapcde train' made.")]
ModelName = Annotated[str, typer.Option(help="Name of a model; 'leapcde models' lists them.")]
Out = Annotated[Path | None, typer.Option(help="Run folder; default runs/DATA-MODEL-SEED.")]
Drop = Annotated[float, typer.Option(help="Share of time points to forget, 0 to 1.")]
Epochs = Annotated[int | None, typer.Option(help="At most so many passes over the data.")]
BatchSize = Annotated[int | None, typer.Option(help="Samples a step.")]
LearningRate = Annotated[float | None, typer.Option(help="The highest rate of the schedule.")]
Schedule = Annotated[str | None, typer.Option(help="constant, cosine or plateau.")]
Patience = Annotated[int | None, typer.Option(help="Stop after so many epochs without a better loss.")]
Penalty = Annotated[
    float | None, typer.Option(help="Times Σ‖θ‖ of what the model regularises; default 0.003 for classes, else 0.")
]
Noise = Annotated[
    float | None, typer.Option(help="Fresh Gaussian errors in each training step, in deviations of the channel; default none.")
]
ClassWeight = Annotated[str | None, typer.Option(help="balanced (classes count by how rare they are; default) or none.")]
Interpolation = Annotated[str | None, typer.Option(help="linear (default), natural, hermite (causal) or rectilinear (causal).")]
Intensity = Annotated[bool, typer.Option("--intensity/--no-intensity", help="Counts of observations as channels.")]
Ensemble = Annotated[int, typer.Option(min=1, help="Train so many models, each from a seed of its own; their average answers.")]
TimeLimit = Annotated[
    str, typer.Option(help="Of a race (--model auto): begin no candidate that would end later; 90s, 5m (default) or 1h.")
]
Final = Annotated[
    bool, typer.Option("--final", help="After the test, train the saved model again on all data; the numbers stay the test's.")
]
RacedModel = Annotated[
    str, typer.Option(help="Name of a model; 'leapcde models' lists them. auto races a few and the baselines (default).")
]
DatasetOption = Annotated[
    list[str] | None, typer.Option("--dataset-option", "-d", help="Option of the data set, as name=value; repeatable.")
]
ModelOption = Annotated[list[str] | None, typer.Option("--option", "-o", help="Model option, as name=value; repeatable.")]


STOPPED = "stopped; the same command goes on from the last finished epoch of a run folder"
AGAIN, SOON = 5.0, 0.05  # seconds after which a stop that was lost comes again, and one that is known to be
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # what a terminal obeys, but for tabs and new lines


class Terminated(KeyboardInterrupt):
    """SIGTERM: the same clean stop as from the keyboard, with another exit code."""


@contextmanager
def stopping_cleanly() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does: what is being written is finished or taken back.

    The stop may come where compiled code calls Python, and be made something else of, or be lost: Typer takes it for the
    keyboard while it reads arguments, NumPy and JAX make a ValueError of it, a callback of the garbage collector is only
    told of. So it is a stop however the command ends, and comes again while it does not end.
    """
    told = False

    def stop(number: int, frame: Any) -> None:
        nonlocal told
        told = True
        _stop_again(AGAIN)
        raise Terminated

    def lost(what: Any) -> None:
        _stop_again(SOON) if isinstance(what.exc_value, Terminated) else unraisable(what)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kinds = [getattr(signal, name) for name in ("SIGTERM", "SIGALRM") if hasattr(signal, name)]
    before = {kind: signal.signal(kind, stop) for kind in kinds}
    unraisable, sys.unraisablehook = sys.unraisablehook, lost
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException as end:
        if not told or (isinstance(end, SystemExit) and end.code == 143):
            raise
        _say_stopped()
    else:
        if told:
            _say_stopped()
    finally:
        _stop_again(0)
        for kind, handler in before.items():
            signal.signal(kind, handler)
        sys.unraisablehook = unraisable


def _stop_again(seconds: float) -> None:
    """A stop after so many seconds, where there are timers; 0: none."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _say_stopped() -> None:
    typer.echo(STOPPED, err=True)
    raise SystemExit(143) from None


def harmless(text: str) -> str:
    """Text for a terminal, without what would move its cursor or change its colours.

    >>> harmless("a\x1b[2Jb")
    'a�[2Jb'
    """
    return CONTROL.sub("\ufffd", text)


def command(on: typer.Typer, **settings):
    """Register a command that shows our warnings as short notes, and can be stopped from the keyboard."""

    def register(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            quiet = kwargs.get("quiet") or kwargs.get("as_json")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if quiet else "always", LeapWarning)
                warnings.showwarning = lambda message, *rest, **more: typer.echo(
                    harmless(f"note: {in_flags(message)}"), err=True
                )
                try:
                    return function(*args, **kwargs)
                except Terminated:
                    typer.echo(STOPPED, err=True)
                    raise typer.Exit(143) from None
                except KeyboardInterrupt:  # caught here, because Typer would exit without a word
                    typer.echo(STOPPED, err=True)
                    raise typer.Exit(130) from None

        on.command(**settings)(wrapped)
        return wrapped

    return register


def in_flags(message: Any) -> str:
    """What the library says, in the words of the command line.

    >>> in_flags("give id= and time_format='%d/%m/%Y'")
    "give --id and --time-format '%d/%m/%Y'"
    """
    flag = lambda found: f"--{found[1].replace('_', '-')}{' ' if found[2] else ''}"
    return re.sub(rf"(?<![\w.-])({'|'.join(FLAGS)})=(?=(['\"\w]?))", flag, str(message))


def names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def name_values(pairs: list[str], flag: str, example: str) -> dict[str, Any]:
    """name=value pairs; a value is JSON where it can be (numbers, true, null), text otherwise."""
    found = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark:
            raise InputError(f"{flag} {pair!r}: write name=value, for example {example}")
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def event_or_target(
    event: str | None, duration: str | None, target: str | None, horizon: str | None, task: str | None
) -> tuple[str | None, str | None]:
    """The target and the task of a command, where those of a time to an event have options of their own.

    >>> event_or_target("dead", "days", None, None, None)
    ('dead,days', 'survival')
    """
    if event is None and duration is None:
        if task == "survival":
            raise InputError("task 'survival' needs --event and --duration, the columns that say whether and when")
        return target, task
    if event is None or duration is None:
        raise InputError("--event and --duration belong together: the columns that say whether the event was seen, and when")
    if target is not None or horizon is not None or task not in (None, "survival"):
        raise InputError("--event and --duration are what is predicted; leave out --target, --horizon and --task")
    return f"{event},{duration}", "survival"


def read_seconds(text: str) -> float:
    """A duration in seconds, minutes or hours.

    >>> read_seconds("90"), read_seconds("5m"), read_seconds("0.5h")
    (90.0, 300.0, 1800.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if found is None or not float(found[1]) > 0:
        raise InputError(f"--time-limit {text}: write seconds, minutes or hours, such as 90s, 5m or 1h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def print_json(data: dict[str, Any]) -> None:
    from leapcde.files import json_text

    typer.echo(json_text(data))


def print_metrics(found: dict[str, dict[str, float]]) -> None:
    names = list(next(iter(found.values())))
    print_table(["", *names], [[name, *[f"{row[key]:.4f}" for key in names]] for name, row in found.items()])


def print_splits(found: dict[str, dict[str, dict[str, float]]], main: str) -> None:
    """A row for a model and each baseline: the metric that chooses on validation data, and all metrics of the test."""
    names = [main, *(name for name in next(iter(found.values()))["test"] if name != main)]
    header = ["", f"validation {main}", *(f"test {name}" for name in names)]
    numbers = lambda of: [of["validation"][main], *(of["test"][name] for name in names)]
    print_table(header, [[name, *(f"{number:.4f}" for number in numbers(of))] for name, of in found.items()])


def print_race(rows: list[dict[str, Any]], metric: str) -> None:
    """The table of a race: how each candidate did on validation data, how long it took, and its weight in the answer."""
    header = ["candidate", f"validation {metric}", "loss", "± its error", "seconds", "weight"]
    number = lambda row, key: f"{row[key]:.4f}" if key in row else ""
    judged = lambda row: [number(row, key) for key in (metric, "loss", "standard error")]
    weight = lambda row: row["why"] or (f"{row['weight']:.2f}" if row["weight"] else "")
    print_table(header, [[row["candidate"], *judged(row), f"{row['seconds']:.1f}", weight(row)] for row in rows])
    typer.echo("")


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Columns without boxes, the first to the left, the others to the right; no line is folded when piped."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    console = Console() if Console().is_terminal else Console(width=WIDE)
    console.print(table)
