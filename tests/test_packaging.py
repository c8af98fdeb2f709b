"""The package says one thing about itself: one version, extras that exist, pages that build, folders in order."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import chain

import pytest
import yaml

import leapcde
from conftest import ROOT
from leapcde.cli.doctor import EXTRAS, NEEDED

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LIBRARY = ROOT / "src" / "leapcde"


def name_of(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0]


def test_the_version_is_written_once():
    assert PROJECT["project"]["dynamic"] == ["version"] and "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/leapcde/__init__.py"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == leapcde.__version__
    assert f"## {leapcde.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_doctor_lists_every_extra():
    extras = {name: tuple(map(name_of, items)) for name, items in PROJECT["project"]["optional-dependencies"].items()}
    del extras["dev"]
    assert extras == EXTRAS


def test_doctor_lists_the_heavy_dependencies():
    named = {name_of(item) for item in PROJECT["project"]["dependencies"]}
    assert set(NEEDED) - {"leapcde", "jaxlib"} <= named


def test_hints_name_extras_that_exist():
    """need("module", "extra") tells the user what to install."""
    sources = "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    asked = set(re.findall(r'\bneed\(\s*"[\w.]+", "(\w+)"\)', sources))
    assert len(asked) >= 3 and asked <= set(EXTRAS)


def test_pins_are_versions_and_nothing_else():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    every = [*PROJECT["project"]["dependencies"], *chain(*PROJECT["project"]["optional-dependencies"].values())]
    assert {name_of(item).lower().replace("_", "-") for item in every} - {"leapcde"} <= pinned


HEAVY = {"jax", "pandas", "sklearn", "scipy.stats", "diffrax", "optax", "matplotlib", "rich.progress"}
NEEDED_BY = {  # what takes long to load, and who loads it nevertheless
    "import leapcde": set(),
    "import leapcde.cli.main": set(),
    "from leapcde.models.registry import MODELS": {"jax"},  # `leapcde models`
    "from leapcde import LeapClassifier": {
        "jax",
        "optax",
        "rich.progress",
        "sklearn",
        "pandas",
        "scipy.stats",
    },  # by sklearn.base
}


@pytest.mark.parametrize("code", NEEDED_BY)
def test_nothing_heavy_is_loaded_before_it_is_needed(code):
    more = {"sklearn.metrics", "sklearn.linear_model", "sklearn.model_selection", "sklearn.preprocessing"}
    asked = f"{code}; import sys; print(*{HEAVY | more!r} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) <= NEEDED_BY[code]


def test_hashes_are_of_the_pinned_versions():
    """`make hashes` writes them; torch, which only benchmarks need, is left out."""
    text = (ROOT / "requirements-hashed.txt").read_text()
    found = [entry.split() for entry in re.sub(r"\\\n", " ", text).splitlines() if not entry.startswith("#")]
    assert all(len(hashes) and all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes) for _, *hashes in found)
    plain = lambda line: line.lower().replace("_", "-")
    pinned = {plain(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("torch")}
    assert {plain(name) for name, *_ in found} == pinned and "://" not in text


WITHOUT_EXTRAS = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import leapcde.cli.main, leapcde.cli.demo, leapcde.datasets.registry, leapcde.estimators.load
"""


def test_the_core_needs_no_extra():
    """`make demo` installs the library and its pictures only."""
    blocked = [
        "optuna",
        "pyarrow",
        "dask",
        "distributed",
        "dm_control",
        "mujoco",
        "librosa",
        "soundfile",
        "aeon",
        "torch",
        "umap",
        "mlflow",
        "tensorboard",
    ]
    code = WITHOUT_EXTRAS.format(blocked=blocked)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT / "src")


def test_contracts_name_every_folder():
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    there = {path.stem for path in LIBRARY.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(layers) == there - {"__init__", "__main__"} and len(layers) == len(set(layers))


@pytest.mark.parametrize("package", ["leapcde", "leapcde_paper"])
def test_files_and_folders_stay_small(package):
    files = list((ROOT / "src" / package).rglob("*.py"))
    assert not [file for file in files if len(file.read_text().splitlines()) > 400]
    folders = {file.parent for file in files}
    assert not [folder for folder in folders if sum(path.is_file() for path in folder.iterdir()) > 15]


# Habits


def test_public_ci_runs_every_python_that_is_promised():
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["test"]["strategy"]["matrix"]
    promised = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert matrix["python"] == promised and PROJECT["project"]["requires-python"] == f">={promised[0]}"
    assert {"highest"} | {row["versions"] for row in matrix["include"]} >= {"highest", "lowest-direct", "pinned"}


def test_hooks_are_local_and_make_has_their_tools():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    lint = re.search(r"^lint:.*?(?=^\S|\Z)", (ROOT / "Makefile").read_text(), re.S | re.M)[0]
    for hook in hooks[0]["hooks"]:
        assert hook["entry"].split()[0].removeprefix(".venv/bin/") in lint


def test_help_lists_every_target():
    text = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", text, re.M)[1].split()
    assert targets == [name for name in targets if re.search(rf"^{name}:.*## \S", text, re.M)]


# Pages


def pages_of(nav) -> set[str]:
    if isinstance(nav, str):
        return {nav}
    return set().union(*(pages_of(item) for item in (nav.values() if isinstance(nav, dict) else nav)))


def test_every_page_is_in_the_navigation():
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]) == there


def test_the_pages_build_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LeapClassifier" in (tmp_path / "guide" / "api-estimators" / "index.html").read_text()
