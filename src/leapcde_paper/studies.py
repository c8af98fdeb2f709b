"""One preset for each table and figure of the paper: its rows and columns, settled by a budget into an `Experiment`.

Where the paper does not say what it ran, the choice is in the note: it is printed below the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from leapcde.datasets.registry import source_of
from leapcde.errors import choose
from leapcde.models.registry import MODELS
from leapcde_paper import budgets
from leapcde_paper.baselines import baselines_for
from leapcde_paper.budgets import Budget
from leapcde_paper.paper_numbers import CHARACTERS, MUJOCO, OTHER_SPEECH, SPEECH
from leapcde_paper.rows import (
    AGES,
    ALL,
    ALPHAS,
    BASELINES,
    BETA,
    CT,
    DRAWN,
    DROPPED_NOTE,
    FEW_LAYERS,
    IN_ARCHIVE,
    LAYERS,
    LEAP,
    LENGTHS,
    MJ,
    NCDE,
    OTHER_WORDS,
    PARTS,
    PLUS,
    RATIOS,
    SETS,
    SIMULATED,
    SIZES,
    SOME,
    SOME_NOTE,
    UNITS_NOTE,
    WORD_EPOCHS,
    WORDS,
    Column,
    Row,
    alphas,
    archives,
    dropped,
    simulated,
    with_rivals,
    words_training,
)
from leapcde_paper.run.cell import CellConfig
from leapcde_paper.run.experiment import Experiment, Setting


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
    paths = row.paths or (any(_alike(one, column) for one in SETS) and replace(config, train=leap.train) == leap)
    samples = column.samples if spend.name == "standard" else spend.samples
    return Setting(row.label, column.label, config, seeds[:1] if row.paths else seeds, samples, spend.length, paths)


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


STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study("character", "Character Trajectories, test accuracy", "table", ALL, dropped(CT), baselines=True),
        Study(
            "speech",
            "Speech Commands, test accuracy",
            "table",
            ALL,
            (WORDS, SETS[1]),
            f"{SPEECH}: the paper's words, 19,800 clips (v0.01; the paper "
            f"has 34,975, v0.02), {WORD_EPOCHS} epochs for every model. {OTHER_SPEECH}: 5,000 clips, as in most studies here.",
            baselines=True,
            smoke_columns=(OTHER_SPEECH,),
        ),
        Study(
            "noise",
            "Speech Commands with and without noise in training, test accuracy",
            "table",
            ALL,
            (
                Column("with noise", "speech-commands", 0.0, OTHER_WORDS, train=words_training("training")),
                Column("without noise", "speech-commands", 0.0, OTHER_WORDS, train=words_training("without_noise")),
            ),
            "With noise: Gaussian errors of one standard deviation are added to every frame, anew in every step. The standard "
            "budget trains 40 epochs of 16 clips a step with noise, 20 of 32 without; its table of Speech Commands shows each "
            "model with the training that its validation data prefers.",
            smoke_rows=("NCDE", "LEAP"),
        ),
        Study("sepsis", "PhysioNet Sepsis, test AUROC", "table", ALL, (SETS[2],), baselines=True),
        Study("mujoco", "MuJoCo, test MSE", "table", ALL, dropped(MJ), UNITS_NOTE, baselines=True),
        Study(
            "simulations",
            "MuJoCo as the paper's text has it, test MSE",
            "table",
            ALL,
            simulated(),
            "10,000 simulations of our own, the first 60 steps of each, split by simulation; the paper has other data.",
            baselines=True,
        ),
        Study(
            "regular",
            "Regular series: nothing dropped",
            "table",
            ALL,
            (Column(CHARACTERS, CT), Column(MUJOCO, MJ)),
            UNITS_NOTE,
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
        Study("margins", "LEAP's lead on the same test samples", "table", ALL, (SETS[0], WORDS, *SETS[1:3]), baselines=True),
        Study(
            "margins-plus",
            "LEAP+'s lead on the same test samples",
            "table",
            ALL,
            (SETS[0], WORDS, *SETS[1:], SIMULATED),
            baselines=True,
            smoke_rows=("NCDE", "LEAP", "LEAP+ (ours)"),
            smoke_columns=(CHARACTERS,),
        ),
        Study(
            "hidden",
            "How well paths fill in what was hidden from them",
            "table",
            (LEAP, PLUS),
            (*(Column(f"{CHARACTERS}, {round(100 * x)} % dropped", CT, x) for x in (0.3, 0.7)), WORDS, *SETS[1:], SIMULATED),
            smoke_rows=("LEAP", "LEAP+ (ours)"),
            smoke_columns=(f"{CHARACTERS}, 30 % dropped",),
        ),
        Study(
            "layers-classification",
            "Learnable layers in place of a learned path: classification",
            "table",
            LAYERS,
            SETS[:3],
            DROPPED_NOTE,
            smoke_rows=FEW_LAYERS,
            smoke_columns=(CHARACTERS,),
        ),
        Study(
            "layers-forecasting",
            "Learnable layers in place of a learned path: forecasting",
            "table",
            LAYERS,
            SETS[3:],
            f"{DROPPED_NOTE} {UNITS_NOTE}",
            smoke_rows=FEW_LAYERS,
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
            tuple(with_rivals(one) for one in (*SETS, SIMULATED)),
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
            archives(),
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
            UNITS_NOTE,
            baselines=True,
            smoke_columns=("1", "10"),
        ),
        Study(
            "sensitivity",
            "Sensitivity to α = β",
            "figure",
            alphas({f"{value:g}": (value, value) for value in ALPHAS}),
            SOME,
            f"The paper does not print its grid. {SOME_NOTE}",
            smoke_rows=("0.0001", "0.01"),
            smoke_columns=(CHARACTERS,),
        ),
        Study(
            "ratio",
            "Sensitivity to α / β",
            "figure",
            alphas({f"{ratio:g}": (ratio * BETA, BETA) for ratio in RATIOS}),
            SOME,
            f"β = {BETA:g}; the paper prints neither its grid nor what it held fixed. {SOME_NOTE}",
            smoke_rows=("1", "10"),
            smoke_columns=(CHARACTERS,),
        ),
        Study("paths", "X against the learned path Y, by channel", "figure", (LEAP, DRAWN), SETS),
        Study("umap", "Paths X and Y of test samples in two dimensions", "figure", (LEAP, DRAWN), SETS),
        Study("curves", "Training curves", "figure", ALL, SETS),
        Study("cost", "Quality against seconds and memory", "figure", ALL, SETS),
        Study("ranks", "Average ranks over the data sets", "figure", ALL, SETS, "At 30 % dropped where data is dropped."),
        Study(
            "archive-ranks",
            "Average ranks over problems of the UEA and UCR archives",
            "figure",
            tuple(row for row in ALL if row.model in IN_ARCHIVE),
            archives(),
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
