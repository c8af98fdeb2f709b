"""The pages of the guide run as printed, and its commands exist."""

from __future__ import annotations

import pydoc
import re
import shlex

import numpy as np
import pytest
from typer.main import get_command

from conftest import ROOT
from leapcde.cli import main as cli

GUIDE = ROOT / "docs" / "guide"


@pytest.mark.filterwarnings("ignore:never observed")
@pytest.mark.filterwarnings("ignore:the learned path was no better")  # the page says so
@pytest.mark.slow
def test_the_tutorial_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (GUIDE / "tutorial.md").read_text(), re.S)
    assert len(blocks) == 7
    scope: dict = {}
    exec("\n".join(blocks), scope)
    assert (scope["classifier"].fitted_.name, scope["causal"].fitted_.name) == ("leap+", "leap+")
    for trained in (scope["classifier"], scope["causal"]):
        assert trained.score(scope["X"][:90], scope["y"][:90]) > 0.7
    assert scope["live"].predict() == scope["causal"].predict(scope["X"][100:101])[0]
    assert np.isfinite(scope["filled"][0]).all()
    covered = (scope["low"] <= scope["falls"][120:, 25:]) & (scope["falls"][120:, 25:] <= scope["high"])
    assert 0.8 < np.mean(covered) < 0.98
    assert (tmp_path / "why.html").read_text().count("<img") == 6


@pytest.mark.parametrize("page", ["tutorial.md", "recipes.md"])
def test_commands_and_links_of_the_guide(page):
    text = (GUIDE / page).read_text()
    app = get_command(cli.app)
    for line in re.findall(r"^leapcde (.+)$", text, re.M):
        words = shlex.split(line)
        known = {flag for p in app.commands[words[0]].params for flag in (*p.opts, *p.secondary_opts)}
        assert all(word in known for word in words if word.startswith("--")), line
    for target in re.findall(r"\]\((\w[\w.-]+\.md)\)", text):
        assert (GUIDE / target).exists()


def test_every_public_name_is_in_the_reference():
    """Names that people use; the pages hold nothing that does not exist."""
    text = "\n".join(page.read_text() for page in GUIDE.glob("api-*.md"))
    listed = re.findall(r"^::: leapcde\.([\w.]+)", text, re.M)
    assert [name for name in listed if pydoc.locate(f"leapcde.{name}") is None] == []
    assert {"LeapClassifier", "LeapRegressor", "LeapForecaster", "load", "as_series", "from_table"} <= set(listed)
