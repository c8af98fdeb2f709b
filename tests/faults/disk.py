"""Full disks, two processes in one folder, and limits of memory: an error, nothing lost, and an equal end."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
from kills import GRU, Scenario, of_study, scenarios, tune_job
from server import End, command, run

MEGABYTE = 2**20


def full_scenarios(data: Path, trained: Path) -> list[Scenario]:
    """Short runs with every kind of file, and what writes when a run is there."""
    fit = lambda *more: lambda folder: command("fit", data, *more, "--out", folder)
    written = lambda folder: (folder / "p.csv").read_text()
    return [
        Scenario("fit", fit(*GRU, "--epochs", 2)),
        Scenario("fit of an ensemble, --final", fit(*GRU, "--epochs", 1, "--ensemble", 2, "--final")),
        Scenario("predict --out", lambda folder: command("predict", trained, data, "--out", folder / "p.csv", "-q"), written),
        Scenario("tune", tune_job(data, "--trials", 2, "--epochs", 2), of_study),
        next(one for one in scenarios(data) if one.name == "sweep"),
    ]


def full_at(scenario: Scenario, place: Path, number: int, found: Counter) -> tuple[bool, list[str]]:
    """A run in which the disk is full from the n-th write on, and the same command with room again.

    Returns whether there was such a write, and what was wrong.
    """
    shutil.rmtree(place, ignore_errors=True)
    end = run(scenario.job(place), place, full=number)
    if not end.files:
        return False, []
    wrong = []
    if "Traceback" in end.said or end.code != 2:
        wrong.append(f"{scenario.name}, write {number}: exit code {end.code}: {end.said[-1500:]}")
    again = run(scenario.job(place), place)
    if again.code != 0:
        wrong.append(f"{scenario.name}, write {number}: does not go on: {again.said[-1500:]}")
    elif scenario.ended(place) != scenario.expected:
        wrong.append(f"{scenario.name}, write {number}: another result")
    found["writes that failed"] += 1
    found["equal ends"] += not wrong
    return True, wrong


def two_at_once(scenario: Scenario, place: Path, rng: random.Random, found: Counter) -> list[str]:
    """A second process begins while the first one runs: it waits or is told so, and both leave what one alone would."""
    other: list[End] = []

    def during(pid: int) -> None:
        work = rng.uniform(0.0, scenario.seconds)
        with suppress(psutil.Error):
            while sum(psutil.Process(pid).cpu_times()[:2]) < work and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.005)
        other.append(run(scenario.job(place), place.parent / f"{place.name}-other"))

    first = run(scenario.job(place), place, during=during)
    told = other[0].code == 2 and "another process is at work" in other[0].said
    wrong = [end.said[-1000:] for end in (first, *other) if "Traceback" in end.said]
    if first.code != 0 and not (first.code == 2 and "another process is at work" in first.said):
        wrong.append(f"exit code {first.code}: {first.said[-1000:]}")
    if other[0].code != 0 and not told:
        wrong.append(f"the second: exit code {other[0].code}: {other[0].said[-1000:]}")
    if scenario.ended(place) != scenario.expected:
        wrong.append("another result")
    found["pairs"] += 1
    found["told so" if told else "both went through"] += 1
    shutil.rmtree(place, ignore_errors=True)
    return [f"two of {scenario.name}: {what}" for what in wrong]


def too_little_memory(scenario: Scenario, place: Path, megabytes: int, found: Counter) -> list[str]:
    """A run that may have so much more memory than it has at its start: it gets through, or says so."""
    have = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    end = run(scenario.job(place), place, memory=have + megabytes * MEGABYTE)
    found["limits"] += 1
    wrong = []
    if end.code == 0:
        found["got through"] += 1
        wrong += [] if scenario.ended(place) == scenario.expected else ["another result"]
    elif end.code == 2 and "Traceback" not in end.said:
        found["one message"] += 1
    elif end.code < 0:  # a library's own threads or compiler gave up: nothing can be said any more
        found[f"ended by signal {-end.code}"] += 1
    else:
        wrong.append(f"exit code {end.code}: {end.said[-1500:]}")
    after = run(scenario.job(place), place)
    if after.code != 0 or scenario.ended(place) != scenario.expected:
        wrong.append(f"afterwards, with enough of it: exit code {after.code}, {after.said[-500:]}")
    shutil.rmtree(place, ignore_errors=True)
    return [f"{megabytes} MB more: {what}" for what in wrong]
