"""A traced function without what ONNX's converters refuse: scans that run backwards, running extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend import core


def simplified(function: Callable) -> Callable:
    """The same function, of the same numbers, with its calls inlined and every rule of `RULES` applied.

    >>> import jax.numpy as jnp
    >>> last = lambda x: lax.scan(lambda c, x: (c + x, c + x), 0.0, x, reverse=True)[1]
    >>> jax.jit(simplified(last))(jnp.arange(4.0)).tolist()
    [6.0, 6.0, 5.0, 3.0]
    """

    def run(*args):
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        found = run_trace(closed.jaxpr, closed.consts, jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return run


def run_trace(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Each equation of a trace, by its rule if there is one."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
    read = lambda name: name.val if isinstance(name, core.Literal) else known[name]
    for equation in _needed(jaxpr):
        given = [read(name) for name in equation.invars]
        rule = RULES.get(equation.primitive.name)
        if rule is not None:
            found = rule(equation.params, given)
        else:
            found = equation.primitive.bind(*given, **equation.params)
            found = found if equation.primitive.multiple_results else [found]
        known.update(zip(equation.outvars, found, strict=True))
    return [read(name) for name in jaxpr.outvars]


def _needed(jaxpr: Any) -> list[Any]:
    """The equations without those whose answers nobody reads."""
    wanted, kept = set(map(id, jaxpr.outvars)), []
    for equation in reversed(jaxpr.eqns):
        if any(id(name) in wanted for name in equation.outvars):
            kept.append(equation)
            wanted |= set(map(id, equation.invars))
    return kept[::-1]


def _inline(params: dict[str, Any], given: list[Any]) -> list[Any]:
    inner = params.get("jaxpr") or params.get("call_jaxpr")
    assert inner is not None
    return run_trace(inner.jaxpr, inner.consts, given) if hasattr(inner, "consts") else run_trace(inner, (), given)


def _apart(params: dict[str, Any], given: list[Any]) -> list[Any]:
    """What `paths/apart.py` put behind a condition that always holds, without it. Its other branch makes zeros of nothing."""
    other, own = params["branches"]
    ignored = not set(map(id, other.jaxpr.invars)) & {id(name) for one in other.jaxpr.eqns for name in one.invars}
    if not ignored:
        return lax.cond_p.bind(*given, **params)
    return run_trace(own.jaxpr, own.consts, given[1:])


def _scan(params: dict[str, Any], given: list[Any]) -> list[Any]:
    """Forwards, along arrays that are turned round where it ran backwards."""
    fixed, carried, body = params["num_consts"], params["num_carry"], params["jaxpr"]
    turn = (lambda a: lax.rev(a, (0,))) if params["reverse"] else (lambda a: a)

    def step(carry, row):
        found = run_trace(body.jaxpr, body.consts, [*given[:fixed], *carry, *row])
        return found[:carried], found[carried:]

    rows = [turn(a) for a in given[fixed + carried :]]
    carry, rows = lax.scan(step, given[fixed : fixed + carried], rows, length=params["length"])
    return [*carry, *map(turn, rows)]


def _running(better: Callable) -> Callable:
    """A running extreme, in steps that double: each entry sees those 1, 2, 4, … before it."""

    def rule(params: dict[str, Any], given: list[Any]) -> list[Any]:
        x, axis, reverse = given[0], params["axis"], params["reverse"]
        x, step = lax.rev(x, (axis,)) if reverse else x, 1
        while step < x.shape[axis]:
            before = lax.slice_in_dim(x, 0, x.shape[axis] - step, axis=axis)
            x = better(x, lax.concatenate([lax.slice_in_dim(x, 0, step, axis=axis), before], axis))
            step *= 2
        return [lax.rev(x, (axis,)) if reverse else x]

    return rule


def _gather(params: dict[str, Any], given: list[Any]) -> list[Any]:
    """Rows along one axis, whatever lies around it, as rows of a (1, row, number) array; any other kind is left as it is."""
    (operand, index), how = given, params["dimension_numbers"]
    axis, sizes = int(how.start_index_map[0]), params["slice_sizes"]
    rest = [n for i, n in enumerate(operand.shape) if i != axis]
    whole = len(how.start_index_map) == 1 and all(sizes[i] == n for i, n in enumerate(operand.shape) if i != axis)
    flat = math.prod(rest) == 1 and len(how.operand_batching_dims) < 2  # of single numbers: nothing but their order counts
    if not whole or not (flat or (how.collapsed_slice_dims == (axis,) and not how.operand_batching_dims and index.ndim == 2)):
        return [lax.gather_p.bind(operand, index, **params)]
    order = [axis, *(i for i in range(operand.ndim) if i != axis)]
    rows = lax.reshape(lax.transpose(operand, order), (1, operand.shape[axis], math.prod(rest)))
    index = lax.convert_element_type(lax.reshape(index, (math.prod(index.shape), 1)), "int32")
    plain = lax.GatherDimensionNumbers(offset_dims=(0, 2), collapsed_slice_dims=(1,), start_index_map=(1,))
    taken = lax.gather(rows, index, plain, slice_sizes=(1, 1, rows.shape[2]), mode="clip")
    if flat:
        return [lax.reshape(taken, jax.eval_shape(lambda *a: lax.gather_p.bind(*a, **params), *given).shape)]
    found = lax.reshape(taken, (index.shape[0], *rest))
    place = next(i for i in range(found.ndim) if i not in how.offset_dims)
    return [lax.transpose(found, [*range(1, place + 1), 0, *range(place + 1, found.ndim)])]


def _dot(params: dict[str, Any], given: list[Any]) -> list[Any]:
    """A product over nothing is zero."""
    found = jax.eval_shape(lambda *given: lax.dot_general_p.bind(*given, **params), *given)
    if all(a.size for a in given):
        return [lax.dot_general_p.bind(*given, **params)]
    return [lax.full(found.shape, 0, found.dtype)]


def _pad(params: dict[str, Any], given: list[Any]) -> list[Any]:
    """Joined with what is put around, axis by axis."""
    (x, value), widths = given, params["padding_config"]
    if any(inner or low < 0 or high < 0 for low, high, inner in widths):
        return [lax.pad_p.bind(*given, **params)]
    for axis, (low, high, _) in enumerate(widths):
        around = [lax.broadcast(value, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in (low, high)]
        x = _concatenate({"dimension": axis}, [around[0], x, around[1]])[0]
    return [x]


def _concatenate(params: dict[str, Any], given: list[Any]) -> list[Any]:
    """Without parts that hold nothing."""
    parts = [a for a in given if a.shape[params["dimension"]]]
    return [lax.concatenate(parts, params["dimension"]) if len(parts) > 1 else parts[0]]


RULES: dict[str, Callable[[dict[str, Any], list[Any]], list[Any]]] = {
    "cond": _apart,
    "scan": _scan,
    "gather": _gather,
    "dot_general": _dot,
    "concatenate": _concatenate,
    "pad": _pad,
    "lt_to": lambda params, given: [lax.lt(*given)],  # of numbers, the same
    "le_to": lambda params, given: [lax.le(*given)],
    "cummax": _running(lax.max),
    "cummin": _running(lax.min),
    **dict.fromkeys(("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint"), _inline),
}
