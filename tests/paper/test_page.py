"""The report in a real browser: it sorts, filters and draws, on a phone too, and writes nothing to the console."""

from __future__ import annotations

import os
import re
import shutil

import pytest
from test_experiments import _any_score

from fakes import fake_records
from leapcde_paper.paper_numbers import LABELS
from leapcde_paper.report.page import page
from leapcde_paper.studies import STUDIES
from leapcde_paper.tables.summary import MAIN, relative_errors

FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
FLAGS += " --disable-component-update --disable-sync --window-size=1200,900"


@pytest.fixture
def browser(tmp_path):
    binary, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (binary and driver):
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium and its driver are not installed; .ci/run installs them")
        pytest.skip("Chromium or chromedriver is not installed")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path / 'profile'}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield made
    made.quit()


def test_errors_in_units_of_ours():
    """Accuracies are turned into errors, errors stay; a data set without ours, or on which it is perfect, is left out."""
    cells = lambda **means: {row: {"mean": mean, "scores": [mean]} for row, mean in means.items()} | {"not run": {"scores": []}}
    columns = {
        "words, accuracy": {"metric": "accuracy", "cells": cells(ours=0.9, a=0.8)},
        "far, MSE": {"metric": "mse_units", "cells": cells(ours=0.2, a=0.1)},
        "without, accuracy": {"metric": "accuracy", "cells": cells(a=0.5)},
        "perfect, accuracy": {"metric": "accuracy", "cells": cells(ours=1.0, a=0.5)},
    }
    found = relative_errors(columns, ours="ours")
    assert found == {"words": pytest.approx({"ours": 1, "a": 2}), "far": {"ours": 1, "a": 0.5}}


def test_the_report_works_in_a_browser(tmp_path, browser, monkeypatch):
    monkeypatch.setattr("leapcde_paper.figures.figures.project", lambda rows, small: ("PCA", rows[:, :2]))
    found = fake_records(tmp_path, list(STUDIES), _any_score)
    text = page(found, tmp_path)
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", text) and "@import" not in text
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    browser.get(f"file://{tmp_path / 'report.html'}")
    run = browser.execute_script
    assert run("return document.documentElement.dataset.ready") == "yes"
    assert run("return document.documentElement.scrollWidth") <= run("return window.innerWidth") == 1200

    # All at a glance comes first, a line for each data set; the grids of t-tests are folded.
    assert run("return document.querySelector('section').id") == "summary"
    assert run("return document.querySelectorAll('#summary .line').length") == len(MAIN)
    assert run("return document.querySelectorAll('#summary .line')[0].querySelectorAll('i.plus').length") == 1
    assert run("return [...document.querySelectorAll('#tables details')].map(d => d.open)") == [False, False]

    # Sort: a click sorts up, another down, what is missing stays at the end; the keyboard does the same.
    column = "return [...document.querySelectorAll('#tables tbody')[0].rows].map(r => r.cells[1].dataset.value).map(Number)"
    head = browser.find_elements("css selector", "#tables thead button")[1]
    run("arguments[0].scrollIntoView({block: 'center'})", head)
    head.click()
    up = run(column)
    assert up == sorted(up) and len(set(up)) > 5
    head.send_keys("\ue007")
    assert run(column) == sorted(up, reverse=True)
    assert head.find_element("xpath", "..").get_attribute("aria-sort") == "descending"

    # Filter by data set.
    shown = "return [...document.querySelectorAll('#tables article')].filter(a => !a.hidden).length"
    before = run(shown)
    browser.find_element("css selector", "#filter option[value='sepsis']").click()
    assert 0 < run(shown) < before
    browser.find_element("css selector", "#filter option[value='']").click()
    assert run(shown) == before

    # Explore: another channel and another sample are another line; a legend's button hides its series.
    line = "return document.querySelector('#path-chart path').getAttribute('d')"
    drawn = [run(line)]
    for select in ("path-channel", "path-sample"):
        browser.find_elements("css selector", f"#{select} option")[1].click()
        drawn.append(run(line))
    assert len(set(drawn)) == 3 and run("return document.getElementById('path-chart').querySelectorAll('circle').length") == 5
    assert "</script>" in run("return document.querySelector('#path-channel').selectedOptions[0].textContent")
    count = "return document.querySelectorAll('#path-chart path').length"
    assert run(count) == 2
    run("document.querySelector('#path-chart .legend button').click()")
    assert run(count) == 1
    assert len(run("return [...document.querySelectorAll('#path-model option')].map(o => o.textContent)")) == 8
    assert run("return [...document.querySelectorAll('.chart svg')].every(s => s.getBoundingClientRect().height > 50)")
    assert run("return document.querySelectorAll('.chart').length") > 20

    # A model has the same colour in every chart, and no other model has it.
    buttons = "[...document.querySelectorAll('.chart .legend button')]"
    seen = {tuple(pair) for pair in run(f"return {buttons}.map(b => [b.textContent, b.firstChild.style.background])")}
    models = {name: colour for name, colour in seen if name in [*LABELS.values(), "LEAP+ (ours)"]}
    assert len(seen) == len({name for name, _ in seen}) and len(set(models.values())) == len(models) == 14

    # On a phone nothing is wider than the screen.
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    browser.get(f"file://{tmp_path / 'report.html'}")
    assert run("return document.documentElement.scrollWidth") <= 390
    first = "const t = document.querySelector('#tables tbody tr'); return t.cells[1].getBoundingClientRect().right"
    assert run(first) <= 390  # a model's name and one number
    assert browser.get_log("browser") == []
