"""Shape annotations are checked while tests run, and real data is found here or the test says why it is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# The modules whose signatures carry array shapes.
with install_import_hook(["leapcde.fields", "leapcde.heads", "leapcde.losses", "leapcde.paths"], "beartype.beartype"):
    import leapcde.heads
    import leapcde.losses
    import leapcde.paths  # noqa: F401

settings.register_profile("leapcde", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("leapcde")

ROOT = Path(__file__).parent.parent


@pytest.fixture
def x64():
    """Double precision for comparisons with an oracle."""
    with jax.enable_x64(True):
        yield


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
