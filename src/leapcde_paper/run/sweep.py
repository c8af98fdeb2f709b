"""Many cells, through joblib: `loky` processes on this machine, or the workers of a Dask cluster. Nothing here schedules.

Whatever happens on the way (an interrupt, a killed worker, a killed sweep), a finished cell has its record and is not run
again, and a running one goes on from its last epoch when the same sweep is started again.
"""

from __future__ import annotations

import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from leapcde.errors import InputError, LeapError, choose
from leapcde.estimators.cluster import connected
from leapcde.models.registry import MODELS
from leapcde_paper.baselines import is_baseline
from leapcde_paper.run import records
from leapcde_paper.run.cell import Cell
from leapcde_paper.run.data import cell_data, hash_of
from leapcde_paper.run.memory import forget_programs
from leapcde_paper.run.records import Record
from leapcde_paper.run.train_cell import LOCKS, compute_on_one_thread, is_running, run_cell, tidy

MOST_LOSSES = 3  # times in a row that workers may die without a single cell being finished


class Job(NamedTuple):
    """A cell and the data it is for."""

    cell: Cell
    data_hash: str
    samples: int = 0  # to train on; for estimates of time

    @property
    def name(self) -> str:
        return self.cell.name(self.cell.identity(self.data_hash))


class Failure(NamedTuple):
    name: str
    message: str


class Swept(NamedTuple):
    records: list[Record]  # in the order of the cells; those that failed are missing
    failures: list[Failure]


class Progress(NamedTuple):
    """What somebody who watches is told: after each cell, and whenever they ask for `running`."""

    total: list[Job]
    done: dict[str, Record]
    failures: list[Failure]
    running: Callable[[], list[str]]


def sweep(
    cells: Sequence[Cell],
    folder: Path,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Swept:
    """Run every cell that has no record in `folder` yet. `cluster` is the address of a Dask scheduler."""
    todo = identify(cells)
    done = {job.name: found for job in todo if (found := records.find(folder, job.name)) is not None}
    tidy(folder, done)
    failures: dict[str, Failure] = {}
    waiting = lambda: [job for job in todo if job.name not in done and job.name not in failures]
    running = lambda: [job.name for job in waiting() if is_running(folder / LOCKS / job.name)]
    tell = lambda: on_progress(Progress(todo, done, list(failures.values()), running)) if on_progress else None
    tell()
    losses = 0
    while waiting():
        before = len(done)
        try:
            for found in _results(waiting(), folder, jobs, cluster):
                for name, outcome in found:
                    if isinstance(outcome, str):
                        failures[name] = Failure(name, outcome)
                    else:
                        done[name] = outcome
                tell()
        except _lost_workers() as error:
            done |= {job.name: found for job in waiting() if (found := records.find(folder, job.name)) is not None}
            losses = losses + 1 if len(done) == before else 0
            if losses == MOST_LOSSES:
                message = (
                    f"its worker died {losses} times ({type(error).__name__}); is there enough memory? fewer --jobs need less"
                )
                failures |= {job.name: Failure(job.name, message) for job in waiting()}
            tell()
    return Swept([done[job.name] for job in todo if job.name in done], list(failures.values()))


def identify(cells: Sequence[Cell]) -> list[Job]:
    """Each cell with the hash of its data, every one once."""
    for cell in cells:
        if not is_baseline(cell.config.model):
            choose("model", cell.config.model, MODELS)
    seen: dict[str, tuple[str, int]] = {}
    found: dict[str, Job] = {}
    for cell in cells:
        asked = data_key(cell)
        if asked not in seen:
            data = cell_data(cell)
            seen[asked] = hash_of(data), len(data.train)
        job = Job(cell, *seen[asked])
        found.setdefault(job.name, job)
    return list(found.values())


def data_key(cell: Cell) -> str:
    """Cells with the same key see the same data."""
    config = cell.config
    return repr((config.data, config.drop, sorted(config.dataset_options.items()), cell.samples, cell.length))


def batches(jobs: Sequence[Job]) -> list[list[Job]]:
    """What one worker does in one go: a cell; or, where cells are so small that compiling is all their cost, all of a
    model on a data set, which share what was compiled. Large ones first, so that workers end together."""
    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        small = job.cell.samples is not None
        groups.setdefault((job.cell.config.model, job.cell.config.data) if small else job.name, []).append(job)
    return sorted(groups.values(), key=len, reverse=True)


Outcome = list[tuple[str, Record | str]]


def _results(waiting: Sequence[Job], folder: Path, jobs: int, cluster: str | None) -> Iterator[Outcome]:
    work = [_pack(batch, folder) for batch in batches(waiting)]
    many = min(jobs, len(work)) if cluster is None else -1
    if many == 1:
        yield from map(run_batch, work)  # in this process, as joblib would
        return
    from joblib import Parallel, delayed

    with _backend(cluster):
        pool: Any = Parallel(n_jobs=many, return_as="generator_unordered", batch_size=1)  # pyright: ignore[reportArgumentType]
        task = run_batch if cluster is not None else partial(_run_batch_for, os.getpid())
        yield from pool(delayed(task)(packed) for packed in work)


def run_batch(packed: str) -> Outcome:
    """In a worker: cells one after the other. A cell that fails is told about, and the others go on."""
    folder, items = json.loads(packed)
    compute_on_one_thread()
    found: Outcome = []
    for job in (Job(Cell.from_json(cell, data_dir), data_hash) for cell, data_dir, data_hash in items):
        name = job.name
        try:
            found.append((name, run_cell(job.cell, job.data_hash, Path(folder))))
        except (LeapError, OSError) as error:  # what was found wrong, or a full disk
            found.append((name, str(error)))
        except Exception:
            found.append((name, traceback.format_exc(limit=-3)))
    forget_programs()
    return found


def _run_batch_for(parent: int, packed: str) -> Outcome:
    """In a loky process, which would outlive a killed sweep for ever: it ends when its parent does."""
    _end_with(parent)
    return run_batch(packed)


@cache
def _end_with(parent: int) -> None:
    """Asked by number, because a parent may be gone before its worker has begun."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _pack(batch: Sequence[Job], folder: Path) -> str:
    """As text, which Dask sends with the task. Objects it would put into a worker's memory, and lose with that worker."""
    items = [(job.cell.to_json(), job.cell.config.data_dir, job.data_hash) for job in batch]
    return json.dumps((str(folder.resolve()), items))


@contextmanager
def _backend(cluster: str | None) -> Iterator[None]:
    from joblib import parallel_config

    if cluster is None:
        with parallel_config("loky"):
            yield
        return
    with connected(cluster) as client:
        crowded = [name for name, worker in client.scheduler_info(n_workers=-1)["workers"].items() if worker["nthreads"] > 1]
        if crowded:
            raise InputError(f"{len(crowded)} workers have several threads; start them with: dask worker ADDRESS --nthreads 1")
        with parallel_config("dask", client=client, wait_for_workers_timeout=60):
            yield


def _lost_workers() -> tuple[type[BaseException], ...]:
    from concurrent.futures.process import BrokenProcessPool

    from joblib.externals.loky.process_executor import TerminatedWorkerError

    found: list[type[BaseException]] = [BrokenProcessPool, TerminatedWorkerError]
    with suppress(ImportError):
        from distributed.scheduler import KilledWorker

        found.append(KilledWorker)
    return tuple(found)
