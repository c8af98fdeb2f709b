"""Learnable layers ahead of a model: the paper's ablation that asks whether any learned change of the input would do.

x′_i = x_i's row through a point-wise network, D_x → D_x; then the path through x′, and the model, as ever
"""

from __future__ import annotations

from dataclasses import field, make_dataclass
from typing import Any

import equinox as eqx
import jax

from leapcde.models.base import Model, Output, Spec
from leapcde.models.options import option
from leapcde.models.registry import MODELS, register
from leapcde.nn.dense import MLP
from leapcde.paths.batch import Batch, Recipe


class LearnableLayers(Model):
    layers: MLP
    model: Model
    recipe: Recipe = eqx.field(static=True)

    def __init__(self, spec: Spec, options: Any, *, key):
        a, b = jax.random.split(key)
        sizes = (spec.values, *[options.layer_width] * options.layer_depth, spec.values)
        self.layers = MLP(sizes, (*["relu"] * options.layer_depth, "none"), key=a)
        self.model = MODELS[options.of].make(spec, options, key=b)  # pyright: ignore[reportCallIssue]
        self.recipe = spec.recipe

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        # What was missing stays missing: the network fills nothing in, it changes what was seen.
        obs = batch.obs._replace(values=self.layers(batch.obs.values) * batch.obs.mask)
        return self.model(Batch(obs, self.recipe.path(obs)), key=key, epoch=epoch)

    def regularised(self):
        return self.model.regularised()


def put_layers_ahead(of: str) -> None:
    """Register `layers+…` of a registered model: its options, and two of the layers."""
    info = MODELS[of]
    own: list[Any] = [
        ("of", str, field(default=of)),
        ("layer_width", int, option(64, "of the learnable layers")),
        ("layer_depth", int, option(2, "hidden learnable layers")),
    ]
    register(
        f"layers+{of}",
        options=make_dataclass("LayeredOptions", own, bases=(info.options,), frozen=True),
        summary=f"a learned point-wise change of the input ahead of {of}",
        reference="ablation of Jhin, Jo et al., AAAI 2023",
        tags=info.tags,
        fixed={"of": of},
        variant=True,
        revision=info.revision,
    )(LearnableLayers)


for _name in ("gru-ode", "ode-rnn", "ncde"):
    put_layers_ahead(_name)
