"""Peak memory of a fresh process that trains, data set by data set: `python benchmarks/memory.py [CASE...]`.

Each case is a process of its own, whose peak (resident set) is what the operating system counts. It reads the data set, makes
a few calls of the compiled training step, and answers for all validation data: later steps need no more. The data sets lie in
LEAPCDE_DATA. Results are kept in benchmarks/memory.json, in megabytes.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("memory.json")
CALLS = 2  # of the compiled step, each of which makes several
# data set, model, budget of the reproduction (none: what the estimator chooses), megabytes that it may need
CASES: dict[str, tuple[str, str, str | None, int]] = {
    "sepsis-default": ("sepsis", "leap+", None, 1000),
    "sepsis-leap": ("sepsis", "leap", "standard", 1500),
    "characters-default": ("character-trajectories", "leap+", None, 1000),
    "characters-leap": ("character-trajectories", "leap", "standard", 1000),
    "speech-default": ("speech-commands", "leap+", None, 1000),
    "speech-leap": ("speech-commands", "leap", "standard", 1000),
    "sepsis-leap-full": ("sepsis", "leap", "full", 1500),
}


class EnoughError(Exception):
    """Training has shown what it needs."""


def one(case: str) -> None:
    """Train for a few calls, predict, and print the peak after each."""
    from leapcde.datasets.registry import load
    from leapcde.estimators.classifier import LeapClassifier
    from leapcde.training import fitted
    from leapcde.training.predict import predict
    from leapcde_paper import budgets

    name, model, budget, _ = CASES[case]
    settings: dict[str, Any] = {"intensity": name == "sepsis"}
    if budget is not None:
        cell = budgets.config(budgets.budget(budget), name, 0.0, model, {}, {})
        settings = {"training": cell.train, "options": cell.options}
        settings |= {"interpolation": cell.recipe.interpolation, "intensity": cell.recipe.intensity}
    data = load(name)
    found, given, original = {"loaded": peak()}, {}, fitted.fit

    def stopped(model, task, train, validation, config, **how):
        calls = []

        def on_step(done: int, steps: int) -> None:
            calls.append(done)
            if len(calls) == CALLS or done == steps:
                raise EnoughError

        given.update(model=model, validation=validation)
        return original(model, task, train, validation, config, **{**how, "on_step": on_step})

    fitted.fit = stopped
    try:
        LeapClassifier(model, **settings).fit(data.train, validation=data.validation)
    except EnoughError:
        found["trained"] = peak()
        predict(given["model"], given["validation"])
    print(json.dumps({**found, "peak": peak()}))


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    found = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    env = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    for case in sys.argv[1:] or CASES:
        done = subprocess.run([sys.executable, __file__, "one", case], env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found[case] = {**json.loads(done.stdout.splitlines()[-1]), "may_need": CASES[case][3]}
        print(case, found[case], flush=True)
        RECORD.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(sys.argv[2])
    else:
        main()
