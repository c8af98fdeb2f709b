"""A model card: what a person should know before using a trained run, as text."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import numpy as np

from leapcde.training.fitted import Fitted

SHOWN = 20  # names of channels or classes, before the rest is a number


def card_text(summary: dict[str, Any], fitted: Fitted, version: str) -> str:
    """The card of a run, as Markdown, from what `result.json` holds.

    Parameters
    ----------
    summary : dict
        The run in numbers: config, samples, metrics, baselines, coverage of intervals.
    fitted : Fitted
        What was trained.
    version : str
        Of leapcde.

    Returns
    -------
    str
    """
    parts = [_head(summary, fitted, version), _data(summary, fitted), _metrics(summary), _calibration(summary, fitted)]
    return "\n\n".join([*parts, _limits(summary, fitted)]) + "\n"


def _head(summary: dict[str, Any], fitted: Fitted, version: str) -> str:
    size = f"{summary['parameters'] or 0:,} parameters"
    seed = summary["config"].get("train", {}).get("seed", 0)
    return (
        f"# Model card: {fitted.name} for {fitted.preprocessor.task}\n\n"
        f"Made by leapcde {version}; {size}, seed {seed}, {summary['seconds']:.0f} seconds of training ({summary['stopped']}). "
        "All settings are in config.json, all numbers in result.json. "
        "`leapcde.load(FOLDER)` reads it, `leapcde predict FOLDER FILE` uses it."
    )


def _data(summary: dict[str, Any], fitted: Fitted) -> str:
    preprocessor, config = fitted.preprocessor, summary["config"]
    # The name of a file and not where it lay: a card is passed on, and folders say whose machine it was.
    lines = [f"- Data: {PurePath(str(config.get('data') or 'given in Python')).name}"]
    lines[0] += f", {config['drop']:.0%} dropped" if config.get("drop") else ""
    lines.append("- Samples: " + ", ".join(f"{count} for {part}" for part, count in summary["samples"].items()))
    if split := summary.get("dataset_options", {}).get("split"):
        lines.append(f"- Split: {split}")
    if preprocessor.spec.each_row:
        lines.append("- An answer after each row, from the rows up to it; metrics are over rows")
    lines.append(f"- Channels ({len(preprocessor.channels)}): {_some(preprocessor.channels)}")
    if preprocessor.spec.static:
        names = f": {_some(preprocessor.static_names)}" if preprocessor.static_names else ""
        lines.append(f"- Static features ({preprocessor.spec.static}){names}")
    if preprocessor.classes:
        lines.append(f"- Classes ({len(preprocessor.classes)}): {_some(preprocessor.classes)}")
    if preprocessor.task == "labels":
        lines.append(f"- Labels ({len(preprocessor.target_names)}): {_some(preprocessor.target_names)}")
    return "\n".join(
        ["## Data and split\n", *lines, "- Weights were chosen on the validation part; the test part was looked at once."]
    )


def _metrics(summary: dict[str, Any]) -> str:
    names = list(summary["metrics"]["test"])
    rows = {"this model": summary["metrics"], **{f"baseline: {name}": of for name, of in summary["baselines"].items()}}
    lines = [f"| test | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    cell = lambda value: "–" if value is None else f"{value:.4g}"
    lines += [f"| {title} | {' | '.join(cell(of['test'].get(name)) for name in names)} |" for title, of in rows.items()]
    ahead = f"\n\n{summary['ahead']}" if summary["ahead"] else ""
    return "\n".join([f"## How good it is\n\nChosen by {summary['metric']} on validation data.\n", *lines]) + ahead


def _calibration(summary: dict[str, Any], fitted: Fitted) -> str:
    test = summary["metrics"]["test"]
    if fitted.preprocessor.bins is not None:
        text = f"Brier score of the test part, averaged over time: {test['brier']:.3g}; of Kaplan–Meier, see above."
    elif "ece" in test:
        scale = (
            "no calibration was learned"
            if fitted.calibration is None
            else "temperature " + ", ".join(f"{one:.3g}" for one in np.atleast_1d(fitted.calibration.temperature))
        )
        text = f"Probabilities differ from frequencies by {test['ece']:.3g} on average on the test part ({scale}); "
        text += f"Brier score {test['brier']:.3g}."
    else:
        covered = summary.get("coverage of 90 % intervals")
        text = (
            "No intervals were made."
            if covered is None
            else f"Intervals that promise 90 % hold {covered:.1%} of the test part."
        )
    return f"## Calibration\n\n{text}"


def _limits(summary: dict[str, Any], fitted: Fitted) -> str:
    preprocessor = fitted.preprocessor
    longest = preprocessor.spec.span * preprocessor.scaler.time_unit
    lines = [
        f"- It saw samples that last up to {longest:.4g} in units of the data's times; longer ones are a guess, and a warning.",
        "- It knows the population of its data. Elsewhere (another hospital, another machine) test it, and calibrate again.",
        "- Nothing here says how it does for groups within the data; test the groups that matter.",
        "- It finds what goes together, not what causes what.",
    ]
    return "\n".join(["## Limits\n", *lines])


def _some(names: tuple[Any, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(str, names[:SHOWN])) + more
