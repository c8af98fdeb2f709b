"""Answers from the workers of a Dask cluster are those of one process."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_sweep import two_dask_workers

from command import leapcde
from leapcde.data.read import as_series
from leapcde.errors import InputError
from leapcde.estimators import cluster
from leapcde.estimators.run import MODEL, open_run


class Alone:
    """A client of a cluster that is this process."""

    def __init__(self, workers: int = 2):
        self.workers, self.sent = workers, []

    def scheduler_info(self, n_workers: int) -> dict:
        return {"workers": dict.fromkeys(range(self.workers))}

    def submit(self, function, content, series, *, pure):
        self.sent.append(len(series))
        return function(content, series)

    def gather(self, sent):
        return sent


def test_parts_are_answered_as_the_whole(classification, place, monkeypatch):
    run, _ = classification
    monkeypatch.setattr(cluster, "FEWEST", 7)
    _, estimator, _ = open_run(run)
    series, client = estimator._new_series(pd.read_csv(place / "falls.csv")), Alone()
    found = estimator.fitted_.raw(series, cluster.answers_of(client, run / MODEL))
    assert len(client.sent) == 8 and sum(client.sent) == len(series)
    np.testing.assert_allclose(found, estimator.fitted_.raw(series), rtol=1e-4, atol=1e-5)


def test_a_cluster_without_workers_is_one_clear_error(classification):
    run, _ = classification
    answers = cluster.answers_of(Alone(workers=0), run / MODEL)
    with pytest.raises(InputError, match="no workers"):
        answers(as_series(np.zeros((2, 3, 2))))


def test_no_scheduler_is_one_clear_error(classification, place, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", lambda *a, **k: (_ for _ in ()).throw(OSError("refused")))
    said = leapcde("predict", classification[0], place / "falls.csv", "--cluster", "tcp://127.0.0.1:1")
    assert said.code == 2 and "no Dask scheduler answers" in said.err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_predict_on_a_cluster_says_what_predict_says(classification, place, monkeypatch):
    monkeypatch.setattr(cluster, "FEWEST", 7)
    ask = ("predict", classification[0], place / "falls.csv", "--json")
    alone = pd.DataFrame(leapcde(*ask).json["predictions"])
    with two_dask_workers() as workers:
        found = pd.DataFrame(leapcde(*ask, "--cluster", workers.scheduler_address).json["predictions"])
    pd.testing.assert_frame_equal(found, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("error", [TypeError("no ssl_context"), OverflowError("port must be 0-65535"), RuntimeError("tls")])
def test_an_address_that_is_none_is_one_clear_error(error, monkeypatch):
    distributed = pytest.importorskip("distributed")

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(InputError, match="no Dask scheduler answers at 'tls://x'"), cluster.connected("tls://x"):
        pass
    with pytest.raises(InputError, match="is empty"), cluster.connected(" "):
        pass
