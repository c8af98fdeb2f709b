"""Peak memory of a fresh process that trains, data set by data set: `python benchmarks/memory.py`.

Each case is a process of its own, whose peak (resident set) is what the operating system counts. It reads the data set, makes
some steps of training, and answers for all validation data: later epochs need no more. The data sets lie in LEAPCDE_DATA.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

RECORD = Path(__file__).with_name("memory.json")
STEPS = 64
CASES = {  # data set, model, paper's settings; and megabytes that it may need
    "sepsis-leap": ("sepsis", "leap", True, 1500),
    "sepsis-default": ("sepsis", "leap+", False, 1000),
    "characters-leap": ("character-trajectories", "leap", True, 1000),
    "characters-default": ("character-trajectories", "leap+", False, 1000),
    "speech-leap": ("speech-commands", "leap", True, 1000),
    "speech-default": ("speech-commands", "leap+", False, 1000),
}


class Enough(Exception):
    pass


def one(case: str) -> None:
    """Train for some steps, predict, and print the peak."""
    from leapcde.datasets.registry import load
    from leapcde.estimators.classifier import LeapClassifier
    from leapcde.training import loop
    from leapcde.training.config import TrainConfig
    from leapcde.training.predict import predict
    from leapcde_paper import presets

    name, model, paper, _ = CASES[case]
    data = load(name)
    intensity = name == "sepsis"
    settings = {}
    if paper:
        training = TrainConfig(**presets.paper_training(name))
        settings = {"training": training, "options": presets.paper_options(name, model)}
    given = {}

    def stopped(model, task, train, validation, config, *, on_step=None, on_epoch=None, **how):
        def step(done: int, steps: int) -> None:
            if done >= min(STEPS, steps):
                raise Enough

        given.update(model=model, validation=validation)
        return original(model, task, train, validation, config, on_step=step, **how)

    from leapcde.training import fitted

    original, fitted.fit = loop.fit, stopped
    told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        LeapClassifier(model, intensity=intensity, **settings).fit(data.train, validation=data.validation)
    except Enough:
        predict(given["model"], given["validation"])
    print(json.dumps({"loaded": told // 1024, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


def main() -> None:
    found = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    env = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    for case in sys.argv[1:] or CASES:
        done = subprocess.run([sys.executable, __file__, "one", case], env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        megabytes = json.loads(done.stdout.splitlines()[-1])
        found[case] = {**megabytes, "may_need": CASES[case][3]}
        print(case, found[case], flush=True)
        RECORD.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    one(sys.argv[2]) if sys.argv[1:2] == ["one"] else main()
