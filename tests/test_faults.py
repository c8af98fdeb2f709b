"""The seeded part of `make test-faults`, and its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FAULTS = HERE / "faults"
sys.path.append(str(FAULTS))


def test_a_leap_error_or_a_result():
    """In a process where types are not checked, as with users."""
    command = [sys.executable, "-m", "pytest", "--noconftest", "-q", "-x", "-p", "no:cacheprovider", "faults/one_message.py"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


ODD = """
import json, sys
from fuzz import fuzz
print(json.dumps({name: fuzz(name, int(count), 0) for name, count in zip(sys.argv[1::2], sys.argv[2::2])}))
"""
COUNTS = {"table": 30, "array": 300, "archive": 80, "model": 150, "header": 8, "settings": 60, "arguments": 20, "stream": 30}


def test_odd_input_is_refused_or_read_as_it_is(tmp_path):
    words = [str(word) for pair in COUNTS.items() for word in pair]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FAULTS), *sys.path])}
    done = subprocess.run([sys.executable, "-c", ODD, *words], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert not [problem for one in found.values() for problem in one["wrong"]]
    assert all(found[name]["accepted"] for name in ("table", "array", "stream", "archive", "settings", "arguments"))


KILLED = """
import random, sys
from collections import Counter
from pathlib import Path
from disk import full_at
from kills import GRU, Scenario, killed_until_done, table
from server import command, warm
warm()
place = Path(sys.argv[1])
data = table(place / "a.csv")
fit = Scenario("fit", lambda folder: command("fit", data, *GRU, "--epochs", 3, "--out", folder))
fit.undisturbed(place / "whole")
wrong = killed_until_done(fit, place / "killed", random.Random(3), most=3)
wrong += full_at(fit, place / "full", 20, Counter())[1]
print(fit.found["kills"], wrong)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks, and what Linux tells about processes")
def test_a_killed_fit_and_a_full_disk(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FAULTS), *sys.path]), "LEAPCDE_CACHE": str(tmp_path / "cache")}
    script = [sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path)]
    done = subprocess.run(script, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    kills, wrong = done.stdout.splitlines()[-1].split(" ", 1)
    assert int(kills) > 0 and wrong == "[]"


def test_the_page_has_the_numbers_of_the_report():
    import page

    assert page.page(page.PAGE.read_text(), json.loads(page.REPORT.read_text())) == page.PAGE.read_text()
