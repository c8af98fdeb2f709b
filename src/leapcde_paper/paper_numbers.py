"""What the paper prints: every table, by its rows and columns. (mean, deviation over five seeds); memory in MB of its GPU."""

from __future__ import annotations

from typing import Any, NamedTuple

Figure = tuple[float, float | None]
LABELS = {
    "rnn": "RNN",
    "lstm": "LSTM",
    "gru": "GRU",
    "gru-dt": "GRU-Δt",
    "gru-d": "GRU-D",
    "gru-ode": "GRU-ODE",
    "ode-rnn": "ODE-RNN",
    "latent-ode": "Latent-ODE",
    "augmented-ode": "Augmented-ODE",
    "ace-node": "ACE-NODE",
    "ncde": "NCDE",
    "ancde": "ANCDE",
    "leap": "LEAP",
}
DROPS = ("30 %", "50 %", "70 %")
CHARACTERS, SEPSIS, MUJOCO = "Character Trajectories", "PhysioNet Sepsis", "MuJoCo as run"
SPEECH, OTHER_SPEECH = "Speech Commands", "Speech Commands, ten other words"  # than the paper's


class Table(NamedTuple):
    """`rows` and `memory` hold a figure for each column, or one for all."""

    columns: tuple[str, ...]
    rows: dict[str, tuple[Figure, ...]]
    memory: dict[str, tuple[float, ...]]


def _three(*row: float) -> tuple[Figure, ...]:
    return tuple(zip(row[0::2], row[1::2], strict=True))


TABLES: dict[str, Table] = {
    "character": Table(
        DROPS,
        {
            "GRU-Δt": _three(0.941, 0.018, 0.928, 0.021, 0.918, 0.017),
            "GRU-D": _three(0.938, 0.020, 0.910, 0.048, 0.916, 0.021),
            "GRU-ODE": _three(0.894, 0.012, 0.886, 0.039, 0.891, 0.029),
            "ODE-RNN": _three(0.946, 0.007, 0.954, 0.003, 0.949, 0.004),
            "Latent-ODE": _three(0.881, 0.021, 0.878, 0.021, 0.879, 0.048),
            "Augmented-ODE": _three(0.972, 0.012, 0.948, 0.022, 0.929, 0.023),
            "ACE-NODE": _three(0.881, 0.036, 0.879, 0.025, 0.913, 0.028),
            "NCDE": _three(0.988, 0.004, 0.988, 0.002, 0.985, 0.005),
            "ANCDE": _three(0.988, 0.001, 0.986, 0.002, 0.986, 0.004),
            "LEAP": _three(0.992, 0.001, 0.993, 0.002, 0.991, 0.003),
        },
        {
            "GRU-Δt": (16.5,),
            "GRU-D": (17.8,),
            "GRU-ODE": (1.51,),
            "ODE-RNN": (15.5,),
            "Latent-ODE": (181.0,),
            "Augmented-ODE": (186.0,),
            "ACE-NODE": (113.0,),
            "NCDE": (1.38,),
            "ANCDE": (2.02,),
            "LEAP": (9.24,),
        },
    ),
    "speech": Table(
        (SPEECH,),
        {
            "RNN": ((0.197, 0.006),),
            "LSTM": ((0.684, 0.034),),
            "GRU": ((0.747, 0.050),),
            "GRU-Δt": ((0.453, 0.313),),
            "GRU-D": ((0.346, 0.286),),
            "GRU-ODE": ((0.487, 0.018),),
            "ODE-RNN": ((0.678, 0.276),),
            "Latent-ODE": ((0.912, 0.006),),
            "Augmented-ODE": ((0.911, 0.008),),
            "ACE-NODE": ((0.911, 0.003),),
            "NCDE": ((0.898, 0.025),),
            "ANCDE": ((0.807, 0.075),),
            "LEAP": ((0.922, 0.002),),
        },
        {
            "RNN": (1905.0,),
            "LSTM": (4080.0,),
            "GRU": (4609.0,),
            "GRU-Δt": (1612.0,),
            "GRU-D": (1717.0,),
            "GRU-ODE": (171.3,),
            "ODE-RNN": (1472.0,),
            "Latent-ODE": (2668.0,),
            "Augmented-ODE": (2626.0,),
            "ACE-NODE": (3046.0,),
            "NCDE": (174.9,),
            "ANCDE": (179.8,),
            "LEAP": (391.1,),
        },
    ),
    "sepsis": Table(
        (SEPSIS,),
        {
            "GRU-Δt": ((0.861, 0.002),),
            "GRU-D": ((0.878, 0.019),),
            "GRU-ODE": ((0.852, 0.009),),
            "ODE-RNN": ((0.874, 0.012),),
            "Latent-ODE": ((0.782, 0.014),),
            "Augmented-ODE": ((0.842, 0.017),),
            "ACE-NODE": ((0.823, 0.012),),
            "NCDE": ((0.872, 0.003),),
            "ANCDE": ((0.886, 0.002),),
            "LEAP": ((0.908, 0.004),),
        },
        {
            "GRU-Δt": (837.0,),
            "GRU-D": (889.0,),
            "GRU-ODE": (454.0,),
            "ODE-RNN": (696.0,),
            "Latent-ODE": (133.0,),
            "Augmented-ODE": (998.0,),
            "ACE-NODE": (194.0,),
            "NCDE": (244.0,),
            "ANCDE": (285.0,),
            "LEAP": (306.0,),
        },
    ),
    "mujoco": Table(
        DROPS,
        {
            "GRU-Δt": _three(0.186, 0.036, 0.189, 0.015, 0.187, 0.018),
            "GRU-D": _three(0.417, 0.032, 0.421, 0.039, 0.438, 0.042),
            "GRU-ODE": _three(0.826, 0.015, 0.821, 0.015, 0.681, 0.014),
            "ODE-RNN": _three(0.242, 0.213, 0.240, 0.110, 0.240, 0.116),
            "Latent-ODE": _three(0.048, 0.001, 0.043, 0.004, 0.056, 0.001),
            "Augmented-ODE": _three(0.042, 0.004, 0.048, 0.005, 0.052, 0.003),
            "ACE-NODE": _three(0.047, 0.007, 0.047, 0.005, 0.048, 0.005),
            "NCDE": _three(0.028, 0.000, 0.029, 0.001, 0.031, 0.004),
            "ANCDE": _three(0.035, 0.002, 0.031, 0.003, 0.033, 0.003),
            "LEAP": _three(0.022, 0.001, 0.022, 0.002, 0.022, 0.001),
        },
        {
            "GRU-Δt": (533.0,),
            "GRU-D": (569.0,),
            "GRU-ODE": (146.0,),
            "ODE-RNN": (115.0,),
            "Latent-ODE": (314.0,),
            "Augmented-ODE": (286.0,),
            "ACE-NODE": (423.0,),
            "NCDE": (52.1,),
            "ANCDE": (79.2,),
            "LEAP": (144.0,),
        },
    ),
    "regular": Table(
        (CHARACTERS, MUJOCO),
        {
            "RNN": _three(0.311, 0.038, 0.051, 0.001),
            "LSTM": _three(0.791, 0.083, 0.064, 0.001),
            "GRU": _three(0.844, 0.089, 0.053, 0.000),
            "GRU-Δt": _three(0.834, 0.078, 0.142, 0.020),
            "GRU-D": _three(0.896, 0.030, 0.471, 0.038),
            "GRU-ODE": _three(0.878, 0.051, 0.821, 0.027),
            "ODE-RNN": _three(0.827, 0.048, 0.234, 0.211),
            "Latent-ODE": _three(0.942, 0.008, 0.049, 0.007),
            "Augmented-ODE": _three(0.970, 0.009, 0.045, 0.004),
            "ACE-NODE": _three(0.891, 0.001, 0.046, 0.003),
            "NCDE": _three(0.981, 0.002, 0.028, 0.002),
            "ANCDE": _three(0.986, 0.007, 0.029, 0.003),
            "LEAP": _three(0.992, 0.001, 0.022, 0.002),
        },
        {
            "RNN": (52.2, 409.1),
            "LSTM": (48.6, 411.2),
            "GRU": (54.8, 439.5),
            "GRU-Δt": (16.5, 532.9),
            "GRU-D": (17.8, 569.1),
            "GRU-ODE": (1.51, 146.2),
            "ODE-RNN": (15.5, 146.3),
            "Latent-ODE": (181.0, 314.9),
            "Augmented-ODE": (186.0, 286.1),
            "ACE-NODE": (113.0, 4226.0),
            "NCDE": (1.38, 52.08),
            "ANCDE": (2.02, 79.22),
            "LEAP": (9.24, 144.1),
        },
    ),
    "layers-classification": Table(
        (CHARACTERS, OTHER_SPEECH, SEPSIS),
        {
            "Learnable layers + GRU-ODE": ((0.875, None), (0.554, None), (0.863, None)),
            "Learnable layers + ODE-RNN": ((0.942, None), (0.428, None), (0.894, None)),
            "Learnable layers + NCDE": ((0.985, None), (0.921, None), (0.881, None)),
            "LEAP without likelihood": ((0.973, None), (0.921, None), (0.897, None)),
            "LEAP": ((0.992, None), (0.922, None), (0.908, None)),
        },
        {},
    ),
    "layers-forecasting": Table(
        (MUJOCO,),
        {
            "Learnable layers + GRU-ODE": ((0.765, None),),
            "Learnable layers + ODE-RNN": ((0.752, None),),
            "Learnable layers + NCDE": ((0.037, None),),
            "LEAP without likelihood": ((0.024, None),),
            "LEAP": ((0.022, None),),
        },
        {},
    ),
    "model-size": Table(
        (SEPSIS,),
        {
            "NCDE (small)": ((0.880, None),),
            "LEAP (small)": ((0.900, None),),
            "NCDE (medium)": ((0.879, None),),
            "LEAP (medium)": ((0.908, None),),
            "NCDE (large)": ((0.874, None),),
            "LEAP (large)": ((0.894, None),),
        },
        {
            "NCDE (small)": (244.0,),
            "LEAP (small)": (275.0,),
            "NCDE (medium)": (304.0,),
            "LEAP (medium)": (306.0,),
            "NCDE (large)": (406.0,),
            "LEAP (large)": (406.0,),
        },
    ),
}
# LEAP against each, by step ahead: (t, p). From step 6 on, NCDE's column of t is shifted by a row against its p: those
# say -28.66, -27.81, -26.74, -25.30, -23.34 at 599 degrees of freedom.
T_TESTS: dict[str, tuple[tuple[float, float], ...]] = {
    "GRU-Δt": (
        (-88.95, 0.0),
        (-88.34, 0.0),
        (-87.19, 0.0),
        (-85.67, 0.0),
        (-83.69, 0.0),
        (-81.37, 0.0),
        (-78.87, 6.84e-319),
        (-76.33, 3.89e-311),
        (-73.58, 1.68e-302),
        (-70.45, 2.25e-292),
    ),
    "NCDE": (
        (-28.64, 1.41e-114),
        (-29.85, 6.09e-121),
        (-30.14, 1.74e-122),
        (-29.91, 2.80e-121),
        (-29.38, 1.72e-118),
        (-29.38, 1.01e-114),
        (-28.66, 3.11e-110),
        (-27.81, 1.38e-104),
        (-25.29, 6.51e-97),
        (-23.34, 1.69e-86),
    ),
}
_WHERE = {
    "character-trajectories": ("character", "regular", CHARACTERS),
    "mujoco-as-run": ("mujoco", "regular", MUJOCO),
    "speech-commands": ("speech", "speech", SPEECH),
    "sepsis": ("sepsis", "sepsis", SEPSIS),
}


def cell(table: str, row: str, column: str) -> Figure | None:
    """What a table of the paper prints in a row and column, if anything.

    >>> cell("mujoco", "LEAP", "50 %")
    (0.022, 0.002)
    """
    found = TABLES.get(table)
    return None if found is None else _in_column(found.rows.get(row), found.columns, column)


def memory(table: str, row: str, column: str) -> float | None:
    """The paper's megabytes for a row and column, if it prints them.

    >>> memory("regular", "LEAP", "MuJoCo as run")
    144.1
    """
    found = TABLES.get(table)
    return None if found is None else _in_column(found.memory.get(row), found.columns, column)


def _in_column(figures: tuple[Any, ...] | None, columns: tuple[str, ...], column: str) -> Any:
    if figures is None or column not in columns:
        return None
    return figures[columns.index(column) if len(figures) > 1 else 0]


def figure(data: str, drop: float, model: str) -> Figure | None:
    """The paper's mean and deviation of a model on a data set with a share of it dropped, if it prints any.

    >>> figure("character-trajectories", 0.3, "leap")
    (0.992, 0.001)
    """
    if data not in _WHERE:
        return None
    dropped, whole, column = _WHERE[data]
    return (
        cell(whole, LABELS.get(model, model), column)
        if not drop
        else cell(dropped, LABELS.get(model, model), f"{drop:.0%}".replace("%", " %"))
    )
