"""docs/guide/holes.md runs as printed, and its table is the record's."""

from __future__ import annotations

import importlib.util
import json
import re

import numpy as np
import pytest

from conftest import ROOT
from leapcde.explain.hidden import CLASSICAL

PAGE = ROOT / "docs" / "guide" / "holes.md"


def test_the_table_is_that_of_the_record():
    spec = importlib.util.spec_from_file_location("holes", ROOT / "benchmarks" / "holes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text, record = PAGE.read_text(), json.loads(module.RECORD.read_text())
    assert module.filled(text, record) == text, "run: python benchmarks/holes.py DATA_DIR"
    assert set(record["filled"]) == set(record["found"]) == set(module.DATA)
    for run in record["filled"].values():  # the promise: better than the best interpolation
        assert run["errors"]["chosen"] < min(run["errors"][name] for name in CLASSICAL)


@pytest.mark.slow
def test_the_page_runs_as_printed(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    scope: dict = {}
    exec("\n".join(blocks), scope)
    assert "straight line" in capsys.readouterr().out
    error = np.abs(scope["filled"][scope["holes"]] - scope["truth"])
    assert 0.55 < np.mean(error < scope["spread"][scope["holes"]]) < 0.85
