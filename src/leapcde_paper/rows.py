"""Rows and columns of the paper's tables and of our studies: which models, on which data, trained how."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from leapcde.datasets.registry import source_of
from leapcde_paper.paper_numbers import CHARACTERS, LABELS, MUJOCO, OTHER_SPEECH, SEPSIS, SPEECH
from leapcde_paper.presets import TRAINING, of_model
from leapcde_paper.presets import preset as preset_of

BASELINES = {
    "class-prior": "class prior",
    "boosted-trees": "boosted trees on summaries",
    "all-summaries": "boosted trees on all summaries",
    "minirocket": "MiniRocket, interpolated",
    "last-value": "last value",
    "ridge": "ridge on last values",
}


@dataclass(frozen=True)
class Row:
    label: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)  # where not as all others are
    paths: bool = False  # one seed is trained again to keep its paths; LEAP's cells of `SETS` all do


@dataclass(frozen=True)
class Column:
    label: str
    data: str
    drop: float = 0.0
    dataset_options: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)  # where not the budget's
    train: dict[str, Any] = field(default_factory=dict)  # where not the standard budget's; of this, others take the noise
    only: dict[str, dict[str, Any]] = field(default_factory=dict)  # models, where not all rows are asked; their own training
    samples: int | None = None  # of the training data, where not all of it is used; half as many validate and test


# 5,000 clips were had before the paper's words were, and most studies are of them.
OTHER_WORDS = {"words": "down,eight,five,four,go,left,one,three,two,zero"}
WORD_EPOCHS = 15  # with the paper's words, for every model: there are four times as many clips


def words_training(training: str) -> dict[str, Any]:
    """One of the two trainings of Speech Commands, but for what was tuned for each model."""
    return {key: value for key, value in preset_of("speech-commands")["standard"][training].items() if key not in TRAINING}


def as_plus(data: str) -> dict[str, Any]:
    """LEAP+'s training on a data set, but for the learning rate, which is each model's own."""
    own = of_model(data, "leap+")["standard"]
    usual = preset_of(data)["standard"]
    found = usual["without_noise"] if of_model(data, "leap+")["without_noise"] else {}
    found = {**found, **{key: value for key, value in own.items() if key in ("epochs", *TRAINING) and key != "learning_rate"}}
    return {**found, "in_window": 1.0} if source_of(data).task == "forecasting" else found


def with_rivals(column: Column) -> Column:
    """LEAP+'s strongest rivals of a data set, with its training and what their own trials of it chose, and LEAP+."""
    return replace(column, train=as_plus(column.data), only={**preset_of(column.data)["rivals"], PLUS.model: {}})


CT, MJ = "character-trajectories", "mujoco-as-run"
SETS = (
    Column(CHARACTERS, CT, 0.3),
    Column(OTHER_SPEECH, "speech-commands", 0.0, OTHER_WORDS),
    Column(SEPSIS, "sepsis"),
    Column(MUJOCO, MJ, 0.3),
)
WORDS = Column(SPEECH, "speech-commands", train={"epochs": WORD_EPOCHS})
# Of the large sets a part, for studies that train LEAP dozens of times: on all of Sepsis it takes eleven minutes.
SOME = (SETS[0], replace(SETS[1], samples=1500), replace(SETS[2], samples=6000), SETS[3])
SOME_NOTE = (
    "Of Speech Commands 1,500 clips and of Sepsis 6,000 stays train, half as many test, with as many septic ones as there are."
)
SIMULATED = Column("10,000 simulations", "mujoco", 0.3, {"stride": 50})
PLUS = Row("LEAP+ (ours)", "leap+")
DRAWN = Row("LEAP+ (ours)", "leap+", paths=True)
ALL = (*(Row(label, name) for name, label in LABELS.items()), PLUS)
LEAP, NCDE = Row("LEAP", "leap"), Row("NCDE", "ncde")
LAYERS = (
    Row("Learnable layers + GRU-ODE", "layers+gru-ode"),
    Row("Learnable layers + ODE-RNN", "layers+ode-rnn"),
    Row("Learnable layers + NCDE", "layers+ncde"),
    Row("LEAP without likelihood", "leap", {"beta": 0.0}),
    LEAP,
)
PARTS = (
    PLUS,
    Row("Y = X", "leap+", {"learned": False}),
    Row("path not trained", "leap+", {"alpha": 0.0}),
    Row("nothing hidden", "leap+", {}, {"hide": 0.0, "spans": 0.0}),
    Row("causal", "leap+", {"causal": True}),
    Row("no kernels", "leap+", {"kernel": 1}),
    Row("no pooling", "leap+", {"pooling": False}),
    Row("GRU-ODE on the same Y", "leap+:gru-ode"),
)
AGES = tuple(
    Row(f"{label} with ages", f"ages+{name}")
    for name, label in LABELS.items()
    if name in ("gru", "latent-ode", "ace-node", "leap")
)
# Problems of the UEA and UCR archives that come with aeon, but those with more than 700 rows a sample; by number of samples
# for training. All models make about 1,500 steps of 16 samples, not fewer than 30 epochs.
ARCHIVE = {
    "ArrowHead": 147,
    "BasicMotions": 56,
    "GunPoint": 140,
    "ItalyPowerDemand": 767,
    "JapaneseVowels": 448,
    "OSULeaf": 309,
    "PickupGestureWiimoteZ": 70,
}
ARCHIVE_STEPS, ARCHIVE_BATCH = 1500, 16
IN_ARCHIVE = ("gru-d", "ncde", "leap", "leap+")
SIZES = {"small": 39, "medium": 49, "large": 59}
LENGTHS = (1, 5, 10, 15, 20)
ALPHAS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
RATIOS = (0.01, 0.1, 1.0, 10.0, 100.0)
FEW_LAYERS = ("Learnable layers + NCDE", "LEAP without likelihood", "LEAP")
BETA = 1e-4  # while the ratio α/β varies
UNITS_NOTE = (
    "MSE in the units of the released array, (x − min) / max; the array of 100 sequences is what the paper's numbers fit."
)
DROPPED_NOTE = (
    "The paper does not say whether data was dropped here; 30 % of the time points are (Character Trajectories, MuJoCo)."
)


def dropped(data: str) -> tuple[Column, ...]:
    return tuple(Column(f"{round(100 * drop)} %", data, drop) for drop in (0.3, 0.5, 0.7))


def simulated() -> tuple[Column, ...]:
    return tuple(Column(f"{round(100 * drop)} %", "mujoco", drop, {"stride": 50}) for drop in (0.0, 0.3, 0.5, 0.7))


def archives() -> tuple[Column, ...]:
    epochs = {name: max(30, round(ARCHIVE_STEPS / -(-samples // ARCHIVE_BATCH))) for name, samples in ARCHIVE.items()}
    rates = (0.0, 0.3, 0.5, 0.7)
    return tuple(
        Column(f"{name}, {round(100 * drop)} %", f"uea:{name}", drop, train={"epochs": count})
        for name, count in epochs.items()
        for drop in rates
    )


def alphas(values: dict[str, tuple[float, float]]) -> tuple[Row, ...]:
    return tuple(Row(label, "leap", {"alpha": a, "beta": b}) for label, (a, b) in values.items())
