"""How long cells will take, from the speeds in records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leapcde_paper.baselines import is_baseline
from leapcde_paper.run.records import Record
from leapcde_paper.run.sweep import Job

GUESS = 2e-3  # seconds for a sample and an epoch, where no record tells: LEAP on Character Trajectories, standard budget
COMPILE = 15.0  # seconds before the first step
SMALL = 4.0  # the same for the tiny models of the smoke budget


class Estimate(NamedTuple):
    """Seconds of a processor for each job, and how many of them are guesses because no record tells."""

    seconds: list[float]
    guessed: int

    @property
    def total(self) -> float:
        return sum(self.seconds)


def estimate(jobs: Sequence[Job], known: Sequence[Record]) -> Estimate:
    """From records of the same model on the same data at the same budget, or at another one, or a guess."""
    speeds = [(_place(record), speed) for record in known if (speed := _speed(record)) is not None]
    found = [_seconds(job, speeds) for job in jobs]
    return Estimate([seconds for seconds, _ in found], sum(guess for _, guess in found))


def words(seconds: float) -> str:
    """A time as people say it.

    >>> words(50), words(400), words(90_000)
    ('50 s', '7 min', '25.0 h')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _seconds(job: Job, speeds: list[tuple[tuple[str, str, str], float]]) -> tuple[float, bool]:
    config, small = job.cell.config, job.cell.samples is not None
    if is_baseline(config.model):
        return 1.0 if small else 20.0, False
    place = (config.data, config.model, job.cell.budget)
    same = [speed for at, speed in speeds if at == place] or [speed for at, speed in speeds if at[:2] == place[:2]]
    speed = float(np.median(same)) if same else GUESS
    return (SMALL if small else COMPILE) + speed * job.samples * config.train.epochs, not same


def _place(record: Record) -> tuple[str, str, str]:
    return record["dataset"], record["model"], record["budget"]


def _speed(record: Record) -> float | None:
    """Seconds for a sample and an epoch; the first epoch compiles, and one epoch alone tells nothing."""
    rows = [row["cpu_seconds"] for row in record["history"][1:]]
    samples = (record.get("split_sizes") or {}).get("train")
    return float(np.median(rows)) / samples if rows and samples else None
