"""What a person sees while waiting: one progress bar on standard error, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from leapcde.errors import LeapError

Row = dict[str, float]


class Hooks(NamedTuple):
    """What training calls as it goes; None where nobody watches."""

    on_epoch: Callable[[Row], None] | None
    on_step: Callable[[int, int], None] | None


@contextmanager
def watch_training(title: str, epochs: int, metric: str, *, quiet: bool) -> Iterator[Hooks]:
    """A bar over epochs with loss, validation metric, rate and the time left."""
    if quiet:
        yield Hooks(None, None)
        return
    with _bar(TextColumn("{task.fields[note]}")) as bar:
        task = bar.add_task(title, total=epochs, note="compiling …")

        def on_step(done: int, steps: int) -> None:
            epoch = int(bar.tasks[task].completed)
            bar.update(task, completed=epoch + min(done / steps, 0.999))

        def on_epoch(row: Row) -> None:
            note = f"loss {row['train_loss']:.4f}  val {metric} {row[metric]:.4f}  rate {row['learning_rate']:.1e}"
            bar.update(task, completed=int(row["epoch"]) + 1, note=note)

        with _gone_if_idle(bar, task):
            yield Hooks(on_epoch, on_step)


@contextmanager
def watch_count(title: str, total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar over a known number of things; call it with how many are done."""
    if quiet:
        yield lambda done: None
        return
    with _bar() as bar:
        task = bar.add_task(title, total=total)
        with _gone_if_idle(bar, task):
            yield lambda done: bar.update(task, completed=done)


@contextmanager
def watch_bytes(*, quiet: bool) -> Iterator[Callable[[str], Callable[[int, int | None], None]] | None]:
    """Bars over downloads: call with a name for a function that takes bytes so far and in all."""
    if quiet:
        yield None
        return
    columns = [TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn()]
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:

        def watch(name: str) -> Callable[[int, int | None], None]:
            task = bar.add_task(name, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield watch


@contextmanager
def _gone_if_idle(bar: Progress, task: TaskID) -> Iterator[None]:
    """A mistake that was found before anything was done needs no bar above its message."""
    try:
        yield
    except LeapError:
        bar.update(task, visible=bar.tasks[task].completed > 0)
        raise


def note(text: str) -> None:
    """A line on standard error."""
    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


def _bar(*more) -> Progress:
    columns = [TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn()]
    return Progress(*columns, TimeRemainingColumn(), *more, console=Console(stderr=True))
