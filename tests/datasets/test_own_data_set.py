"""A data set from outside is one file: the page that says so runs here, in Python and on the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT
from leapcde.datasets import registry
from leapcde.datasets.source import Read, Source
from leapcde.errors import InputError, LeapWarning

PAGE = (ROOT / "docs" / "extending.md").read_text().split("## A data set\n")[1]
FILE, USE = re.findall(r"```python\n(.*?)```", PAGE, re.S)
ENTRY_POINT = re.search(r'```toml\n\[project\.entry-points\."(.*?)"\]\n(.*?)```', PAGE, re.S)


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A folder with the page's one file, importable; what it registers is forgotten afterwards."""
    (tmp_path / "pulses.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "DATASETS", dict(registry.DATASETS))
    yield tmp_path
    sys.modules.pop("pulses", None)


def install(folder, name: str = "pulses", points: str = ENTRY_POINT[2].replace('"', "")) -> None:
    """What pip writes beside a package."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{ENTRY_POINT[1]}]\n{points}")


def command(folder, *words: str) -> dict:
    """`python -m leapcde …` as a user has it: a new process that knows nothing of this test."""
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "leapcde", *words, "--json"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_page_is_short():
    assert len(FILE.splitlines()) < 30


def test_the_page_runs_as_printed(outside):
    import pulses  # noqa: F401  # pyright: ignore

    scope = {"print": lambda *args: None}
    exec(USE, scope)
    data = scope["data"]
    assert data.name == "pulses" and data.options["samples"] == 60 and data.options["drop"] == 0.3
    assert [len(part) for part in data.parts.values()] == [42, 9, 9]
    assert scope["classifier"].score(data.test, data.test.target) > 0.8
    with pytest.raises(InputError, match="option samples='many': give a whole number above 0"):
        registry.load("pulses", samples="many")


@pytest.mark.slow
def test_the_command_line_trains_on_what_a_package_offers(outside):
    install(outside)
    listed = {row["name"]: row for row in command(outside, "data", "list")["datasets"]}
    assert listed["pulses"]["options"] == {"samples": 40} and listed["pulses"]["state"] == "40 samples"
    assert command(outside, "data", "check", "pulses")["ok"] is True
    found = command(outside, "train", "pulses", "--model", "gru", "--epochs", "2", "-o", "hidden=4", "--out", "run")
    assert 0 <= found["test"]["accuracy"] <= 1 and (outside / "run" / "model.safetensors").is_file()


def test_a_broken_package_is_a_warning(outside, monkeypatch):
    install(outside, "broken", "broken = no_such_module\n")
    with pytest.warns(LeapWarning, match=r"data set 'broken' \(no_such_module\) cannot be used"):
        registry.discover()


def test_names_are_registered_once(outside):
    read = lambda data_dir, options: Read(None, {})
    for taken in ("hopper", "uea:Mine", "mine.ts"):
        with pytest.raises(InputError, match="already; choose another name"):
            registry.register_dataset(Source(taken, "classification", read))
