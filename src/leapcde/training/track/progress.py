"""What a person sees while waiting: a bar on a terminal, a line now and then in a log, or nothing at all."""

from __future__ import annotations

import time
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
APART = 10.0  # seconds at least between two lines of a log


class Hooks(NamedTuple):
    """What training calls as it goes; None where nobody watches."""

    on_epoch: Callable[[Row], None] | None
    on_step: Callable[[int, int], None] | None


class Lines:
    """Lines on standard error where no terminal is: the first and the last, and others at least ten seconds apart."""

    def __init__(self, title: str):
        self.title, self.began = title, time.monotonic()
        self.told = self.began

    def tell(self, text: str, *, now: bool = False) -> None:
        if now or time.monotonic() - self.told >= APART:
            self.told = time.monotonic()
            note(f"{self.title}: {text}")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


@contextmanager
def watch_training(title: str, epochs: int, metric: str, *, quiet: bool) -> Iterator[Hooks]:
    """A bar over epochs with loss, validation metric, rate and the time left; the same in lines without a terminal."""
    if quiet:
        yield Hooks(None, None)
        return
    if not _is_terminal():
        with _training_lines(title, epochs, metric) as hooks:
            yield hooks
        return
    with _bar(TextColumn("{task.fields[note]}")) as bar:
        task = bar.add_task(title, total=epochs, note="compiling …")

        def on_step(done: int, steps: int) -> None:
            epoch = int(bar.tasks[task].completed)
            bar.update(task, completed=epoch + min(done / steps, 0.999))

        def on_epoch(row: Row) -> None:
            bar.update(task, completed=int(row["epoch"]) + 1, note=_in_words(row, metric))

        with _gone_if_idle(bar, task):
            yield Hooks(on_epoch, on_step)


@contextmanager
def _training_lines(title: str, epochs: int, metric: str) -> Iterator[Hooks]:
    lines = Lines(title)
    rows: list[tuple[float, Row]] = []
    lines.tell(f"up to {epochs} epochs; compiling …", now=True)

    def on_epoch(row: Row) -> None:
        rows.append((lines.seconds, row))
        done, since = int(row["epoch"]) + 1, lines.seconds - rows[0][0]  # the first epoch compiles, and tells nothing
        left = f", at most {_clock(since / (len(rows) - 1) * (epochs - done))} left" if len(rows) > 1 else ""
        lines.tell(f"epoch {done} of {epochs}, {_in_words(row, metric)}{left}", now=len(rows) == 1)

    def on_step(done: int, steps: int) -> None:
        if done < steps:  # else the epoch is told
            lines.tell(f"epoch {len(rows) + 1} of {epochs}, step {done} of {steps}, {_clock(lines.seconds)}")

    yield Hooks(on_epoch, on_step)
    if rows:
        lines.tell(f"{len(rows)} epochs in {_clock(lines.seconds)}, {_in_words(rows[-1][1], metric)}", now=True)


@contextmanager
def watch_count(title: str, total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar over a known number of things; call it with how many are done."""
    if quiet:
        yield lambda done: None
        return
    if not _is_terminal():
        lines = Lines(title)
        lines.tell(f"{total} to do", now=True)
        yield lambda done: lines.tell(f"{done} of {total}, {_clock(lines.seconds)}", now=done == total)
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
    if not _is_terminal():
        yield _byte_lines
        return
    columns = [TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn()]
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:

        def watch(name: str) -> Callable[[int, int | None], None]:
            task = bar.add_task(name, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield watch


def _byte_lines(name: str) -> Callable[[int, int | None], None]:
    lines = Lines(name)
    whole = lambda total: "" if total is None else f" of {total / 1e6:.1f}"
    return lambda done, total: lines.tell(f"{done / 1e6:.1f}{whole(total)} MB", now=done == total)


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


def _is_terminal() -> bool:
    return Console(stderr=True).is_terminal


def _in_words(row: Row, metric: str) -> str:
    return f"loss {row['train_loss']:.4f}  val {metric} {row[metric]:.4f}  rate {row['learning_rate']:.1e}"


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _clock(75), _clock(3723)
    ('1:15', '1:02:03')
    """
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def _bar(*more) -> Progress:
    columns = [TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn()]
    return Progress(*columns, TimeRemainingColumn(), *more, console=Console(stderr=True))
