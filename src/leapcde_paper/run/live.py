"""What a person sees while a sweep runs: cells done, running and failed, the time left, the best so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from leapcde.errors import LeapError
from leapcde_paper.run.estimate import estimate
from leapcde_paper.run.records import Record
from leapcde_paper.run.sweep import Progress
from leapcde_paper.tables.table import METRICS, metric_of, score

Watch = Callable[[Progress], None]


@contextmanager
def watch_sweep(*, quiet: bool) -> Iterator[Watch | None]:
    """A bar that moves by the estimated seconds of each cell, so that the time left knows that cells differ."""
    if quiet:
        yield None
        return
    live = _Live()
    columns = [TextColumn("cells"), BarColumn(bar_width=24), TimeElapsedColumn(), TimeRemainingColumn(), live]
    with Bar(*columns, console=Console(stderr=True), refresh_per_second=2) as bar:
        task = bar.add_task("cells", total=None)

        def on_progress(progress: Progress) -> None:
            weights = estimate(progress.total, list(progress.done.values())).seconds
            finished = {*progress.done, *(failure.name for failure in progress.failures)}
            done = sum(w for job, w in zip(progress.total, weights, strict=True) if job.name in finished)
            bar.update(task, total=sum(weights), completed=done)
            live.progress = progress

        try:
            yield on_progress
        except LeapError:
            bar.update(task, visible=live.progress is not None)  # a mistake found before anything ran needs no bar
            raise


class _Live(ProgressColumn):
    """Counts, asked for whenever the bar is drawn: a cell may run for an hour between two calls of `on_progress`."""

    max_refresh = 1.0
    progress: Progress | None = None

    def render(self, task) -> Text:
        return Text("reading data …" if self.progress is None else line(self.progress))


def line(progress: Progress) -> str:
    """The state of a sweep in one line."""
    running = progress.running()
    parts = [f"{len(progress.done)}/{len(progress.total)} done", f"{len(running)} running", f"{len(progress.failures)} failed"]
    return " · ".join([*parts, *running[:2], *best_so_far(list(progress.done.values()))])


def best_so_far(done: list[Record]) -> list[str]:
    """The best cell on the data that was worked on last: of other data (rates, horizons) no score compares with it."""
    if not done:
        return []
    last = done[-1]
    same = [record for record in done if record["data_hash"] == last["data_hash"]]
    metric = metric_of(last)
    best = (min if metric.startswith("mse") else max)(same, key=score)
    return [f"best on {last['dataset']} {last['drop']:.0%}: {best['model']} {METRICS[metric]} {score(best):.4f}"]
