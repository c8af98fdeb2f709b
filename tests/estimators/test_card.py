"""The card of a run says what result.json says."""

from __future__ import annotations

import json


def test_a_run_has_a_card(classification):
    folder = classification[0]
    card, result = (folder / "card.md").read_text(), json.loads((folder / "result.json").read_text())
    for heading in ("# Model card:", "## Data and split", "## How good it is", "## Calibration", "## Limits"):
        assert heading in card
    assert f"{result['metrics']['test'][result['metric']]:.4g}" in card
    for name, of in result["baselines"].items():
        assert f"| baseline: {name} | " in card and f"{of['test'][result['metric']]:.4g}" in card
    assert f"{result['metrics']['test']['ece']:.3g} on average" in card and "height, angle" in card
    assert (result["ahead"] or "") in card and f"{result['samples']['test']} for test" in card
    assert "None" not in card and "nan" not in card.lower().replace("nanosecond", "")
    data = result["config"]["data"]  # a file of the test's own folder, of which the card tells the name only
    assert f"- Split: {result['dataset_options']['split']}" in card and f"- Data: {data.rpartition('/')[2]}\n" in card
