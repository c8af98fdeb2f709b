"""`make test-faults`: kills, full disks, two processes at once, limits of memory, odd input and endless streams.

Rounds are numbered, and each is a function of the seed and its number. A report that is there is gone on with; a short
piece (`--minutes 5`) is as good as a part of a long one. `tests/faults/page.py` writes the report into docs/faults.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hot
from disk import full_at, full_scenarios, too_little_memory, two_at_once
from fuzz import fuzz
from kills import GRU, Scenario, killed_until_done, scenarios, table
from server import command, run, warm
from targets import TARGETS

HERE = Path(__file__).parent
# How often a round has each of them, one in so many; kills of whole runs are in every round.
EVERY = {"full": 2, "odd": 1, "two": 4, "memory": 4, "pools": 3, "hypothesis": 12, "pushes": 1000}
# Runs of a round that are killed until they get through, after one rehearsal.
RUNS = {"fit": 12, "fit of an ensemble, --final": 12, "race": 4, "tune": 8, "sweep": 12}
WRITES = 40  # of a round that find the disk full
PAIRS = 5  # of processes in one folder, in a round
# Odd inputs of a target at a time, more of those that cost less.
PIECES = {"table": 1500, "array": 4000, "stream": 1500, "archive": 2000, "model": 4000, "header": 100}
PIECES |= {"settings": 1000, "arguments": 600}
POOLS = ("loky", "parent", "dask")


class Campaign:
    """One report as it grows."""

    def __init__(self, report: Path, state: Path, seed: int):
        self.path, self.state, self.seed = report, state, seed
        self.report: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {"seed": seed, "round": 0}
        self.place, self.began = state / f"work-{os.getpid()}", time.monotonic()
        self.before = self.report.get("minutes", 0.0)
        data = state / "a.csv"
        self.data = data if data.exists() else table(data)
        self.whole = {one.name: one for one in scenarios(data)}
        self.short: dict[str, Scenario] = {}

    def part(self, *names: str) -> Any:
        found = self.report
        for name in names:
            found = found.setdefault(name, {})
        return found

    def ready(self, one: Scenario, kind: str) -> Scenario:
        """A scenario that knows what comes out of it."""
        if not one.expected:
            name = re.sub(r"\W+", "-", f"{kind}-{one.name}")
            one.undisturbed(self.place / "whole", self.state / f"{name}.json")
        return one

    def wrong(self, problems: list[str]) -> None:
        """Kept in full for who mends them; the report counts them."""
        self.report["defects"] = self.report.get("defects", 0) + len(problems)
        with (self.state / "defects.txt").open("a") as file:
            file.writelines(f"{problem}\n----\n" for problem in problems)

    def read(self) -> None:
        """What a process of ours has added."""
        if self.path.exists():
            self.report = json.loads(self.path.read_text())

    def write(self) -> None:
        self.report["minutes"] = round(self.before + (time.monotonic() - self.began) / 60, 1)
        self.path.write_text(json.dumps(self.report, indent=2) + "\n")

    def round(self, only: list[str]) -> None:
        number = self.report["round"] = self.report["round"] + 1
        rng = random.Random(f"{self.seed} {number}")
        for name, step in STEPS.items():
            if (name in only or (not only and number % EVERY.get(name, 1) == 0)) and (only or name != "pushes"):
                step(self, rng, number)
                self.write()


def add(into: dict[str, Any], found: Counter | dict[str, Any]) -> None:
    for key, value in found.items():
        into[key] = into.get(key, 0) + value


def rehearsed(campaign: Campaign, one: Scenario, kind: str, work: Callable[[], None]) -> None:
    """`work` where forks of a scenario cost little: in a process of its own, which adds to the report as it goes."""
    campaign.ready(one, kind)

    def ready() -> None:
        one.again(campaign.place / "whole")
        work()

    try:
        hot.session(campaign.place / "session", lambda: one.rehearse(campaign.place / "whole"), ready)
    finally:
        campaign.read()


def kills(campaign: Campaign, rng: random.Random, number: int) -> None:
    name = list(RUNS)[number % len(RUNS)]
    one = campaign.whole[name]

    def work() -> None:
        for i in range(RUNS[name]):
            one.found.clear()
            campaign.wrong(killed_until_done(one, campaign.place / f"kills-{number}-{i}", rng))
            add(campaign.part("kills", name), one.found)
            campaign.write()

    rehearsed(campaign, one, "kills", work)


def trained(campaign: Campaign) -> Path:
    """A finished run, for what needs one."""
    folder = campaign.state / "trained"
    if not (folder / "result.json").exists():
        end = run(command("fit", campaign.data, *GRU, "--epochs", 2, "--out", folder), folder)
        assert end.code == 0, end.said
    return folder


def shorts(campaign: Campaign) -> dict[str, Scenario]:
    if not campaign.short:
        campaign.short = {one.name: one for one in full_scenarios(campaign.data, trained(campaign))}
    return campaign.short


def full(campaign: Campaign, rng: random.Random, number: int) -> None:
    """The next writes of the next scenario that has some left."""
    left = [one for one in shorts(campaign).values() if "writes of a run" not in campaign.part("full disk", one.name)]
    if left:
        rehearsed(campaign, left[0], "full", lambda: _full(campaign, left[0]))


def _full(campaign: Campaign, one: Scenario) -> None:
    part = campaign.part("full disk", one.name)
    first = part.get("writes that failed", 0) + 1
    for write in range(first, first + WRITES):
        found = Counter()
        there, wrong = full_at(one, campaign.place / "full", write, found)
        campaign.wrong(wrong)
        add(part, found)
        if not there:
            part["writes of a run"] = write - 1
        campaign.write()
        if not there:
            return


def two(campaign: Campaign, rng: random.Random, number: int) -> None:
    name = ["fit", "tune", "sweep"][number // EVERY["two"] % 3]
    one = shorts(campaign)[name]

    def work() -> None:
        for i in range(PAIRS):
            found = Counter()
            campaign.wrong(two_at_once(one, campaign.place / f"two-{number}-{i}", rng, found))
            add(campaign.part("two processes", name), found)
            campaign.write()

    rehearsed(campaign, one, "full", work)


def memory(campaign: Campaign, rng: random.Random, number: int) -> None:
    found, one = Counter(), campaign.ready(shorts(campaign)["fit"], "full")
    campaign.wrong(too_little_memory(one, campaign.place / f"memory-{number}", rng.choice([25, 50, 100, 200, 400, 800]), found))
    add(campaign.part("limits of memory"), found)


def script(*args: Any, seconds: float = 600.0) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent), *sys.path])}
    return subprocess.run([sys.executable, *map(str, args)], env=env, capture_output=True, text=True, timeout=seconds)


def odd(campaign: Campaign, rng: random.Random, number: int) -> None:
    """A piece of one target after the other, in turns by mutation and guided by coverage."""
    turn = sum(of.get("pieces", 0) for of in campaign.part("odd input").values())
    name = list(TARGETS)[turn % len(TARGETS)]
    part, count = campaign.part("odd input", name), PIECES[name]
    add(part, {"pieces": 1})
    try:
        found = hot.apart(campaign.place / "odd", lambda: fuzz(name, count, number))
    except RuntimeError as error:
        return campaign.wrong([f"fuzz.py {name} {count} {number}: {error}"])
    campaign.wrong(found.pop("wrong"))
    add(part, found)
    if guided := script(HERE / "fuzz.py", name, count, number, "guided"):
        if "No module named 'atheris'" in guided.stderr:
            return None
        if guided.returncode:
            campaign.wrong([f"fuzz.py {name} {count} {number} guided: {guided.stderr[-2500:]}"])
        else:
            add(part, {"inputs guided by coverage": count})
    return None


def hypothesis(campaign: Campaign, rng: random.Random, number: int) -> None:
    """Every property of `one_message.py`, with other examples each time."""
    options = ["--noconftest", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={number}", "--hypothesis-show-statistics"]
    os.environ["LEAPCDE_EXAMPLES"] = "3"
    done = script("-m", "pytest", *options, HERE / "one_message.py")
    passing = sum(map(int, re.findall(r"(\d+) passing, \d+ failing", done.stdout)))
    add(campaign.part("odd input", "Python calls (Hypothesis)"), {"inputs": passing})
    said = [line for line in done.stdout.splitlines() if re.match(r"E |  \| +[A-Za-z]+(Error|Example)|FAILED|Falsifying", line)]
    campaign.wrong(["\n".join(said)[-3000:]] if done.returncode else [])


def pools(campaign: Campaign, rng: random.Random, number: int) -> None:
    kind = POOLS[number // EVERY["pools"] % len(POOLS)]
    done = script(HERE / "pools.py", kind, number)
    if done.returncode:
        return campaign.wrong([f"pools.py {kind} {number}: {done.stderr[-2000:]}"])
    found = json.loads(done.stdout.splitlines()[-1])
    wrong, part = found.pop("wrong"), campaign.part("kills", f"sweep: {kind}")
    campaign.wrong([f"pools.py {kind} {number}: {what}" for what in wrong])
    life = max(part.get("longest life after it", 0.0), found.pop("longest life after it", 0.0))
    add(part, {**found, "runs": 1, "runs with an equal end": int(not wrong)})
    if kind == "parent":
        part["longest life after it"] = life
    return None


def pushes(campaign: Campaign, rng: random.Random, number: int) -> None:
    done = script(HERE / "pushes.py", 10**7, 540, seconds=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    campaign.report["pushes"] = json.loads(done.stdout.splitlines()[-1])


Step = Callable[[Campaign, random.Random, int], Any]
STEPS: dict[str, Step] = {"kills": kills, "full": full, "two": two, "memory": memory, "odd": odd}
STEPS |= {"hypothesis": hypothesis, "pools": pools, "pushes": pushes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=110.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, default=Path("results") / "faults.json")
    parser.add_argument("--only", nargs="*", default=[], choices=list(STEPS), help="only these, in every round")
    parser.add_argument(
        "--state", type=Path, default=Path(tempfile.gettempdir()) / "leapcde-faults", help="kept from piece to piece"
    )
    asked = parser.parse_args()
    asked.state.mkdir(exist_ok=True, parents=True)
    os.environ |= {"LEAPCDE_CACHE": str(asked.state / "cache"), "XLA_FLAGS": hot.FLAGS}
    warm()
    campaign = Campaign(asked.report, asked.state.resolve(), asked.seed)
    while time.monotonic() - campaign.began < 60 * asked.minutes:
        campaign.round(asked.only)
    sys.exit(f"{campaign.report['defects']} defects: {asked.state / 'defects.txt'}" if campaign.report.get("defects") else 0)


if __name__ == "__main__":
    main()
