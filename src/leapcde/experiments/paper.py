"""What the paper's tables print, by data set, share of dropped time points and model: (mean, deviation)."""

from __future__ import annotations

Figure = tuple[float, float]

ACCURACY: dict[tuple[str, float], dict[str, Figure]] = {
    ("character-trajectories", 0.3): {
        "gru-dt": (0.941, 0.018),
        "gru-d": (0.938, 0.020),
        "gru-ode": (0.894, 0.012),
        "ode-rnn": (0.946, 0.007),
        "latent-ode": (0.881, 0.021),
        "augmented-ode": (0.972, 0.012),
        "ace-node": (0.881, 0.036),
        "ncde": (0.988, 0.004),
        "ancde": (0.988, 0.001),
        "leap": (0.992, 0.001),
    },
    ("character-trajectories", 0.5): {
        "gru-dt": (0.928, 0.021),
        "gru-d": (0.910, 0.048),
        "gru-ode": (0.886, 0.039),
        "ode-rnn": (0.954, 0.003),
        "latent-ode": (0.878, 0.021),
        "augmented-ode": (0.948, 0.022),
        "ace-node": (0.879, 0.025),
        "ncde": (0.988, 0.002),
        "ancde": (0.986, 0.002),
        "leap": (0.993, 0.002),
    },
    ("character-trajectories", 0.7): {
        "gru-dt": (0.918, 0.017),
        "gru-d": (0.916, 0.021),
        "gru-ode": (0.891, 0.029),
        "ode-rnn": (0.949, 0.004),
        "latent-ode": (0.879, 0.048),
        "augmented-ode": (0.929, 0.023),
        "ace-node": (0.913, 0.028),
        "ncde": (0.985, 0.005),
        "ancde": (0.986, 0.004),
        "leap": (0.991, 0.003),
    },
}


def figure(data: str, drop: float, model: str) -> Figure | None:
    """The paper's mean and deviation, if it prints any.

    >>> figure("character-trajectories", 0.3, "leap")
    (0.992, 0.001)
    """
    return ACCURACY.get((data, drop), {}).get(model)
