"""Sweeps whose workers, or whose parent, are killed: `python tests/faults/pools.py loky|parent|dask SEED` prints what happened.

In a process of its own, because loky and Dask start theirs anew and JAX must not have begun in the one that forks.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from kills import cells, of_sweep

HERE = Path(__file__).parent
SWEEP = """
import sys
from pathlib import Path
from kills import cells
from leapcde_paper.run.sweep import sweep
if __name__ == "__main__":
    found = sweep(cells(), Path(sys.argv[1]), jobs=int(sys.argv[2]))
    assert not found.failures, found.failures
"""
PATIENCE = 20.0  # seconds after which a worker has outlived its sweep
LOOK, LATER = 0.01, 0.3  # seconds from look to look whether cells train, and at most from then to the kill


def started(folder: Path, jobs: int) -> subprocess.Popen:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    return subprocess.Popen([sys.executable, "-c", SWEEP, str(folder), str(jobs)], env=env, stderr=subprocess.PIPE)


def workers_of(pid: int) -> list[psutil.Process]:
    """Processes under another one that compute; not those that only look after resources."""
    with suppress(psutil.Error):
        below = psutil.Process(pid).children(recursive=True)
        return [one for one in below if not any("resource_tracker" in word for word in one.cmdline())]
    return []


def at_work(folder: Path) -> bool:
    return any(folder.glob("cells/*/training*.safetensors"))


def kill_workers(folder: Path, rng: random.Random, found: dict[str, Any]) -> None:
    """One worker after the other, at most two between two finished cells: with three the sweep gives up, as it says."""
    process, last, count = started(folder, 2), -1, 0
    while process.poll() is None:
        time.sleep(rng.uniform(0.0, LATER) if at_work(folder) else LOOK)
        records = len(list(folder.glob("records/*.json")))
        last, count = (last, count) if records == last else (records, 0)
        living = workers_of(process.pid)
        if living and at_work(folder) and count < 2:
            with suppress(psutil.Error):
                rng.choice(living).send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
                found["kills"] += 1
                count += 1
            time.sleep(1.0)  # for the others to be told, and for a worker in its place
    if process.returncode != 0:
        assert process.stderr is not None
        found["wrong"].append(f"exit code {process.returncode}: {process.stderr.read()[-1500:]!r}")


def kill_parent(folder: Path, rng: random.Random, found: dict[str, Any]) -> None:
    """The parent, in the middle of its work; its workers must follow it."""
    for _ in range(3):
        process = started(folder, 2)
        while not at_work(folder) and process.poll() is None:
            time.sleep(LOOK)
        time.sleep(rng.uniform(0.0, LATER))
        below = workers_of(process.pid)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        found["kills"] += 1
        process.wait()
        began = time.monotonic()
        _, alive = psutil.wait_procs(below, timeout=PATIENCE)
        found["longest life after it"] = max(found.get("longest life after it", 0.0), round(time.monotonic() - began, 2))
        found["wrong"] += [f"a worker outlives its sweep by more than {PATIENCE:g} s"] * len(alive)
    if started(folder, 2).wait() != 0:
        found["wrong"].append("the same sweep does not go on")


def kill_dask(folder: Path, rng: random.Random, found: dict[str, Any]) -> None:
    """Workers of a Dask cluster, which starts new ones in their place."""
    import distributed
    from dask import config

    from leapcde_paper.run.sweep import sweep

    environ = {**config.get("distributed.nanny.pre-spawn-environ"), "PYTHONPATH": os.pathsep.join(sys.path)}
    over = threading.Event()
    with (
        config.set({"distributed.nanny.pre-spawn-environ": environ}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
    ):

        def attack() -> None:
            while not over.wait(rng.uniform(0.0, LATER) if at_work(folder) else LOOK):
                living = [worker.pid for worker in cluster.workers.values() if worker.pid]
                if living and at_work(folder) and found["kills"] < 4:
                    with suppress(ProcessLookupError):
                        os.kill(rng.choice(living), signal.SIGKILL)
                        found["kills"] += 1
                    over.wait(1.0)  # for a worker in its place

        attacker = threading.Thread(target=attack)
        attacker.start()
        failures = sweep(cells(), folder, cluster=cluster.scheduler_address).failures
        over.set()
        attacker.join()
    found["wrong"] += [str(one) for one in failures]


def main(kind: str, seed: int) -> None:
    found: dict[str, Any] = {"kills": 0, "wrong": []}
    attack = {"loky": kill_workers, "parent": kill_parent, "dask": kill_dask}[kind]
    with tempfile.TemporaryDirectory() as place:
        folder, whole = Path(place) / "killed", Path(place) / "whole"
        attack(folder, random.Random(seed), found)
        found["wrong"] += [] if started(whole, 1).wait() == 0 else ["the undisturbed sweep fails"]
        if of_sweep(folder) != of_sweep(whole):
            found["wrong"].append("another result")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
