"""The notebooks run from the first cell to the last, and the pictures of the gallery are made by the commands on its page."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys

import pytest

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PAGE = (ROOT / "docs" / "gallery.md").read_text()
DRAW = ROOT / "docs" / "gallery" / "draw.py"


def cells(path) -> list[str]:
    """The code of a notebook, cell by cell."""
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def run_cell(code: str, scope: dict):
    """Run a cell; the value of its last line, if that is an expression, is what a notebook shows."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), scope)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), scope)


def gallery():
    spec = importlib.util.spec_from_file_location("draw", DRAW)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_notebooks_are_kept_without_output_and_listed():
    listed = re.findall(r"\((\w+\.ipynb)\)", (ROOT / "docs" / "notebooks" / "README.md").read_text())
    assert sorted(listed) == [path.name for path in NOTEBOOKS] and len(listed) == 2
    for path in NOTEBOOKS:
        found = json.loads(path.read_text())
        code = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
        assert found["nbformat"] == 4 and len(code) > 4
        assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
        for text in cells(path):
            ast.parse(text)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    shown = [run_cell(code, scope) for code in cells(path)]
    figures = [one for one in shown if hasattr(one, "savefig")]
    assert len(figures) >= 2
    for number, figure in enumerate(figures):
        figure.savefig(tmp_path / f"{number}.png")  # it can be drawn
    if path.stem == "clinical":
        assert scope["survival"].score(scope["new"]) > 0.6
    else:
        assert (scope["low"] < scope["said"]).all() and (scope["said"] < scope["high"]).all()


def test_every_picture_of_the_gallery_has_its_command_and_its_file():
    module = gallery()
    commands = re.findall(r"^python docs/gallery/draw\.py ([\w-]+)$", PAGE, re.M)
    pictures = re.findall(r"\]\(gallery/([\w-]+)\.svg\)", PAGE)
    assert commands == pictures == list(module.PICTURES)
    assert {path.stem for path in DRAW.parent.glob("*.svg")} == set(pictures)
    assert max(path.stat().st_size for path in DRAW.parent.glob("*.svg")) < 200_000


@pytest.mark.slow
def test_the_commands_draw(tmp_path):
    command = [sys.executable, str(DRAW), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    for name in gallery().PICTURES:
        assert (tmp_path / f"{name}.svg").read_text().count("<path") > 4
