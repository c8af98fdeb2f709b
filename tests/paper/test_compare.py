"""`leapcde compare` is a sweep of cells, and its table is what the records say."""

from __future__ import annotations

import numpy as np
import pytest

from leapcde.errors import TrainingError
from leapcde.training.config import TrainConfig
from leapcde_paper.compare import compare
from leapcde_paper.run.cell import CellConfig
from leapcde_paper.tables.table import model_rows


def configs(**more):
    return [
        CellConfig(
            "hopper",
            name,
            0.3,
            {"hidden": 4, **more},
            train=TrainConfig(epochs=1, seed=seed),
            dataset_options={"sequences": 20},
        )
        for name, seed in (("rnn", 0), ("rnn", 1), ("gru", 0))
    ]


@pytest.mark.slow
def test_a_comparison_is_a_table_of_records(tmp_path):
    counts: list[int] = []
    records = compare(configs(), tmp_path, on_cells=counts.append)
    assert counts == [0, 1, 2, 3] and [record["seed"] for record in records] == [0, 1, 0]
    rows = model_rows(records)
    scores = [record["metrics"]["test"]["mse"] for record in records]
    assert [row["model"] for row in rows] == ["rnn", "gru"] and [row["seeds"] for row in rows] == [2, 1]
    assert rows[0]["mean"] == np.mean(scores[:2]) and rows[0]["std"] == np.std(scores[:2], ddof=1)
    assert rows[0]["lowest"] == min(scores[:2]) and rows[0]["paper"] is None
    with pytest.raises(TrainingError, match="no option 'wide'"):
        compare(configs(wide=3), tmp_path)
