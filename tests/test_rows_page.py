"""docs/guide/every-row.md runs as printed, and its table is the record's."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest

from conftest import ROOT

PAGE, RECORD = ROOT / "docs" / "guide" / "every-row.md", ROOT / "results" / "sepsis-hourly.json"


def test_the_table_is_that_of_the_record():
    spec = importlib.util.spec_from_file_location("sepsis_hourly", ROOT / "benchmarks" / "sepsis_hourly.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text, record = PAGE.read_text(), json.loads(RECORD.read_text())
    assert module.filled(text, record) == text, "run: python benchmarks/sepsis_hourly.py"
    assert record["largest difference from streaming"] < 1e-5


@pytest.mark.slow
def test_the_page_runs_as_printed(capsys):
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)[1]
    scope: dict = {}
    exec(block, scope)
    assert scope["classifier"].score(scope["falls"][100:], scope["soon"][100:]) > 0.6
