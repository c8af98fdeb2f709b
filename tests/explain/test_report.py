"""Pages and pictures: nothing comes from elsewhere, nothing that users name can break them."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import create_autospec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leapcde.data.read import as_series
from leapcde.errors import InputError, MissingDependencyError
from leapcde.explain import html as report
from leapcde.explain import plots
from leapcde.explain.attribution import Attribution
from leapcde.explain.explanation import _answer, _calm, explain
from leapcde.training.fitted import FittedModel

NASTY = """<script>alert("x")</script> & 'y' $\\broken{$ ü"""


class Reader(HTMLParser):
    """Collects the tags with their attributes, and the text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


# Pages


@given(st.text("<>&\"'/=!;abü ", max_size=30) | st.sampled_from([NASTY, "<b>", "</p>", "&amp;", "<!--"]))
def test_everything_that_is_text_is_escaped(text):
    parts = [report.heading(text), report.paragraph(text), report.figure("<img>", text), report.table([text], [[text, text]])]
    read = Reader(report.page(text, parts))
    plain = Reader(
        report.page("", [report.heading(""), report.paragraph(""), report.figure("<img>", ""), report.table([""], [["", ""]])])
    )
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in plain.tags]
    assert read.text.count(text) >= 8 if text else True  # title, h1, h2, p, figcaption, th, two td


def test_page_is_whole_and_comes_from_one_place():
    page = report.page(NASTY, [report.paragraph(NASTY, note=True), report.table(["a", "b"], [["x", "1"], ["y", "2"]], best=1)])
    read = Reader(page)
    assert page.startswith("<!doctype html>") and ("meta", {"charset": "utf-8"}) in read.tags
    assert not {tag for tag, _ in read.tags} & {"script", "link", "iframe", "object", "base"}
    assert not any(re.match("src|href|on", name) for _, attributes in read.tags for name in attributes)
    assert not any(mark in report.STYLE for mark in ("url(", "@import", "://"))
    assert ("tr", {"class": "best"}) in read.tags and ("p", {"class": "note"}) in read.tags
    assert [a.get("class") for tag, a in read.tags if tag == "td"] == [None, "number"] * 2


# Pictures


def found(queries: int = 30, channels: int = 2) -> dict[str, np.ndarray]:
    t = np.linspace(0, 3, queries)
    wave = np.sin(t)[:, None] * np.ones(channels)
    return {"t": t, "X": wave, "Y": 0.5 * wave, "dY": wave, "speed": np.abs(np.cos(t))}


def image_of(text: str) -> bytes:
    (tag, attributes), *rest = Reader(text).tags
    assert tag == "img" and not rest and attributes["src"].startswith("data:image/png;base64,")
    return base64.b64decode(attributes["src"].partition(",")[2], validate=True)


def test_pictures_carry_their_data_and_escape_their_name():
    drawn = plots.plot_horizon({"leap": np.array([1.0, 2.0])}, "MSE")
    text = plots.as_image(drawn, NASTY)
    assert image_of(text).startswith(b"\x89PNG") and Reader(text).tags[0][1]["alt"] == NASTY


@pytest.mark.parametrize("name", ["hr", NASTY, "", "$x$", "cost $", "$\\frac{$"])
def test_names_of_channels_are_drawn_as_they_are(name):
    observed = (np.array([0.0, 1.0, 3.0]), np.array([[0.0, 1.0], [np.nan, 2.0], [1.0, np.nan]]))
    assert plots.png(plots.plot_paths(found(), observed, [(1, name)])).startswith(b"\x89PNG")
    assert plots.png(plots.plot_forecast(np.arange(3.0), np.ones(3), np.ones(2), {"leap": np.ones(2)}, name))


def test_paths_have_a_row_for_each_channel_and_one_for_the_speed():
    observed = (np.array([0.0, 1.0]), np.array([[0.0, 1.0], [5.0, 2.0]]))
    figure = plots.plot_paths(found(), observed, [(1, "b"), (0, "a")])
    assert [axis.get_ylabel() for axis in figure.axes] == ["b", "a", "‖dY/dt‖"]
    assert [axis.lines[2].get_ydata().tolist() for axis in figure.axes[:2]] == [[1.0, 2.0], [0.0, 5.0]]


def test_what_was_hidden_is_drawn_as_open_circles_and_the_path_goes_on():
    observed = (np.array([0.0, 3.0]), np.array([[0.0, 1.0], [5.0, 2.0]]))
    hidden = (np.array([1.0, 0.0]), np.array([[7.0, 8.0], [np.nan, np.nan]]))
    forecast = (np.array([4.0, 5.0]), np.array([[6.0, 3.0]] * 2), np.array([[9.0, 4.0]] * 2))
    path = found()
    figure = plots.plot_filled(path, observed, hidden, forecast, [(1, NASTY), (0, "a")])
    drawn = {line.get_label(): line for line in figure.axes[0].lines}
    assert drawn["hidden"].get_ydata()[0] == 8.0 and drawn["hidden"].get_markerfacecolor() == "none"
    assert drawn["observed"].get_ydata().tolist() == [1.0, 2.0] and drawn["what came"].get_ydata().tolist() == [3.0, 3.0]
    assert drawn["Y, forecast"].get_xdata().tolist() == [3.0, 4.0, 5.0]
    assert drawn["Y, forecast"].get_ydata().tolist() == [path["Y"][-1, 1], 4.0, 4.0]
    assert plots.png(figure)


def test_a_sample_of_one_point_can_be_drawn():
    still = {key: np.zeros_like(array) for key, array in found().items()}
    assert plots.png(plots.plot_paths(still, (np.zeros(1), np.zeros((1, 2))), [(0, "a")]))


@given(st.integers(2, 6), st.integers(0, 100))
def test_a_curve_never_leaves_what_was_observed(count, seed):
    """Whatever the spline does; and it passes through the observations."""
    rng = np.random.default_rng(seed)
    times, values = np.sort(rng.choice(20, count, replace=False)).astype(float), rng.normal(size=count)
    t = np.union1d(np.linspace(-1, 21, 50), times)
    drawn = plots.between(t, 1e3 * rng.normal(size=len(t)), times, values)
    assert drawn.min() >= values.min() - 1e-12 and drawn.max() <= values.max() + 1e-12
    assert drawn[np.isin(t, times)] == pytest.approx(values)


def test_lines_stay_near_a_value_that_was_measured_once():
    """A cubic must not draw −1,100 where 10 was measured once."""
    path = {**found(), "X": np.linspace(-1100, 10, 30)[:, None] * [1, 1], "Y": np.linspace(-1100, 10, 30)[:, None] * [1, 1]}
    observed = (np.array([0.0, 3.0]), np.array([[10.0, 1.0], [np.nan, 2.0]]))
    axis = plots.plot_paths(path, observed, [(0, "alp")]).axes[0]
    drawn = np.concatenate([line.get_ydata() for line in axis.lines])
    assert np.nanmin(drawn) >= 0 and np.nanmax(drawn) <= 20 and axis.get_ylim()[0] > -5
    plain = {**found(), "X": np.full((30, 2), 10.0)}  # within the range, X is drawn as it is
    assert plots.plot_paths(plain, observed, [(0, "alp")]).axes[0].lines[0].get_ydata().tolist() == [10.0] * 30


def test_reliability_is_drawn_with_counts():
    said, came, count = np.array([0.1, 0.8]), np.array([0.0, 1.0]), np.array([30.0, 10.0])
    figure = plots.plot_reliability(said, came, count, NASTY)
    top, below = figure.axes
    assert top.lines[1].get_ydata().tolist() == [0.0, 1.0] and below.get_xlabel() == f"probability of {NASTY}"
    assert [segment[1][1] for segment in below.collections[0].get_segments()] == [30.0, 10.0]
    assert plots.png(figure).startswith(b"\x89PNG")


def test_training_curves():
    rows = [{"epoch": i, "train_loss": 1 / (i + 1), "mse": 2.0 - i} for i in range(3)]
    figure = plots.plot_history({"leap": rows, "ncde": rows[:1]}, "mse")
    assert figure.axes[1].lines[0].get_xdata().tolist() == [1, 2, 3] and figure.axes[1].get_ylabel() == "validation mse"
    assert plots.png(figure)


def test_pictures_leave_no_global_figures_and_need_matplotlib(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"leapcde\[plot\]"):
        plots.plot_horizon({}, "MSE")


# Calm stretches


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        ([1.0, 0.0, 0.0, 1.0, 1.0], [(1.0, 2.0)]),
        ([0.0, 0.0, 1.0, 0.05, 0.05], [(0.0, 1.0), (3.0, 4.0)]),
        ([1.0, 0.0, 1.0, 0.0, 1.0], []),  # one point is no stretch
        ([1.0, 1.0, 0.9, 0.11, 0.2], []),
        ([0.0, 0.0, 0.0, 0.0, 0.0], [(0.0, 4.0)]),  # Y stands still all the time
        ([3.0, 3.0, 3.0, 3.0, 3.0], []),
    ],
)
def test_calm_stretches(speed, expected):
    assert plots.calm_stretches(np.arange(5.0), np.array(speed)) == expected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_calm_stretches_against_a_loop(speed):
    t, speed = np.arange(len(speed)) * 2.0, np.array(speed)
    stretches = plots.calm_stretches(t, speed)
    inside = {i for a, b in stretches for i in range(int(a / 2), int(b / 2) + 1)}
    for i in range(len(speed)):
        slow = lambda j: 0 <= j < len(speed) and speed[j] <= 0.1 * speed.max()
        assert (i in inside) == (slow(i) and (slow(i - 1) or slow(i + 1)))
    assert all(a[1] < b[0] for a, b in pairwise(stretches))


def test_calm_stretches_in_words():
    t = np.arange(5.0)
    words = lambda t, speed: _calm(plots.calm_stretches(t, speed), t)
    assert "moves all the time" in words(t, np.ones(5))
    assert "at times 0–4;" in words(t, np.zeros(5))
    assert "at times 1–2;" in words(t, np.array([1.0, 0, 0, 1, 1]))
    late = words(1714521600 + 60 * t, np.zeros(5))  # a date in seconds keeps its digits
    assert "1714521600–1714521840" in late


# Explaining


def stub(task: str):
    """Answers as a trained model would; of a type that promises no less."""
    fitted, even = create_autospec(FittedModel, instance=True), lambda raw: np.full(raw.shape, 1 / raw.shape[1])
    about = SimpleNamespace(task=task, spec=SimpleNamespace(each_row=False), probability=even)
    fitted.preprocessor, fitted.model = about, SimpleNamespace(learned_path=None)
    fitted.new_outputs.side_effect = lambda series: np.zeros((len(series), 2))
    fitted.path.side_effect = lambda series: {key: np.stack([array] * len(series)) for key, array in found().items()}
    fitted.predict.side_effect = lambda series: np.array([NASTY] * len(series))
    return fitted


SERIES = as_series(np.ones((3, 4, 2)), target=[NASTY] * 3, channels=("a<b", NASTY))


def test_explain_escapes_what_users_name(tmp_path, monkeypatch):
    counted = lambda fitted, series, **more: Attribution(series, series.values, np.zeros((2, 0)), np.zeros(2), NASTY)
    monkeypatch.setattr("leapcde.explain.explanation.attribute", counted)
    files = explain(stub("classification"), SERIES, tmp_path / "new", samples=[2, 0])
    assert [file.name for file in files] == ["sample-2.png", "sample-0.png", "explain.html"]
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["explain.html", "sample-0.png", "sample-2.png"]
    page = files[-1].read_text(encoding="utf-8")
    read = Reader(page)
    assert NASTY in read.text and "script" not in {tag for tag, _ in read.tags}
    assert f"Predicted: {NASTY} (probability 50.0 %; true: {NASTY})." in read.text
    assert f"What was {NASTY}, the most first: a<b +4, {NASTY} +4." in read.text
    images = [image_of(text) for text in re.findall("<img[^>]*>", page)]
    assert len(images) == 4 and images[::2] == [file.read_bytes() for file in files[:2]]


def test_explain_names_every_wrong_channel_and_sample_and_writes_nothing(tmp_path):
    with pytest.raises(InputError) as caught:
        explain(stub("classification"), SERIES, tmp_path / "new", channels=["a<b", "x", "y"])
    assert [problem.partition(";")[0] for problem in caught.value.problems] == ["no channel 'x'", "no channel 'y'"]
    with pytest.raises(InputError, match="no sample 3, -1: the split has samples 0 to 2"):
        explain(stub("classification"), SERIES, tmp_path / "new", samples=[0, 3, -1])
    assert not (tmp_path / "new").exists()


def test_answers_in_words():
    sure = np.array([[0.1, 0.9]])
    assert _answer(stub("classification"), SERIES.take([0]), 0, 1, sure).startswith("Predicted: 1 (probability 90.0 %; true: ")
    assert _answer(stub("classification"), as_series(np.ones((1, 4, 2))), 0, "ill") == "Predicted: ill."
    assert _answer(stub("forecasting"), SERIES, 0, np.ones((10, 2))) == "Forecast of 10 steps for 2 channels."
