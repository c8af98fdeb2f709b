"""docs/guide/every-row.md runs as printed, and its table is the record's."""

from __future__ import annotations

import json
import re

import pytest

from conftest import ROOT
from leapcde_paper import docs_numbers

PAGE, RECORD = ROOT / "docs" / "guide" / "every-row.md", ROOT / "results" / "sepsis-hourly.json"


def test_the_record_holds_what_the_page_promises():
    record = json.loads(RECORD.read_text())  # the table itself is compared in test_docs.py
    assert record["largest difference from streaming"] < 1e-5
    assert set(record["test"]) == set(docs_numbers.ALARMS) and record["test"]["class-prior"]["utility"] == 0


@pytest.mark.slow
def test_the_page_runs_as_printed(capsys):
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)[1]
    scope: dict = {}
    exec(block, scope)
    assert scope["classifier"].score(scope["falls"][100:], scope["soon"][100:]) > 0.6
