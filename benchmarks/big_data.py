"""A Parquet folder larger than memory should be: made, stored, trained for an epoch; beside it a part of it in memory.

    python benchmarks/big_data.py make FOLDER --gigabytes 10    # random walks of 20 channels, 50 rows a sample, ids scattered
    python benchmarks/big_data.py run FOLDER --model leap+      # writes benchmarks/big_data.json

Each training is a process of its own, whose peak (resident set) is what the operating system counts. The part in memory is
small, so compiling would be most of its first epoch: it trains for more, and the last one counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RECORD = Path(__file__).with_name("big_data.json")
CHANNELS, ROWS, FILE_ROWS = 20, 50, 1_000_000
BATCH = 128
MODELS: dict[str, dict] = {"gru": {"hidden": 32}, "leap+": {}}  # the cheapest of all, and the default
EPOCHS = {"store": 1, "memory": 3}


def make(folder: Path, gigabytes: float) -> None:
    """Files of a million rows. A sample's rows come one after the other, but every tenth lies in another file."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    files = max(2, round(gigabytes * 1e9 / (4 * CHANNELS * FILE_ROWS)))
    samples = FILE_ROWS // ROWS
    held = None
    for k in range(files):
        rng = np.random.default_rng(k)
        label = rng.integers(0, 2, samples)
        values = rng.normal(size=(samples, ROWS, CHANNELS)).astype(np.float32).cumsum(1)
        values[..., 0] += label[:, None] * np.linspace(0, 2, ROWS, dtype=np.float32)
        rows = {
            "id": np.repeat(np.arange(samples) + k * samples, ROWS),
            "t": np.tile(np.arange(ROWS, dtype=np.float32), samples),
        }
        rows |= {f"x{c}": values[..., c].ravel() for c in range(CHANNELS)} | {"label": np.repeat(label, ROWS)}
        table = pd.DataFrame(rows)
        moved = np.arange(len(table)) % 10 == 9
        part = table[~moved] if held is None else pd.concat([held, table[~moved]])
        held = table[moved]
        if k == files - 1:
            part = pd.concat([part, held])
        part.to_parquet(folder / f"part-{k:05d}.parquet", index=False)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def one(folder: Path, where: str, model: str) -> None:
    """Train on all of the folder as it comes, or on a twentieth of its samples in memory."""
    from leapcde.data import table_file
    from leapcde.data.columns import Columns
    from leapcde.data.series import join
    from leapcde.estimators.classifier import LeapClassifier

    began = time.perf_counter()
    data = table_file.load(folder, Columns("id", "t", "label"))
    loaded, after = time.perf_counter() - began, peak()
    train, held = data.train, data.validation
    if where == "memory":
        train, held = (join([part.part(0, len(part) // 20)]) for part in (train, held))  # a copy, whose rows are in memory
    settings = {"options": MODELS[model], "batch_size": BATCH, "epochs": EPOCHS[where]}
    learner = LeapClassifier(model, **settings).fit(train, validation=held)
    row = learner.history_[-1]
    rows = len(train.times) + len(held.times)
    found = {"rows": rows, "seconds_to_store": round(loaded, 1), "megabytes_after_store": after, "megabytes": peak()}
    found |= {"microseconds_a_row": 1e6 * row["seconds"] / rows, "cpu_microseconds_a_row": 1e6 * row["cpu_seconds"] / rows}
    print(json.dumps(found))


def run(folder: Path, model: str) -> None:
    found: dict = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    found["gigabytes"] = round(sum(file.stat().st_size for file in folder.iterdir()) / 1e9, 2)
    env = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    for where in EPOCHS:
        command = [sys.executable, __file__, "one", str(folder), "--where", where, "--model", model]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found.setdefault(model, {})[where] = json.loads(done.stdout.splitlines()[-1])
        print(where, found[model][where], flush=True)
        RECORD.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "run", "one"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--where", choices=list(EPOCHS), default="store")
    parser.add_argument("--model", choices=list(MODELS), default="leap+")
    parser.add_argument("--gigabytes", type=float, default=10.0)
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder, given.gigabytes)
    elif given.what == "run":
        run(given.folder, given.model)
    else:
        one(given.folder, given.where, given.model)


if __name__ == "__main__":
    main()
