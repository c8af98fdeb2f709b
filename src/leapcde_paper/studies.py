"""One preset for each table and figure of the paper: its rows and columns, settled by a budget into an `Experiment`.

Where the paper does not say what it ran, the choice is in the note: it is printed below the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from leapcde.datasets.registry import source_of
from leapcde.errors import choose
from leapcde.models.registry import MODELS
from leapcde_paper import budgets
from leapcde_paper.baselines import baselines_for
from leapcde_paper.budgets import Budget
from leapcde_paper.paper_numbers import CHARACTERS, LABELS, MUJOCO, PAPER_WORDS, SEPSIS, SPEECH
from leapcde_paper.presets import TRAINING, of_model
from leapcde_paper.presets import preset as preset_of
from leapcde_paper.run.cell import CellConfig
from leapcde_paper.run.experiment import Experiment, Setting

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


@dataclass(frozen=True)
class Study:
    """Rows times columns, and baselines below where asked for. A smoke budget takes only its `smoke_` rows and columns."""

    name: str
    title: str
    kind: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    note: str = ""
    baselines: bool = False
    smoke_rows: tuple[str, ...] = field(default=())
    smoke_columns: tuple[str, ...] = field(default=())

    def experiment(self, spend: Budget) -> Experiment:
        small, columns = spend.samples is not None, self.columns
        rows = tuple(row for row in self.rows if row.model in MODELS)  # one that is not installed has no row
        if small:
            keep = (lambda row: row.label in self.smoke_rows) if self.smoke_rows else (lambda row: row.model in spend.models)
            rows = tuple(filter(keep, rows))
            columns = tuple(column for column in columns if not self.smoke_columns or column.label in self.smoke_columns)
        settings = [_setting(spend, row, column) for column in columns for row in self._rows(rows, column, spend)]
        notes = [self.note, spend.left_out if small and len(rows) < len(self.rows) else ""]
        return Experiment(self.name, self.title, self.kind, spend.name, tuple(settings), " ".join(filter(None, notes)))

    def _rows(self, rows: tuple[Row, ...], column: Column, spend: Budget) -> list[Row]:
        asked = [row for row in rows if not column.only or row.model in column.only]
        return [*asked, *self._baselines(column, spend)]

    def _baselines(self, column: Column, spend: Budget) -> list[Row]:
        names = baselines_for(_task(column.data)) if self.baselines else ()
        return [Row(BASELINES[name], name) for name in names if name != "minirocket" or spend.samples is None]


def _task(data: str) -> str:
    """A problem of an archive says what it is when it is read; those of the studies are classifications."""
    return source_of(data).task or "classification"


def _setting(spend: Budget, row: Row, column: Column) -> Setting:
    """The settings decide, not the row: a cell that two experiments share must be the same in both."""
    config, of_main = _config(spend, row, column), [one for name in MAIN_TABLES for one in STUDIES[name].columns]
    main = any(_alike(one, column) and config == _config(spend, Row("", row.model), one) for one in of_main)
    seeds = budgets.seeds(spend, column.data, row.model, main=main)
    leap = budgets.config(spend, column.data, column.drop, LEAP.model, {}, dict(column.dataset_options))
    paths = any(_alike(one, column) for one in SETS) and replace(config, train=leap.train) == leap
    samples = column.samples if spend.name == "standard" else spend.samples
    return Setting(row.label, column.label, config, seeds, samples, spend.length, paths)


def _config(spend: Budget, row: Row, column: Column) -> CellConfig:
    config = budgets.config(spend, column.data, column.drop, row.model, dict(row.options), dict(column.dataset_options))
    own = {**column.train, **column.only.get(row.model, {})}
    own = {key: value for key, value in own.items() if spend.name == "standard" or key == "noise"}
    if row.model == "leap+":  # it starts its path at earlier rows by itself
        own.pop("in_window", None)
    train = replace(config.train, **{**own, **row.train})
    return replace(config, recipe=replace(config.recipe, **column.recipe), train=train)


def _alike(a: Column, b: Column) -> bool:
    """Whether two columns are of the same numbers."""
    return (a.data, a.drop, a.dataset_options, a.samples) == (b.data, b.drop, b.dataset_options, b.samples)


# 5,000 clips were had before the paper's words were, and most studies are of them.
OTHER_WORDS = {"words": "down,eight,five,four,go,left,one,three,two,zero"}
WORD_EPOCHS = 15  # with the paper's words, for every model: there are four times as many clips


def _speech(training: str) -> dict[str, Any]:
    """One of the two trainings of Speech Commands, but for what was tuned for each model."""
    return {key: value for key, value in preset_of("speech-commands")["standard"][training].items() if key not in TRAINING}


def as_plus(data: str) -> dict[str, Any]:
    """LEAP+'s training on a data set, but for the learning rate, which is each model's own."""
    own = of_model(data, "leap+")["standard"]
    usual = preset_of(data)["standard"]
    found = usual["without_noise"] if of_model(data, "leap+")["without_noise"] else {}
    found = {**found, **{key: value for key, value in own.items() if key in ("epochs", *TRAINING) and key != "learning_rate"}}
    return {**found, "in_window": 1.0} if source_of(data).task == "forecasting" else found


def _rivals(column: Column) -> Column:
    """LEAP+'s strongest rivals of a data set, with its training and what their own trials of it chose, and LEAP+."""
    return replace(column, train=as_plus(column.data), only={**preset_of(column.data)["rivals"], PLUS.model: {}})


CT, MJ = "character-trajectories", "mujoco-as-run"
SETS = (
    Column(CHARACTERS, CT, 0.3),
    Column(SPEECH, "speech-commands", 0.0, OTHER_WORDS),
    Column(SEPSIS, "sepsis"),
    Column(MUJOCO, MJ, 0.3),
)
# Of the large sets a part, for studies that train LEAP dozens of times: on all of Sepsis it takes eleven minutes.
SOME = (SETS[0], replace(SETS[1], samples=1500), replace(SETS[2], samples=6000), SETS[3])
SOME_NOTE = (
    "Of Speech Commands 1,500 clips and of Sepsis 6,000 stays train, half as many test, with as many septic ones as there are."
)
SIMULATED = Column("10,000 simulations", "mujoco", 0.3, {"stride": 50})
PLUS = Row("LEAP+ (ours)", "leap+")
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
_FEW_LAYERS = ("Learnable layers + NCDE", "LEAP without likelihood", "LEAP")
_BETA = 1e-4  # while the ratio α/β varies
_MUJOCO = "MSE in the units of the released array, (x − min) / max; the array of 100 sequences is what the paper's numbers fit."
_DROPPED = "The paper does not say whether data was dropped here; 30 % of the time points are (Character Trajectories, MuJoCo)."


def _dropped(data: str) -> tuple[Column, ...]:
    return tuple(Column(f"{round(100 * drop)} %", data, drop) for drop in (0.3, 0.5, 0.7))


def _simulated() -> tuple[Column, ...]:
    return tuple(Column(f"{round(100 * drop)} %", "mujoco", drop, {"stride": 50}) for drop in (0.0, 0.3, 0.5, 0.7))


def _archive() -> tuple[Column, ...]:
    epochs = {name: max(30, round(ARCHIVE_STEPS / -(-samples // ARCHIVE_BATCH))) for name, samples in ARCHIVE.items()}
    rates = (0.0, 0.3, 0.5, 0.7)
    return tuple(
        Column(f"{name}, {round(100 * drop)} %", f"uea:{name}", drop, train={"epochs": count})
        for name, count in epochs.items()
        for drop in rates
    )


def _alphas(values: dict[str, tuple[float, float]]) -> tuple[Row, ...]:
    return tuple(Row(label, "leap", {"alpha": a, "beta": b}) for label, (a, b) in values.items())


STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study("character", "Character Trajectories, test accuracy", "table", ALL, _dropped(CT), baselines=True),
        Study(
            "speech",
            "Speech Commands, test accuracy",
            "table",
            ALL,
            (SETS[1], Column(PAPER_WORDS, "speech-commands", train={"epochs": WORD_EPOCHS})),
            f"{SPEECH}: 5,000 clips of ten other words, as in most studies here. {PAPER_WORDS}: 19,800 clips (v0.01; the paper "
            f"has 34,975, v0.02), {WORD_EPOCHS} epochs for every model.",
            baselines=True,
            smoke_columns=(SPEECH,),
        ),
        Study(
            "noise",
            "Speech Commands with and without noise in training, test accuracy",
            "table",
            ALL,
            (
                Column("with noise", "speech-commands", 0.0, OTHER_WORDS, train=_speech("training")),
                Column("without noise", "speech-commands", 0.0, OTHER_WORDS, train=_speech("without_noise")),
            ),
            "With noise: Gaussian errors of one standard deviation are added to every frame, anew in every step. The standard "
            "budget trains 40 epochs of 16 clips a step with noise, 20 of 32 without; its table of Speech Commands shows each "
            "model with the training that its validation data prefers.",
            smoke_rows=("NCDE", "LEAP"),
        ),
        Study("sepsis", "PhysioNet Sepsis, test AUROC", "table", ALL, (SETS[2],), baselines=True),
        Study("mujoco", "MuJoCo, test MSE", "table", ALL, _dropped(MJ), _MUJOCO, baselines=True),
        Study(
            "simulations",
            "MuJoCo as the paper's text has it, test MSE",
            "table",
            ALL,
            _simulated(),
            "10,000 simulations of our own, the first 60 steps of each, split by simulation; the paper has other data.",
            baselines=True,
        ),
        Study(
            "regular",
            "Regular series: nothing dropped",
            "table",
            ALL,
            (Column(CHARACTERS, CT), Column(MUJOCO, MJ)),
            _MUJOCO,
            baselines=True,
        ),
        Study(
            "t-tests",
            "LEAP against the others, by steps ahead, on MuJoCo with 30 % dropped",
            "table",
            ALL,
            (Column("30 %", MJ, 0.3),),
            "The paper shows GRU-Δt and NCDE.",
            smoke_rows=("GRU-Δt", "NCDE", "LEAP"),
        ),
        Study(
            "t-tests-plus",
            "LEAP+ against the others, by steps ahead, on MuJoCo with 30 % dropped",
            "table",
            ALL,
            (Column("30 %", MJ, 0.3),),
            smoke_rows=("NCDE", "LEAP", "LEAP+ (ours)"),
        ),
        Study("margins", "LEAP's lead on the same test samples", "table", ALL, SETS[:3], baselines=True),
        Study(
            "margins-plus",
            "LEAP+'s lead on the same test samples",
            "table",
            ALL,
            (*SETS, SIMULATED),
            baselines=True,
            smoke_rows=("NCDE", "LEAP", "LEAP+ (ours)"),
            smoke_columns=(CHARACTERS,),
        ),
        Study(
            "hidden",
            "How well paths fill in what was hidden from them",
            "table",
            (LEAP, PLUS),
            (*(Column(f"{CHARACTERS}, {round(100 * x)} % dropped", CT, x) for x in (0.3, 0.7)), *SETS[1:], SIMULATED),
            smoke_rows=("LEAP", "LEAP+ (ours)"),
            smoke_columns=(f"{CHARACTERS}, 30 % dropped",),
        ),
        Study(
            "layers-classification",
            "Learnable layers in place of a learned path: classification",
            "table",
            LAYERS,
            SETS[:3],
            _DROPPED,
            smoke_rows=_FEW_LAYERS,
            smoke_columns=(CHARACTERS,),
        ),
        Study(
            "layers-forecasting",
            "Learnable layers in place of a learned path: forecasting",
            "table",
            LAYERS,
            SETS[3:],
            f"{_DROPPED} {_MUJOCO}",
            smoke_rows=_FEW_LAYERS,
        ),
        Study(
            "model-size",
            "Size of the model, PhysioNet Sepsis, test AUROC",
            "table",
            tuple(Row(f"{row.label} ({size})", row.model, {"hidden": n}) for size, n in SIZES.items() for row in (NCDE, LEAP)),
            (SETS[2],),
            "The paper does not define its sizes; these are its search set for the state, 39, 49 and 59.",
            smoke_rows=("NCDE (small)", "LEAP (small)", "NCDE (medium)", "LEAP (medium)"),
        ),
        Study(
            "leap-plus",
            "What LEAP+ is made of: it and less of it",
            "table",
            PARTS,
            (*SETS, SIMULATED),
            "Y = X: the interpolation drives z, and stands still beyond its end, where a layer on z forecasts. "
            "Path not trained: α = 0. Nothing hidden: training shows every row, so the path is asked for none between them. "
            "Causal: nothing looks ahead, and it can be streamed. No kernels: κ spans one knot. No pooling: only the end is "
            "read. GRU-ODE on the same Y: in place of the gated linear equations.",
            smoke_rows=("LEAP+ (ours)", "Y = X"),
            smoke_columns=(CHARACTERS,),
        ),
        Study(
            "same-training",
            "LEAP+'s strongest rivals, trained as it is, with as many trials",
            "table",
            (*ALL, *AGES),
            tuple(_rivals(one) for one in (*SETS, SIMULATED)),
            "The three best others of each data set with LEAP+'s optimiser, epochs, hidden rows, warped time, dropped channels "
            "and averaged weights, on Sepsis with its ages too; forecasters are also asked from a random earlier row of each "
            "window, where LEAP+ starts its path again. What is best for each of them was chosen on validation data, from at "
            "least as many trials as LEAP+ had.",
            smoke_rows=("GRU-ODE", "NCDE"),
            smoke_columns=(CHARACTERS,),
        ),
        Study(
            "archive",
            "Problems of the UEA and UCR archives, test accuracy (AUROC of two classes)",
            "table",
            tuple(row for row in ALL if row.model in IN_ARCHIVE),
            _archive(),
            "Nothing was tuned on any of these sets: sizes and rates are those of Character Trajectories, for every model. "
            "They are the problems that the package aeon brings along, but those with more than 700 rows a sample; TRAIN and "
            "TEST are pooled and split anew, as the paper does. Other papers list LEAP near the bottom on such sets, because "
            "they ran the released code.",
            baselines=True,
            smoke_rows=("NCDE", "LEAP"),
            smoke_columns=("BasicMotions, 30 %",),
        ),
        Study(
            "intensity",
            "What the pattern of observations is worth, PhysioNet Sepsis, test AUROC",
            "table",
            (NCDE, LEAP),
            (Column("counts", "sepsis"), Column("no counts", "sepsis", recipe={"intensity": False})),
            "Counts: how often each channel was observed so far is a channel of its own.",
        ),
        Study(
            "ages",
            "What ages are worth, PhysioNet Sepsis, test AUROC",
            "table",
            (PLUS, Row("LEAP+ without ages", "leap+", {"ages": False}), *AGES),
            (SETS[2],),
            "Ages: how long ago each channel was last observed, and how long the stay is, as any curve of time. LEAP+ reads "
            "them beside z; the others read them in the same way, in addition to what they are.",
            baselines=True,
            smoke_rows=("GRU with ages",),
        ),
        Study(
            "output-length",
            "Error against the length of the output, MuJoCo",
            "figure",
            (PLUS, LEAP, NCDE, Row("Latent-ODE", "latent-ode")),
            tuple(Column(str(n), MJ, 0.0, {} if n == 10 else {"horizon": n}) for n in LENGTHS),
            _MUJOCO,
            baselines=True,
            smoke_columns=("1", "10"),
        ),
        Study(
            "sensitivity",
            "Sensitivity to α = β",
            "figure",
            _alphas({f"{value:g}": (value, value) for value in ALPHAS}),
            SOME,
            f"The paper does not print its grid. {SOME_NOTE}",
            smoke_rows=("0.0001", "0.01"),
            smoke_columns=(CHARACTERS,),
        ),
        Study(
            "ratio",
            "Sensitivity to α / β",
            "figure",
            _alphas({f"{ratio:g}": (ratio * _BETA, _BETA) for ratio in RATIOS}),
            SOME,
            f"β = {_BETA:g}; the paper prints neither its grid nor what it held fixed. {SOME_NOTE}",
            smoke_rows=("1", "10"),
            smoke_columns=(CHARACTERS,),
        ),
        Study("paths", "X against the learned path Y, by channel", "figure", (LEAP,), SETS),
        Study("umap", "Paths X and Y of test samples in two dimensions", "figure", (LEAP,), SETS),
        Study("curves", "Training curves", "figure", ALL, SETS),
        Study("cost", "Quality against seconds and memory", "figure", ALL, SETS),
        Study("ranks", "Average ranks over the data sets", "figure", ALL, SETS, "At 30 % dropped where data is dropped."),
        Study(
            "archive-ranks",
            "Average ranks over problems of the UEA and UCR archives",
            "figure",
            tuple(row for row in ALL if row.model in IN_ARCHIVE),
            _archive(),
            "Each problem counts once: with the mean over 0, 30, 50 and 70 % dropped.",
            baselines=True,
            smoke_rows=("NCDE", "LEAP"),
            smoke_columns=("BasicMotions, 30 %",),
        ),
    )
}
MAIN_TABLES = ("character", "speech", "sepsis", "mujoco", "simulations", "regular")  # whose cells have most seeds
ALL_NAME = "all"


def names() -> list[str]:
    return list(STUDIES)


def preset(name: str, budget: str, data_dir: str | None = None) -> Experiment:
    """A table or figure of the paper at a budget.

    >>> one = preset("sepsis", "full")
    >>> one.settings[-4].row, one.settings[0].config.train.epochs, one.settings[0].seeds
    ('class prior', 300, (112, 176, 234, 929, 8888))
    """
    choose("table or figure", name, STUDIES)
    return replace(STUDIES[name].experiment(budgets.budget(budget)), data_dir=data_dir)


def is_baseline_row(label: str) -> bool:
    return label in BASELINES.values()
