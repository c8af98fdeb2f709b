"""How to solve: the method, its steps or its tolerances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leapcde.errors import InputError, choose
from leapcde.paths.path import CubicPath, WithValues

Field = Callable[[Any, Any], Any]  # (state, control) -> d state/ds; leaves are (batch, ...)
Drive = CubicPath | WithValues  # the control is dX/ds, or the pair (dX/ds, X)
FIXED = ("euler", "midpoint", "heun", "rk4", "rk4-3/8", "dopri5")  # a step at every knot, or a fixed number between
ADAPTIVE = ("adaptive-tsit5", "adaptive-dopri5")
METHODS = (*FIXED, *ADAPTIVE)


@dataclass(frozen=True)
class Solver:
    """How to solve. Fixed methods take `substeps` steps a piece of the path; adaptive ones obey the tolerances.

    >>> Solver("rk4").substeps
    1
    """

    method: str = "midpoint"
    substeps: int = 1
    checkpoint: bool = False  # recompute each step in the backward pass: less memory, more time
    rtol: float = 1e-4
    atol: float = 1e-6
    max_steps: int = 4096

    def __post_init__(self):
        choose("solver", self.method, METHODS)
        if self.substeps < 1:
            raise InputError(f"substeps {self.substeps}: give at least 1")

    @property
    def adaptive(self) -> bool:
        """Does the error choose the steps?"""
        return self.method in ADAPTIVE
