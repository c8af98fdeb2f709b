"""Shape annotations are checked while tests run, and real data is found here or the test says why it is skipped."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

gc.disable()  # until all is imported; see pytest_collection_finish

# No test reads programs that another run compiled; this is how a user switches JAX's cache off, also in child processes.
jax.config.update("jax_enable_compilation_cache", False)
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

# Shapes and types of every call are checked while tests run; nothing of these is imported before this.
CHECKED = ["leapcde", "leapcde_paper"]
assert not [name for name in sys.modules if name.partition(".")[0] in CHECKED]
install_import_hook(CHECKED, "types_of_calls.check")

pytest.register_assert_rewrite("command")
from command import COLUMNS, LEAP, leapcde  # noqa: E402
from leapcde.datasets import hopper  # noqa: E402
from leapcde.models.leap_plus import LeapPlus  # noqa: E402

settings.register_profile("leapcde", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("leapcde")

ROOT = Path(__file__).parent.parent


def awake(model):
    """The model with random numbers for rows of zeros at its start: a forecasting head of zeros would hide all behind it."""
    rng = np.random.default_rng(0)
    size = 0.02 if isinstance(model, LeapPlus) else 0.3  # its flow feeds on itself: more would blow up rounding errors

    def stir(leaf):
        if not eqx.is_inexact_array(leaf) or (rows := leaf.any(-1, keepdims=True) if leaf.ndim else leaf != 0).all():
            return leaf
        return leaf + rng.normal(size=leaf.shape) * size * ~rows

    return jax.tree.map(stir, model)


def pytest_collection_finish() -> None:
    """Python looks for garbage rarely, and not among what was imported: every tenth second went into it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture
def x64():
    """Double precision for comparisons with an oracle."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """A test process compiles thousands of programs: they are forgotten before memory or maps of it run out."""
    yield
    maps = Path("/proc/self/maps")  # a process that has no more of them crashes in the middle of a compilation
    if maps.exists() and maps.read_bytes().count(b"\n") > 8_000:
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # else the C library keeps what was freed, gigabytes of it


@pytest.fixture(scope="session", autouse=True)
def prepared_files(tmp_path_factory) -> Iterator[Path]:
    """Prepared data goes to a folder that all test processes share and that goes away with them."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if os.environ.get("PYTEST_XDIST_WORKER") else folder) / "prepared"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAPCDE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real data: LEAPCDE_DATA, or shared/data beside the repository. CI always has it."""
    found = Path(os.environ.get("LEAPCDE_DATA") or ROOT.parent / "shared" / "data")
    if not found.is_dir():
        message = f"real data not found in {found}; set LEAPCDE_DATA"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    """60 falls of Hopper, 18 to 20 points, at each of which one of two channels is missing."""
    rng = np.random.default_rng(0)
    parts = []
    for i, sequence in enumerate(hopper.bundled()[:60]):
        n = 18 + i % 3
        values = sequence[: 4 * n : 4, [1, 2]].astype(float)
        values[np.arange(n), rng.integers(2, size=n)] = np.nan
        part = pd.DataFrame({"seq": f"s{i:02d}", "t": 0.02 * np.arange(n), "height": values[:, 0], "angle": values[:, 1]})
        parts.append(part.assign(label="falls" if sequence[20, 8] < -1 else "rises", later=float(sequence[-1, 1]), note="text"))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="session")
def place(tmp_path_factory, table) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    table.to_csv(folder / "falls.csv", index=False)
    return folder


@pytest.fixture(scope="session")
def classification(place) -> tuple[Path, dict]:
    run = place / "classification"
    return run, leapcde("fit", place / "falls.csv", *COLUMNS, "--target", "label", *LEAP, "--out", run, "--json").json


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Path:
    """An empty folder to run in, so that nothing can be written unseen, and no data of the machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEAPCDE_DATA", raising=False)
    return tmp_path
