"""RNN, LSTM, GRU, GRU-Δt and GRU-D: recurrent networks over the observations.

All read each row's values, the last known one standing in for a missing one (the training mean before the first), and
the mask that tells which is which. GRU-Δt also reads how long ago each channel was last observed. GRU-D lets both the
stand-in and the state fade over that time (Che et al., Scientific Reports 2018):

    x̂ = m ⊙ x + (1 − m) ⊙ γ_x ⊙ x_last      γ_x = exp(−max(0, w_x ⊙ δ + b_x))     (towards the mean, which is 0 here)
    h ← GRU(γ_h ⊙ h, [x̂, m])                γ_h = exp(−max(0, W_h δ + b_h))
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from leapcde.data.batch import Padded
from leapcde.errors import choose
from leapcde.models.base import Model, Output, Spec, make_head, start_state
from leapcde.models.options import option
from leapcde.models.registry import register
from leapcde.nn.cells import CELLS, GRUCell, RecurrentCell, after_rows, over_rows
from leapcde.nn.dense import Dense
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import forward_fill, neighbours


class OverRows(Model):
    """A state that changes at each row at which something was observed. Subclasses are final."""

    φ_0: Dense
    cell: RecurrentCell
    head: Head

    @abstractmethod
    def rows(self, obs: Padded, δ: Float[Array, "batch length values"]) -> Any:
        """What `update` needs of each row, computed for all of them at once."""

    @abstractmethod
    def update(self, state: Any, row: Any) -> Any: ...

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        return Output(self.answer(self.begin(batch), batch), jnp.zeros(()))

    def each(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        """The answer after each row."""
        obs = batch.obs
        rows = self.rows(obs, since_seen(obs.times, obs.mask))
        states = after_rows(self.update, self.cell.start(self.φ_0(obs.static)), rows, obs.mask.max(-1))
        answers = jax.vmap(lambda state: self.head(self.cell.read(state), obs))(states)
        return Output(jnp.moveaxis(answers, 0, 1), jnp.zeros(()))

    # One observation at a time (`Streamable`). With the state goes the time at which each channel was last observed.

    def begin(self, batch: Batch):
        obs = batch.obs
        rows = self.rows(obs, since_seen(obs.times, obs.mask))
        state = over_rows(self.update, self.cell.start(self.φ_0(obs.static)), rows, obs.mask.max(-1))
        return state, jnp.zeros_like(obs.last)

    def advance(self, carried, batch: Batch):
        (state, seen_at), obs = carried, batch.obs
        rows = jax.tree.map(lambda a: a[:, 1:], self.rows(obs, obs.times[..., None] - seen_at[:, None]))
        state = over_rows(self.update, state, rows, obs.mask[:, 1:].max(-1))
        return state, jnp.where(obs.mask[:, 1] > 0, obs.times[:, 1:], seen_at)

    def answer(self, carried, batch: Batch):
        return self.head(self.cell.read(carried[0]), batch.obs)


@dataclass(frozen=True)
class RecurrentOptions:
    cell: str = option("gru", "'rnn', 'lstm' or 'gru'")
    deltas: bool = option(False, "read how long ago each channel was seen")
    hidden: int = option(48, "size of h")
    anchored: bool = option(True, "forecasts start from the last observed value")


class Recurrent(OverRows):
    """RNN, LSTM, GRU; with `deltas`, GRU-Δt."""

    deltas: bool = eqx.field(static=True)

    Options = RecurrentOptions

    def __init__(self, spec: Spec, options: RecurrentOptions, *, key):
        choose("cell", options.cell, CELLS)
        a, b, c = jax.random.split(key, 3)
        inputs, hidden = (3 if options.deltas else 2) * spec.values, options.hidden
        self.φ_0 = start_state(spec, hidden, key=a)
        self.cell = CELLS[options.cell](inputs, hidden, key=b)  # pyright: ignore[reportCallIssue]
        self.head = make_head(spec, hidden, key=c, anchored=options.anchored)
        self.deltas = options.deltas

    def rows(self, obs, δ):
        # The logarithm of δ, because a channel that was never seen would otherwise drive the gates ever further.
        parts = [forward_fill(obs.values, obs.mask), obs.mask, *([jnp.log1p(δ)] if self.deltas else [])]
        return self.cell.inputs(jnp.concatenate(parts, -1))

    def update(self, state, row):
        return self.cell.step(state, row)


_DISCRETE, _TIMED, CHE = ("discrete",), ("discrete", "time-aware"), "Che et al., Scientific Reports 2018"
register(
    "rnn",
    summary="tanh recurrence over observations",
    reference="Elman, 1990",
    tags=_DISCRETE,
    fixed={"cell": "rnn", "deltas": False},
)(Recurrent)
register(
    "lstm",
    summary="LSTM over observations",
    reference="Hochreiter, Schmidhuber, 1997",
    tags=_DISCRETE,
    fixed={"cell": "lstm", "deltas": False},
)(Recurrent)
register(
    "gru",
    summary="GRU over observations",
    reference="Cho et al., EMNLP 2014",
    tags=_DISCRETE,
    fixed={"cell": "gru", "deltas": False},
)(Recurrent)
register(
    "gru-dt",
    summary="GRU that is told how long ago each channel was seen",
    reference=CHE,
    tags=_TIMED,
    fixed={"cell": "gru", "deltas": True},
)(Recurrent)


@dataclass(frozen=True)
class GRUDOptions:
    hidden: int = option(48, "size of h")
    anchored: bool = option(True, "forecasts start from the last observed value")


@register("gru-d", summary="GRU whose inputs and state fade with time", reference=CHE, tags=_TIMED)
class GRUD(OverRows):
    w_x: Float[Array, " values"]
    b_x: Float[Array, " values"]
    W_h: Dense

    Options = GRUDOptions

    def __init__(self, spec: Spec, options: GRUDOptions, *, key):
        a, b, c, d = jax.random.split(key, 4)
        hidden = options.hidden
        self.φ_0 = start_state(spec, hidden, key=a)
        self.cell = GRUCell(2 * spec.values, hidden, key=b)
        # Decays start slow, and on the side of zero where they have a slope.
        self.w_x, self.b_x = jnp.full(spec.values, 0.1), jnp.zeros(spec.values)
        decay = Dense(spec.values, hidden, key=c)
        self.W_h = eqx.tree_at(lambda d: (d.weight, d.bias), decay, (0.1 * jnp.abs(decay.weight), jnp.zeros(hidden)))
        self.head = make_head(spec, hidden, key=d, anchored=options.anchored)

    def rows(self, obs, δ):
        γ_x = jnp.exp(-jax.nn.relu(self.w_x * δ + self.b_x))
        x = jnp.where(obs.mask > 0, obs.values, γ_x * forward_fill(obs.values, obs.mask))
        γ_h = jnp.exp(-jax.nn.relu(self.W_h(δ)))
        return self.cell.inputs(jnp.concatenate([x, obs.mask], -1)), γ_h

    def update(self, state, row):
        gates, γ_h = row
        return self.cell.step(γ_h * state, gates)


def since_seen(times, mask) -> Float[Array, "batch length values"]:
    """δ: at each row, the time since each channel's last observation *before* it; since the start if there is none.

    >>> since_seen(jnp.array([[0.0, 1.0, 3.0, 6.0]]), jnp.array([[[1.0], [0.0], [1.0], [0.0]]]))[0, :, 0].tolist()
    [0.0, 1.0, 3.0, 3.0]
    """
    before, _ = neighbours(mask)
    earlier = jnp.concatenate([jnp.full_like(before[:, :1], -1), before[:, :-1]], 1)
    clock = jnp.broadcast_to(times[..., None], mask.shape)
    seen_at = jnp.take_along_axis(clock, jnp.maximum(earlier, 0), axis=1)
    return clock - seen_at
