"""What README and docs say is what the records and the code say."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import pkgutil
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command

import leapcde
import leapcde_paper
from conftest import ROOT
from leapcde.cli import main as cli
from leapcde.datasets.registry import DATASETS
from leapcde.datasets.source import dataset_options_of
from leapcde.training.defaults import PLUS_KNOTS, PLUS_ROWS
from leapcde_paper import docs_numbers
from leapcde_paper.figures.readme_picture import front
from leapcde_paper.report.text import text_page
from leapcde_paper.run.records import read_all
from leapcde_paper.tables.table import score

README = (ROOT / "README.md").read_text()
MODULES = [
    info.name
    for package in (leapcde, leapcde_paper)
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not info.name.endswith("__main__")
]


@pytest.mark.parametrize("page", docs_numbers.PAGES)
def test_numbers_equal_the_records(page):
    text = (ROOT / page).read_text()
    assert "<!-- numbers:" in text
    assert docs_numbers.filled(text) == text, "run: make numbers"


def test_what_is_said_of_sepsis_equals_the_record():
    found = json.loads((ROOT / "results" / "sepsis-probabilities.json").read_text())["test"]
    trees, plus = found["boosted-trees"]["auroc"], found["leap+"]["auroc"]
    page = (ROOT / "docs" / "decisions" / "0017-probabilities-are-frequencies.md").read_text()
    assert f"AUROC {plus:.3f} against {trees:.3f}" in page


def test_baselines_of_other_output_lengths_do_not_mix_with_the_tables():
    found = [r for r in read_all(ROOT / "results" / "standard") if (r["dataset"], r["drop"]) == ("mujoco-as-run", 0.0)]
    scores = {r["config"]["dataset_options"].get("horizon"): score(r) for r in found if r["model"] == "last-value"}
    assert len(scores) == 5
    assert f"| mujoco-as-run, 0% dropped | MSE | last value {scores[None]:.4f}, " in docs_numbers.baselines()


def test_the_page_of_results_equals_the_records():
    folder, page = ROOT / "results" / "standard", ROOT / "docs" / "results.md"
    names = {file.stem for file in page.with_suffix("").glob("*.svg")}
    text = page.read_text()
    assert text_page(read_all(folder), folder, "results", names) == text, "run: make numbers"
    assert all(f"](results/{name}.svg)" in text for name in names)


def test_the_front_picture_is_drawn_from_the_records():
    """Its lines and points, up to what another Matplotlib writes otherwise."""
    lines = lambda text: len(re.findall(r"<path d=", text))
    found, page = front(ROOT), (ROOT / "docs" / "front.svg").read_text()
    assert lines(found) == lines(page) > 4 and "](docs/front.svg)" in README


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert found.failed == 0


def test_public_names_exist_and_are_documented():
    for name in leapcde.__all__:
        assert inspect.getdoc(getattr(leapcde, name)), name
    assert not {f"leapcde.{name}" for name in leapcde.__all__} & set(MODULES)  # an import would put the module in its place
    with pytest.raises(AttributeError):
        leapcde.nothing


def test_what_recipes_say_of_knots_is_what_is_chosen():
    page = (ROOT / "docs" / "guide" / "recipes.md").read_text()
    assert f"more than {PLUS_ROWS} rows at {PLUS_KNOTS} knots" in page


def test_readme_commands_exist_with_their_options():
    """Every `leapcde …` line of the README parses against the real command line."""
    app = get_command(cli.app)
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "data").glob("*.md"))
    lines = re.findall(r"^(?:leapcde) (.+)$", README + pages, re.M)
    assert len(lines) >= 5
    for line in lines:
        words = shlex.split(line, comments=True)
        command = app.commands[words.pop(0)]
        if hasattr(command, "commands"):  # leapcde data …
            command = command.commands[words.pop(0)]
        known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        for word in words:
            assert not word.startswith("-") or word in known, line


def test_readme_python_example_runs_as_printed(tmp_path, monkeypatch):
    """On a small table in which the class can be seen from the values."""
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", README, re.S)[1]
    rng = np.random.default_rng(0)
    rows = []
    for patient in range(60):
        sick = patient % 2
        for hour in np.sort(rng.choice(20, rng.integers(4, 9), replace=False)):
            heart = np.nan if rng.random() < 0.4 else 80 + 3 * sick * hour + rng.normal()
            rows.append({"patient": patient, "hour": hour, "heart": heart, "lactate": rng.normal(), "sepsis": sick})
    small = {"hidden": 8, "depth": 1, "path_width": 8}
    monkeypatch.setattr("leapcde.training.defaults.model_options", lambda *args, **how: small)
    monkeypatch.setattr(
        "leapcde.training.defaults.training_options", lambda *args: {"epochs": 15, "batch_size": 8, "learning_rate": 1e-2}
    )
    scope = {"table": pd.DataFrame(rows), "print": lambda *args: None}
    exec(code, scope)
    assert scope["classifier"].fitted_.evaluate(scope["test"])["auroc"] > 0.8
    again = leapcde.load("sepsis.safetensors")
    assert np.array_equal(again.predict(scope["test"]), scope["classifier"].predict(scope["test"]))


@pytest.mark.slow
def test_readme_example_on_bundled_data_prints_what_it_says(capsys):
    """Up to what another processor rounds otherwise."""
    code, printed = re.search(r"```python\n(.*?)```\n```\n(.*?)```", README, re.S).groups()
    exec(code, {})
    found, said = (float(text.split(" times")[0]) for text in (capsys.readouterr().out, printed))
    assert found == pytest.approx(said, abs=0.03)


def test_the_front_page_is_short():
    assert len(README.splitlines()) <= 120


def test_own_data_example_runs_as_printed(monkeypatch):
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "data" / "own-data.md").read_text(), re.S)[1]
    quick = {"epochs": 20, "batch_size": 8, "learning_rate": 5e-3}
    monkeypatch.setattr("leapcde.training.defaults.training_options", lambda *args: quick)
    scope = {"print": lambda *args: None}
    exec(code, scope)
    assert scope["classifier"].score(scope["test"]) > 0.8


def test_every_data_set_has_a_page():
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "data").glob("*.md"))
    for name, source in DATASETS.items():
        assert f"`{name}`" in pages
        for option in dataset_options_of(source):
            assert f"`{option}`" in pages, f"{name}: {option}"


def imports(file) -> set[str]:
    """The modules that a file imports, wherever in it, but for those that only a type checker sees."""
    tree = ast.parse(file.read_text())
    typing = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    skipped = {id(inner) for node in typing for inner in ast.walk(node)}
    found = set()
    for node in (node for node in ast.walk(tree) if id(node) not in skipped):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_imports_point_backwards():
    """The order of the table in CONTRIBUTING.md: a folder imports only from folders before it."""
    order = re.findall(r"^\| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    home = ROOT / "src" / "leapcde"
    assert {folder.name for folder in home.iterdir() if folder.is_dir() and folder.name != "__pycache__"} == set(order)
    for place, folder in enumerate(order):
        late = {f"leapcde.{other}" for other in order[place + 1 :]}
        for file in (home / folder).rglob("*.py"):
            wrong = {name for name in imports(file) if ".".join(name.split(".")[:2]) in late}
            assert not wrong, f"{file.relative_to(home)} imports {wrong}"


def test_the_library_does_not_know_the_reproduction():
    for file in (ROOT / "src" / "leapcde").rglob("*.py"):
        assert not {name for name in imports(file) if name.startswith("leapcde_paper")}, file


def test_leap_stays_readable():
    lines = (ROOT / "src" / "leapcde" / "models" / "leap.py").read_text().splitlines()
    assert len(lines) <= 200 and max(map(len, lines)) <= 100


@pytest.mark.parametrize("package", ["leapcde", "leapcde_paper"])
def test_no_file_is_too_long_and_no_folder_too_full(package):
    files = list((ROOT / "src" / package).rglob("*.py"))
    assert len(files) > 15
    assert not {file for file in files if len(file.read_text().splitlines()) > 400}
    for folder in {file.parent for file in files}:
        assert len(list(folder.glob("*.py"))) <= 15, folder


@pytest.mark.parametrize("package", ["leapcde", "leapcde_paper"])
def test_every_module_says_what_it_is_for(package):
    for file in (ROOT / "src" / package).rglob("*.py"):
        assert ast.get_docstring(ast.parse(file.read_text())), file
