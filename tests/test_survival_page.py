"""docs/guide/survival.md runs as printed, and its table is the record's."""

from __future__ import annotations

import importlib.util
import json
import re

import numpy as np
import pytest

from conftest import ROOT

PAGE = ROOT / "docs" / "guide" / "survival.md"


def test_the_table_is_that_of_the_record():
    spec = importlib.util.spec_from_file_location("survival_benchmark", ROOT / "benchmarks" / "survival.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text, record = PAGE.read_text(), json.loads(module.RECORD.read_text())
    assert module.filled(text, record) == text, "run: python benchmarks/survival.py --table"
    assert set(record) == set(module.DATA) and all(len(runs) == len(module.SEEDS) for runs in record.values())


@pytest.mark.slow
def test_the_page_runs_as_printed(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    scope: dict = {}
    exec("\n".join(blocks), scope)
    assert float(capsys.readouterr().out) > 0.65
    assert scope["curves"].shape == (200, 3) and (np.diff(scope["curves"], axis=1) <= 0).all()
