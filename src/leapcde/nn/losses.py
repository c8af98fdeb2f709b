"""Task losses and L_Y (the paper's eq. 11) as pure functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def cross_entropy(
    logits: Float[Array, "batch classes"],
    labels: Int[Array, " batch"],
    weights: Float[Array, " classes"] | None = None,
    smoothing: float = 0.0,
    each: Float[Array, " batch"] | None = None,
) -> Float[Array, ""]:
    """Mean cross-entropy; `weights` counts each sample by its class, `smoothing` shares so much of the truth among all.

    `each` counts each sample by itself. It is to be 1 on average, with the weights of the classes in it, over all data:
    a batch of samples that count little must not count as much as another.

    >>> round(float(cross_entropy(jnp.zeros((1, 2)), jnp.array([0]))), 4)
    0.6931
    """
    log_p = jax.nn.log_softmax(logits)
    loss = -jnp.take_along_axis(log_p, labels[:, None], 1)[:, 0]
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * log_p.mean(-1)
    if each is not None:
        return jnp.mean(each * loss if weights is None else each * weights[labels] * loss)
    if weights is None:
        return loss.mean()
    share = weights[labels]
    return jnp.sum(share * loss) / jnp.sum(share)


def label_entropy(
    logits: Float[Array, "batch labels"],
    labels: Float[Array, "batch labels"],
    weights: Float[Array, " labels"] | None = None,
    each: Float[Array, " batch"] | None = None,
) -> Float[Array, ""]:
    """Mean binary cross-entropy of labels, each 0 or 1 for itself; `weights` is how much a 1 counts, where a 0 counts 1.

    `each` counts each sample, as in `cross_entropy`.

    >>> round(float(label_entropy(jnp.zeros((1, 2)), jnp.array([[0.0, 1.0]]))), 4)
    0.6931
    """
    loss = jax.nn.softplus(jnp.where(labels > 0, -logits, logits))
    share = jnp.ones_like(loss) if weights is None else jnp.where(labels > 0, weights, 1.0)
    if each is not None:
        return jnp.mean(each[:, None] * share * loss)
    return jnp.sum(share * loss) / jnp.sum(share)


def row_cross_entropy(
    logits: Float[Array, "batch rows classes"],
    labels: Int[Array, "batch rows"],
    weights: Float[Array, " classes"] | None = None,
    smoothing: float = 0.0,
    each: Float[Array, " batch"] | None = None,
) -> Float[Array, ""]:
    """As `cross_entropy`, over the rows that have a label: others, and padding, have -1. `each` counts a sample's rows.

    >>> round(float(row_cross_entropy(jnp.zeros((1, 3, 2)), jnp.array([[0, -1, 1]]))), 4)
    0.6931
    """
    there, label = labels >= 0, jnp.maximum(labels, 0)
    log_p = jax.nn.log_softmax(logits)
    loss = -jnp.take_along_axis(log_p, label[..., None], -1)[..., 0]
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * log_p.mean(-1)
    share = there * (1.0 if weights is None else weights[label])
    if each is not None:
        return jnp.sum(each[:, None] * share * loss) / jnp.maximum(there.sum(), 1)
    return jnp.sum(share * loss) / jnp.maximum(share.sum(), 1e-12)


def mean_squared_error(
    predicted: Float[Array, ...], target: Float[Array, ...], each: Float[Array, " batch"] | None = None
) -> Float[Array, ""]:
    """Mean over the entries of the target that are there (not NaN); `each` counts each sample, and is 1 on average.

    >>> float(mean_squared_error(jnp.array([1.0, 2.0]), jnp.array([0.0, float("nan")])))
    1.0
    """
    there = ~jnp.isnan(target)
    error = jnp.where(there, predicted - jnp.where(there, target, 0.0), 0.0)
    squared = error**2 if each is None else each.reshape(-1, *[1] * (error.ndim - 1)) * error**2
    return jnp.sum(squared) / jnp.maximum(there.sum(), 1)


def hazard_loss(
    log_ratio: Float[Array, "batch bins"], target: Float[Array, "batch 2 bins"], each: Float[Array, " batch"] | None = None
) -> Float[Array, ""]:
    """Mean −log-likelihood of hazards that are constant in bins of time, up to a constant.

    The target holds, for each bin, the events that an average sample would have had while this one was watched, and the
    event that it had; `log_ratio` says how many times more there are, as a logarithm (at most ±10).

    >>> float(hazard_loss(jnp.zeros((1, 2)), jnp.array([[[0.5, 0.25], [0.0, 1.0]]])))
    0.75
    """
    ratio = jnp.clip(log_ratio, -10.0, 10.0)
    loss = jnp.sum(target[:, 0] * jnp.exp(ratio) - target[:, 1] * ratio, axis=-1)
    return jnp.mean(loss if each is None else each * loss)


def path_loss(
    Y: Float[Array, "batch length channels"],
    x: Float[Array, "batch length channels"],
    mask: Float[Array, "batch length channels"],
    trace_integral: Float[Array, " batch"],
    *,
    alpha: float,
    beta: float,
) -> Float[Array, ""]:
    """L_Y = (1/MN) Σ_j Σ_i [ α ‖Y(t_i) − x_i‖² + β ∫ tr(∂f/∂h) dt ]  (eqs. 11 and 12).

    The norm runs over the observed entries of x_i, N counts the sample's rows with at least one of them, and
    `trace_integral` is the sum of the intervals' integrals. Minimising −log p adds the trace with a plus sign.
    """
    N = jnp.maximum(mask.max(-1).sum(-1), 1.0)
    squared = jnp.sum(mask * (Y - x) ** 2, axis=(1, 2))
    return jnp.mean((alpha * squared + beta * trace_integral) / N)


def weight_norms(tree) -> Float[Array, ""]:
    """Σ‖θ‖ over the parameter arrays (not squared): the penalty used in the code around the paper.

    >>> float(weight_norms([jnp.array([3.0, 4.0])]))
    5.0
    """
    leaves = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)]
    # The root's slope is infinite at zero; the tiny shift keeps an all-zero bias trainable.
    return sum((jnp.sqrt(jnp.sum(leaf**2) + 1e-24) for leaf in leaves), start=jnp.zeros(()))
