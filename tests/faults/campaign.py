"""`make test-faults`: kills, full disks, flipped bytes and odd input, for so many minutes; what happened goes to a report.

Rounds are numbered, and each is a function of the seed and its number. A report that is there is gone on with.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
FIT = ["--id", "id", "--time", "t", "--target", "y", "--model", "gru", "-o", "hidden=4", "--epochs", "12", "--batch-size", "8"]
# A run of the command line in which the n-th write to the disk fails; it says whether there were so many.
FULL = """
import os, sys
left = int(sys.argv.pop(1))
def failing(name):
    real = getattr(os, name)
    def call(*args, **how):
        global left
        left -= 1
        if left == 0:
            raise OSError(28, "No space left on device")
        return real(*args, **how)
    setattr(os, name, call)
failing("fsync"), failing("replace")
from leapcde.cli.main import main
try:
    main()
finally:
    print("reached" if left <= 0 else "past the end", file=sys.stderr)
"""


def table(path: Path) -> Path:
    rng, rows = np.random.default_rng(0), 60 * 6
    label = np.repeat(np.arange(60) % 2, 6)
    cells = {"id": np.repeat(np.arange(60), 6), "t": np.tile(np.arange(6), 60), "a": rng.normal(size=rows) + label, "y": label}
    pd.DataFrame(cells).to_csv(path, index=False)
    return path


def leapcde(*args: Any, script: list[str] | None = None) -> list[str]:
    return [sys.executable, *(script or ["-m", "leapcde"]), *map(str, args)]


def outcome(folder: Path) -> dict[str, Any]:
    """What must be equal, however often a run was killed: its numbers and its weights."""
    result = json.loads((folder / "result.json").read_text())
    weights = (folder / "model.safetensors").read_bytes()
    return {"metrics": result["metrics"], "weights": hash(weights), "left": sorted(p.name for p in folder.glob(".*.tmp"))}


def whole(data: Path, folder: Path) -> dict[str, Any]:
    subprocess.run(leapcde("fit", data, *FIT, "--out", folder), check=True, capture_output=True)
    return outcome(folder)


def kills(data: Path, folder: Path, expected: dict[str, Any], rng: random.Random, found: dict[str, int]) -> None:
    """One run, killed at random moments until it gets through."""
    for _ in range(20):
        process = subprocess.Popen(
            leapcde("fit", data, *FIT, "--out", folder), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        try:
            _, said = process.communicate(timeout=rng.uniform(3.0, 9.0))
            break
        except subprocess.TimeoutExpired:
            which = rng.choice([signal.SIGKILL, signal.SIGTERM])
            process.send_signal(which)
            _, said = process.communicate()
            found[which.name] = found.get(which.name, 0) + 1
            in_training = "in training" if (folder / "training.safetensors").exists() else "before training"
            found[in_training] = found.get(in_training, 0) + 1
            found["tracebacks"] = found.get("tracebacks", 0) + (b"Traceback" in said)
    else:
        subprocess.run(leapcde("fit", data, *FIT, "--out", folder), check=True, capture_output=True)
    same = outcome(folder) == expected
    found["equal" if same else "unequal"] = found.get("equal" if same else "unequal", 0) + 1


def full_disk(data: Path, folder: Path, expected: dict[str, Any], number: int, found: dict[str, int]) -> bool:
    """One run in which a write fails, and the same command again; False when there are no more writes to fail."""
    script = leapcde(number, "fit", data, *FIT, "--out", folder, script=["-c", FULL])
    done = subprocess.run(script, capture_output=True, text=True)
    if "past the end" in done.stderr:
        return False
    clean = done.returncode == 2 and "Traceback" not in done.stderr
    found["one message" if clean else "no message"] = found.get("one message" if clean else "no message", 0) + 1
    subprocess.run(leapcde("fit", data, *FIT, "--out", folder), check=True, capture_output=True)
    same = outcome(folder) == expected
    found["equal" if same else "unequal"] = found.get("equal" if same else "unequal", 0) + 1
    return True


def odd_input(seed: int, found: dict[str, int]) -> None:
    """Every property of `one_message.py`, with other examples each time."""
    script = [sys.executable, "-m", "pytest", "--noconftest", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}"]
    done = subprocess.run(
        [*script, HERE / "one_message.py"], env={**os.environ, "LEAPCDE_EXAMPLES": "5"}, capture_output=True, text=True
    )
    found["rounds"] = found.get("rounds", 0) + 1
    found["rounds with another exception"] = found.get("rounds with another exception", 0) + (done.returncode != 0)
    if done.returncode:
        print(done.stdout[-4000:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=110.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, default=Path("results") / "faults.json")
    asked = parser.parse_args()
    report = json.loads(asked.report.read_text()) if asked.report.exists() else {"minutes": 0.0, "round": 0, "seed": asked.seed}
    part = {name: report.setdefault(name, {}) for name in ("kills of fits", "full disk at a write", "odd input")}
    began, writes = time.monotonic(), True
    with tempfile.TemporaryDirectory() as place:
        data = table(Path(place) / "a.csv")
        expected = whole(data, Path(place) / "whole")
        while time.monotonic() - began < 60 * asked.minutes:
            number = report["round"] = report["round"] + 1
            kills(
                data, Path(place) / f"kills-{number}", expected, random.Random(f"{asked.seed} {number}"), part["kills of fits"]
            )
            writes = writes and full_disk(data, Path(place) / f"full-{number}", expected, number, part["full disk at a write"])
            if number % 10 == 1:
                odd_input(asked.seed + number, part["odd input"])
            spent = (time.monotonic() - began) / 60
            asked.report.write_text(json.dumps({**report, "minutes": round(report["minutes"] + spent, 1)}, indent=2) + "\n")
    wrong = [
        f"{name}: {key}" for name, found in part.items() for key in ("unequal", "no message", "tracebacks") if found.get(key)
    ]
    sys.exit("; ".join(wrong) or 0)


if __name__ == "__main__":
    main()
