"""LEAP+ once more, as loops in NumPy over samples, channels and knots: what its tests compare it with."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leapcde.models.leap_plus import SIDE
from leapcde.nn.ages import AGES, LONG


@eqx.filter_jit
def at(X, t):
    return X.evaluate(t)


def dense(layer, x):
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)


def silu(x):
    return x / (1 + np.exp(-x))


def rms(x, weight):
    return x / np.sqrt(np.mean(x * x) + 1e-5) * np.asarray(weight)


def slow_Y(model, batch, b, t):
    """Y(t) and log s(t) of one sample, channel by channel, from its list of observations."""
    obs, C, span = jax.tree.map(np.asarray, batch.obs), model.values, model.span
    X = np.asarray(at(batch.X, jnp.full((4, 1), t)))[b, 0, -C:]
    x, gap, there = np.zeros((2 * SIDE, C)), np.full((2 * SIDE, C), 4 * span), np.zeros((2 * SIDE, C), bool)
    for c in range(C):
        seen = [(float(s), float(v)) for s, v, m in zip(obs.times[b], obs.values[b, :, c], obs.mask[b, :, c], strict=True) if m]
        sides = [[o for o in seen if o[0] <= t][::-1][:SIDE], [o for o in seen if o[0] >= t][:SIDE]]
        for side, found in enumerate(sides):
            for j, (s, v) in enumerate(found):
                x[side * SIDE + j, c], gap[side * SIDE + j, c], there[side * SIDE + j, c] = v - X[c], abs(t - s), True
    inputs = np.concatenate([x, np.log1p(gap)]).reshape(-1)
    out = dense(model.Y.m.layers[2], silu(dense(model.Y.m.layers[1], silu(dense(model.Y.m.layers[0], inputs))))).reshape(6, C)
    (before, after), (g0, g1) = (x[0], x[SIDE]), (gap[0], gap[SIDE])
    both = there[0] & there[SIDE]
    line = np.where(both, (g1 * before + g0 * after) / np.maximum(g0 + g1, 1e-6), 0)
    w = np.exp(out[:4]) / (np.exp(out[:4]).sum(0) + np.exp(2))
    d = np.sqrt(np.var([line, before, after, 0 * line], axis=0) + 1e-12) + 1e-3
    r = 1 - np.exp(-np.minimum(g0, g1))
    Y = X + r * (w[0] * line + w[1] * before + w[2] * after - w[3] * X + d * out[4])
    return Y, np.log(d * r + 1e-3) + out[5]


def slow_z(model, batch, b):
    """The stack of one sample at its own rows, knot by knot."""
    obs, C = jax.tree.map(np.asarray, batch.obs), model.values
    times = np.unique(obs.times[b])
    K, D = len(times), model.norm.shape[0]
    found = [slow_Y(model, batch, b, t) for t in times]
    Y = np.stack([y for y, _ in found])
    dY = np.diff(Y, axis=0, prepend=Y[:1])
    both, zero = np.concatenate([Y, dY], 1), np.zeros(2 * C)
    u = []
    for k, t in enumerate(times):
        near = [both[k + j] if 0 <= k + j < K else zero for j in (-1, 0, 1)]
        mask = np.asarray(obs.mask[b])
        at = {c: [float(s) for s, m in zip(obs.times[b], mask[:, c], strict=True) if m] for c in range(C)}
        g0 = [min([t - s for s in at[c] if s <= t], default=4 * model.span) for c in range(C)]
        g1 = [min([s - t for s in at[c] if s >= t], default=4 * model.span) for c in range(C)]
        count = [float(t in at[c]) for c in range(C)]
        still = [times[-1] / model.span]
        u.append(dense(model.W, np.concatenate([*near, np.log1p(count), found[k][1], np.log1p(g0), np.log1p(g1), still])))
    u = np.stack(u)
    for block in model.blocks:
        n, κ = np.stack([rms(x, block.norm) for x in u]), np.asarray(block.κ)
        a = np.stack([sum(κ[j + 1] * n[k + j] for j in (-1, 0, 1) if 0 <= k + j < K) for k in range(K)])
        λ, v, gate = np.split(dense(block.W, a), 3, -1)
        λ = 1 / (1 + np.exp(-λ))
        z, half = np.zeros((K, D)), D // 2
        for k in range(K):
            before = z[k - 1, :half] if k else 0
            z[k, :half] = (1 - λ[k, :half]) * before + np.sqrt(λ[k, :half]) * v[k, :half]
        for k in reversed(range(K)):
            behind = z[k + 1, half:] if k + 1 < K else 0
            z[k, half:] = (1 - λ[k, half:]) * behind + np.sqrt(λ[k, half:]) * v[k, half:]
        u = u + dense(block.W_o, z * silu(gate))
    u = np.stack([rms(x, model.norm) for x in u])
    return np.concatenate([u[-1], u.mean(0), u.max(0), slow_q(model, obs, b, at, times[-1])])


def slow_q(model, obs, b, at, end):
    """What is read of ages and duration, by NumPy's linear interpolation of each hat."""
    C, long, log = model.values, model.span, np.log1p
    curve = lambda x, top, count: [np.interp(x, np.linspace(0, top, count), hat) for hat in np.eye(count)]
    ages = [curve(log(end - at[c][-1]), log(long), AGES) if at[c] else [0.0] * AGES for c in range(C)]
    last = [[v for v, m in zip(obs.values[b, :, c], obs.mask[b, :, c], strict=True) if m] for c in range(C)]
    known = [log(float(len(at[c]))) for c in range(C)], [float(v[-1]) if v else 0.0 for v in last]
    return silu(dense(model.ages.W, np.concatenate([*ages, curve(end, long, LONG), *known])))


def slow_flow(model, obs, b, row, z, dt, steps):
    """Y at multiples of dt after a row of a sample, from what is seen up to that row."""
    obs = jax.tree.map(np.asarray, obs)
    f, seen = model.onward.f, obs.mask[b] * (np.arange(obs.mask.shape[1]) <= row)[:, None]
    x, slopes = np.zeros(3), np.zeros((SIDE - 1, 3))
    for c in range(3):
        mine = [(float(t), float(v)) for t, v, m in zip(obs.times[b], obs.values[b, :, c], seen[:, c], strict=True) if m]
        for j, (t, v) in enumerate(mine[::-1][:SIDE]):
            if j == 0:
                x[c] = v
            else:
                slopes[j - 1, c] = (x[c] - v) / (mine[-1][0] - t)
    h = np.concatenate([x, dense(model.onward.φ, np.concatenate([x, slopes.reshape(-1), z]))])
    track = [h[:3]]
    for _ in range(steps):
        a = dense(f.W1, h)
        u = np.concatenate([np.sin(a[:3]), silu(a[3:])])
        h = h + dt * (h @ np.asarray(f.A) + np.asarray(f.b) + dense(f.W3, silu(dense(f.W2, u))))
        track.append(h[:3])
    return track


def between(track, at):
    i = min(int(at + 1e-9), len(track) - 2)
    return track[i] + (at - i) * (track[i + 1] - track[i])
