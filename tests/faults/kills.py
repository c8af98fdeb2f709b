"""Runs that are killed again and again until they get through: nothing is lost, and the end is that of a run left alone."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from server import Counted, End, Moment, any_moment, command, in_here, run

from leapcde.errors import LeapError
from leapcde.files import load_file

CLOCK = ("seconds", "cpu_seconds", "digest", "process_bytes", "commit")
COLUMNS = ["--id", "id", "--time", "t", "--target", "y", "-q"]
GRU = [*COLUMNS, "--model", "gru", "-o", "hidden=4", "--batch-size", "8"]
MOST = 6  # kills of one run
Found = dict[str, Any]


def table(path: Path) -> Path:
    """Sixty samples of two classes, six rows each."""
    rng, rows = np.random.default_rng(0), 60 * 6
    label = np.repeat(np.arange(60) % 2, 6)
    cells = {"id": np.repeat(np.arange(60), 6), "t": np.tile(np.arange(6), 60), "a": rng.normal(size=rows) + label, "y": label}
    pd.DataFrame(cells).to_csv(path, index=False)
    return path


def timeless(value: Any) -> Any:
    """Without what the clock says."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in CLOCK}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def of_model(path: Path) -> Any:
    arrays, about = load_file(path, "model")
    return timeless(about), {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}


def of_run(folder: Path) -> Any:
    """What must be equal: numbers, header and every bit of the weights. No unfinished file may be left."""
    result = timeless(json.loads((folder / "result.json").read_text()))
    return result, of_model(folder / "model.safetensors"), names(folder)


def leftovers(folder: Path) -> list[str]:
    """Files that are half written, or locks of those who wrote them."""
    return sorted(path.name for path in folder.rglob("*") if path.name.endswith(".tmp") or ".lock" in path.name)


def names(folder: Path) -> list[str]:
    """All that lies there: a run that was killed leaves the files of one that was not."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def epochs_kept(folder: Path) -> dict[str, int]:
    """Of each checkpoint of a run, how many epochs it holds; what is finished holds all of them."""
    found = {}
    for path in folder.rglob("*training*.safetensors"):
        try:
            found[str(path.relative_to(folder)).replace(".older", "")] = len(load_file(path, "training")[1]["history"])
        except LeapError:
            continue
    return found


@dataclass
class Scenario:
    """What is run, what of it must be equal, and what must never become less."""

    name: str
    job: Callable[[Path], Callable[[], None]]
    outcome: Callable[[Path], Any] = of_run
    kept: Callable[[Path], dict[str, Any]] = epochs_kept
    expected: str = ""
    files: int = 0
    seconds: float = 0.0
    found: Counter = field(default_factory=Counter)

    def rehearse(self, place: Path) -> None:
        """A whole run and one that is stopped and goes on, in this very process: later forks find every program ready."""
        shutil.rmtree(place, ignore_errors=True)
        in_here(self.job(place))
        shutil.rmtree(place, ignore_errors=True)
        watch = Counted(place, Moment(signal.SIGTERM, 0.0, self.files // 2))
        sys.addaudithook(watch)
        in_here(self.job(place))
        watch.on = False
        in_here(self.job(place))
        shutil.rmtree(place, ignore_errors=True)

    def again(self, place: Path) -> None:
        """One more run that nobody touches, after a rehearsal: as fast as those that will be killed, and with the same end."""
        end = run(self.job(place), place)
        assert end.code == 0 and self.ended(place) == self.expected, f"after a rehearsal {self.name} ends in another way: {end}"
        self.files, self.seconds = end.files, end.seconds
        shutil.rmtree(place)

    def undisturbed(self, place: Path, memory: Path | None = None) -> None:
        """What comes out when nobody interferes; twice, because the first time programs are compiled.

        `memory` is a file that keeps it for later pieces of a campaign.
        """
        if memory is not None and memory.exists():
            self.files, self.seconds, self.expected = json.loads(memory.read_text())
            return
        for i in range(2):
            shutil.rmtree(place, ignore_errors=True)
            end = run(self.job(place), place)
            assert end.code == 0, end.said[-3000:]
            self.files, self.seconds, again = end.files, end.seconds, self.ended(place)
            assert i == 0 or again == self.expected, f"{self.name}: two undisturbed runs differ"
            self.expected = again
        shutil.rmtree(place)
        if memory is not None:
            memory.write_text(json.dumps([self.files, self.seconds, self.expected]))

    def ended(self, place: Path) -> str:
        """A digest of what must be equal; a folder in which it is not all there has another one."""
        try:
            return hashlib.sha256(repr(self.outcome(place)).encode()).hexdigest()
        except (OSError, LeapError, ValueError, KeyError) as error:
            return f"not all there: {type(error).__name__}: {error}"


def lost(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What a kill took away."""
    less = lambda old, new: new < old if isinstance(old, int) else new != old
    return [name for name, value in before.items() if name in after and less(value, after[name])]


def killed_until_done(scenario: Scenario, place: Path, rng: random.Random, most: int = MOST) -> list[str]:
    """One run, killed at most so many times, and let through then. Returns what was wrong."""
    wrong, kept, found = [], {}, scenario.found
    for _ in range(rng.randint(1, most)):
        reach = rng.choice([0.3, 1.0])  # of one run: several kills in its first part, or one towards its end
        moment = any_moment(rng, round(reach * scenario.files), reach * scenario.seconds)
        end = run(scenario.job(place), place, moment=moment)
        if end.code == 0:
            break
        found["kills"] += 1
        found[moment.signal.name] += 1
        found[_when(place)] += 1
        over = end.code == -signal.SIGTERM and scenario.ended(place) == scenario.expected  # it was on its way out
        wrong += [] if over else [f"{scenario.name}, {moment}: {what}" for what in _unclean(end, moment.signal)]
        now = scenario.kept(place)
        wrong += [f"{scenario.name}, {moment}: lost {name}" for name in lost(kept, now)]
        kept |= now
    end = run(scenario.job(place), place)
    found["runs"] += 1
    if end.code != 0:
        wrong.append(f"{scenario.name}: the same command does not go on: {end.said[-1500:]}")
    elif (ended := scenario.ended(place)) != scenario.expected:
        wrong.append(f"{scenario.name}: another result, {ended}: {names(place)}")
        shutil.copytree(place, place.with_name(f"wrong-{place.name}"), dirs_exist_ok=True)  # for who mends it
    else:
        found["runs with an equal end"] += 1
    shutil.rmtree(place, ignore_errors=True)
    return wrong


def _unclean(end: End, sent: signal.Signals) -> list[str]:
    if "Traceback" in end.said:
        return [f"a traceback: {end.said[-1500:]}"]
    fine = {signal.SIGKILL: (-9,), signal.SIGTERM: (143,)}[sent]
    return [] if end.code in fine else [f"exit code {end.code}: {end.said[-500:]}"]


def _when(place: Path) -> str:
    if leftovers(place):
        return "with a file half written"
    if any(place.rglob("*training*.safetensors")) or any(place.rglob("study.journal")):
        return "in training" if not any(place.rglob("result.json")) else "in what follows training"
    return "before training"


# What is run ----------------------------------------------------------------------------------------------------------


def finished_trials(folder: Path) -> dict[str, Any]:
    """Trials of a study that are through, as its journal has them."""
    import warnings

    from leapcde.estimators.tune import _open

    if not (folder / "study.journal").exists():
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _open(folder, "auroc", 0).trials
    return {str(t.number): [t.value, sorted(map(str, t.params.items()))] for t in found if t.state.is_finished()}


def of_study(folder: Path) -> Any:
    """Which settings come after a kill may differ (the sampler has seen other trials); that all trials were made, that the
    best is the best of them and that its run has the very number of its trial, may not."""
    best = json.loads((folder / "best.json").read_text())
    history = json.loads((folder / "best" / "result.json").read_text())["history"]
    same = max(row["auroc"] for row in history) == best["best_trials"][0]["value"]
    highest = max(trial[0] for trial in finished_trials(folder).values() if trial[0] is not None)
    return best["finished"] + best["pruned"], same, highest == best["best_trials"][0]["value"], leftovers(folder)


def tune_job(data: Path, *more: Any) -> Callable[[Path], Callable[[], None]]:
    """The command, which would choose sizes too; here only what needs no other program, so that none is compiled in a fork."""

    def make(folder: Path) -> Callable[[], None]:
        def job() -> None:
            from leapcde.estimators import tune

            real = tune.tune
            tune.tune = lambda *given, **how: real(*given, **{**how, "space": {"learning_rate": (1e-3, 3e-3, 1e-2, 3e-2)}})
            try:
                command("tune", data, *COLUMNS, "--model", "rnn", *more, "--out", folder)()
            finally:
                tune.tune = real

        return job

    return make


def sweep_job(folder: Path) -> Callable[[], None]:
    def job() -> None:
        from leapcde.cli.options import stopping_cleanly
        from leapcde_paper.run.sweep import sweep

        try:
            with stopping_cleanly():
                failures = sweep(cells(), folder).failures
        except KeyboardInterrupt:  # as commands do
            raise SystemExit(143) from None
        if failures:
            print(*(failure.message for failure in failures), sep="\n")
            raise SystemExit(2)

    return job


def cells() -> list[Any]:
    """A few baselines, and two models that train for a dozen epochs."""
    from leapcde.training.config import TrainConfig
    from leapcde_paper.run.cell import Cell, CellConfig

    size: dict[str, Any] = {"samples": 40, "length": 12}
    trained = [CellConfig("hopper", "rnn", 0.3, {"hidden": 4}, train=TrainConfig(epochs=12, seed=seed)) for seed in (1, 2)]
    made = [CellConfig("hopper", name, drop) for name in ("last-value", "ridge") for drop in (0.0, 0.3)]
    return [Cell(config, "own", **size) for config in [*made, *trained]]


def of_sweep(folder: Path) -> Any:
    from leapcde_paper.run import records

    keys = ("metrics", "history", "parameters", "config")
    found = {r["id"]: timeless({key: r[key] for key in keys}) for r in records.read_all(folder)}
    return found, names(folder)


def records_kept(folder: Path) -> dict[str, Any]:
    """A record that is there is never touched again."""
    stamps = {path.name: [path.stat().st_mtime_ns] for path in (folder / "records").glob("*.json")}
    return {**stamps, **epochs_kept(folder)}


def scenarios(data: Path) -> list[Scenario]:
    fit = lambda *more: lambda folder: command("fit", data, *more, "--out", folder)
    return [
        Scenario("fit", fit(*GRU, "--epochs", 12)),
        Scenario("fit of an ensemble, --final", fit(*GRU, "--epochs", 4, "--ensemble", 2, "--final")),
        Scenario("race", fit(*COLUMNS, "--epochs", 3, "--batch-size", 16, "--time-limit", "5h")),
        Scenario(
            "tune",
            tune_job(data, "--trials", 5, "--epochs", 3),
            of_study,
            finished_trials,
        ),
        Scenario("sweep", sweep_job, of_sweep, records_kept),
    ]
