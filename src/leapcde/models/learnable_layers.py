"""Learnable layers ahead of a model: the paper's ablation that asks whether any learned change of the input would do.

x′_i = x_i's row through a point-wise network, D_x → D_x; then the path through x′, and the model, as ever
"""

from __future__ import annotations

import equinox as eqx
import jax

from leapcde.models.base import Model, Output, Spec
from leapcde.nn.dense import MLP
from leapcde.paths.batch import Batch, Recipe


class LearnableLayers(Model):
    layers: MLP
    model: Model
    recipe: Recipe = eqx.field(static=True)

    def __init__(self, spec: Spec, *, key, of: type[Model], layer_width: int = 64, layer_depth: int = 2, **options):
        a, b = jax.random.split(key)
        sizes = (spec.values, *[layer_width] * layer_depth, spec.values)
        self.layers = MLP(sizes, (*["relu"] * layer_depth, "none"), key=a)
        self.model = of(spec, key=b, **options)  # pyright: ignore[reportCallIssue]
        self.recipe = spec.recipe

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        # What was missing stays missing: the network fills nothing in, it changes what was seen.
        obs = batch.obs._replace(values=self.layers(batch.obs.values) * batch.obs.mask)
        return self.model(Batch(obs, self.recipe.path(obs)), key=key, epoch=epoch)

    def regularised(self):
        return self.model.regularised()
