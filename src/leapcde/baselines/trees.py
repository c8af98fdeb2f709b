"""Boosted trees and forests as arrays: what scikit-learn learned, kept without pickles and asked without scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
BLOCK = 2_000_000  # samples times trees that are followed at once
SMALL = 2_000_000  # numbers of a table: up to here one thread learns from it
HOLDS_OUT = 10_000  # rows from which on scikit-learn holds a tenth out
SELDOM = 12  # values of a column, all of which might be held out
LEAF = 20  # samples in a leaf at least, as scikit-learn has it; fewer where there are few
TREES, LEAVES = 200, 256  # of a forest: its trees, and at most so many leaves in each, so that files stay small


def fit_trees(
    inputs: np.ndarray,
    target: np.ndarray,
    *,
    classes: int = 0,
    seed: int = 0,
    weights: np.ndarray | None = None,
    rounds: int | None = None,
) -> Arrays:
    """Boosted trees on a table that may hold NaN, for labels below `classes`, or for numbers if there are none.

    With `rounds`, exactly so many; else as many as scikit-learn thinks right, by rows that it holds out.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    settings: dict[str, Any] = {"min_samples_leaf": int(np.clip(len(inputs) // 20, 3, LEAF)), "random_state": seed}
    settings |= {} if rounds is None else {"max_iter": rounds, "early_stopping": False}
    make = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    with few_threads(inputs):
        model = make(**settings).fit(of_known_columns(inputs, weights), target, sample_weight=weights)
    return tree_arrays(model, classes)


def of_known_columns(inputs: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The table with 0 in columns that hold nothing, or may once some of many rows are held out: scikit-learn fails on them."""
    counts = ~np.isnan(inputs) if weights is None else ~np.isnan(inputs) & (weights > 0)[:, None]
    few = counts.sum(0) < (1 if len(inputs) <= HOLDS_OUT else SELDOM)
    return np.where(few, 0.0, inputs) if few.any() else inputs


def few_threads(inputs: np.ndarray) -> Any:
    """One thread while trees learn from a small table. On a busy machine threads of OpenMP wait for each other by spinning:
    280 rows took 2.8 s of two cores instead of 0.06 of one, and 30,000 rows still three times as much."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1 if inputs.size < SMALL else None, user_api="openmp")


def first_rounds(trees: Arrays, rounds: int) -> Arrays:
    """The trees of the first so many rounds; of three classes or more, each round has a tree for each."""
    kept = rounds * len(trees["start"])
    cut = {name: array[:kept] if array.ndim == 2 else array for name, array in trees.items()}
    return {**cut, "strength": np.array(float(rounds))}


def tree_arrays(model: Any, classes: int = 0) -> Arrays:
    """The trees of a HistGradientBoosting model, all as large as the largest: (tree, node). A leaf leads to itself."""
    trees = [tree.nodes for round in model._predictors for tree in round]
    size = max((len(nodes) for nodes in trees), default=1)
    found: Arrays = {name: np.zeros((len(trees), size), kind) for name, kind in _FIELDS.items()}
    found["left"], found["right"] = (np.tile(np.arange(size, dtype=np.int32), (len(trees), 1)) for _ in range(2))
    for i, nodes in enumerate(trees):
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        for name, own in _NAMES.items():
            found[name][i, : len(nodes)] = nodes[own]
        found["left"][i, inner], found["right"][i, inner] = nodes["left"][inner], nodes["right"][inner]
        found["value"][i, inner] = 0.0
    found["start"] = np.ravel(model._baseline_prediction).astype(float)
    found["depth"] = np.array(max((int(nodes["depth"].max()) for nodes in trees), default=0))
    known = np.arange(classes) if not classes else np.asarray(model.classes_)
    return {**found, "classes": known.astype(np.int64)}


def fit_forest(
    inputs: np.ndarray, target: np.ndarray, *, classes: int = 0, seed: int = 0, weights: np.ndarray | None = None
) -> Arrays:
    """Extremely randomised trees on a table without NaN, for labels below `classes`, or for columns of numbers."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    most = LEAVES if len(inputs) > LEAVES else None  # a small forest grows deeper if its leaves are not counted
    settings = {"n_estimators": TREES, "max_leaf_nodes": most, "random_state": seed}
    if classes:
        return forest_arrays(ExtraTreesClassifier(**settings).fit(inputs, target, sample_weight=weights), classes)
    numbers = target[:, 0] if target.shape[1] == 1 else target
    return forest_arrays(ExtraTreesRegressor(**settings, max_features=1 / 3).fit(inputs, numbers, sample_weight=weights))


def forest_arrays(model: Any, classes: int = 0) -> Arrays:
    """The trees of a forest of scikit-learn, as `tree_arrays` has them; a leaf holds the share of each class, or a number."""
    trees = [one.tree_ for one in model.estimators_]
    size, outputs = max(tree.node_count for tree in trees), classes or model.n_outputs_
    found: Arrays = {name: np.zeros((len(trees), size), kind) for name, kind in _FIELDS.items() if name != "value"}
    found["left"], found["right"] = (np.tile(np.arange(size, dtype=np.int32), (len(trees), 1)) for _ in range(2))
    found["value"] = np.zeros((len(trees), size, outputs), np.float32)
    known = np.asarray(model.classes_).astype(int) if classes else np.arange(outputs)
    for i, tree in enumerate(trees):
        inner = np.flatnonzero(tree.children_left >= 0)
        found["left"][i, inner], found["right"][i, inner] = tree.children_left[inner], tree.children_right[inner]
        found["feature"][i, inner], found["threshold"][i, inner] = tree.feature[inner], tree.threshold[inner]
        found["value"][i, : tree.node_count, known] = (tree.value[:, 0] if classes else tree.value[:, :, 0]).T
    return {**found, "depth": np.array(max(tree.max_depth for tree in trees))}


def check_trees(arrays: Arrays, inputs: int) -> None:
    """Every way through stored trees must ask for one of the inputs and end at a node that is there; other arrays have nothing
    to check.

    >>> check_trees({"mean": np.zeros(3)}, 5)
    """
    if "left" not in arrays:
        return
    size = arrays["left"].shape[1]
    inside = all(((nodes >= 0) & (nodes < size)).all() for nodes in (arrays["left"], arrays["right"]))
    asked = ((arrays["feature"] >= 0) & (arrays["feature"] < inputs)).all()
    if not inside or not asked or not 0 <= int(arrays["depth"]) <= size:
        raise IndexError("trees that lead nowhere")


def means(trees: Arrays, inputs: np.ndarray) -> np.ndarray:
    """What the trees of a forest say on average for each row of a table: (sample, class), or (sample, 1)."""
    block = max(1, BLOCK // len(trees["feature"]))
    parts = [inputs[start : start + block].astype(np.float32).astype(float) for start in range(0, len(inputs), block)]
    return np.concatenate([_leaves(trees, part).mean(1, dtype=float) for part in parts])


def sums(trees: Arrays, inputs: np.ndarray) -> np.ndarray:
    """What the trees add up to for each row of a table: (sample, 1), or (sample, class) of three classes or more."""
    count, outputs = len(trees["feature"]), len(trees["start"])
    block = max(1, BLOCK // max(count, 1))
    found = np.empty((len(inputs), outputs))
    for start in range(0, len(inputs), block):
        values = _leaves(trees, np.asarray(inputs[start : start + block], float))
        found[start : start + block] = trees["start"] + values.reshape(len(values), -1, outputs).sum(1)
    return found


def _leaves(trees: Arrays, inputs: np.ndarray) -> np.ndarray:
    tree, row = np.arange(len(trees["feature"])), np.arange(len(inputs))[:, None]
    node = np.zeros((len(inputs), len(tree)), np.int32)
    for _ in range(int(trees["depth"])):
        asked = inputs[row, trees["feature"][tree, node]]
        left = np.where(np.isnan(asked), trees["missing_left"][tree, node], asked <= trees["threshold"][tree, node])
        node = np.where(left, trees["left"][tree, node], trees["right"][tree, node])
    return trees["value"][tree, node]


_FIELDS = {"feature": np.int32, "threshold": float, "missing_left": bool, "value": float}
_NAMES = {"feature": "feature_idx", "threshold": "num_threshold", "missing_left": "missing_go_to_left", "value": "value"}
