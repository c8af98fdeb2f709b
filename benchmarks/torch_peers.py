"""The same models as a user of torchcde and torchdiffeq writes them: eager PyTorch, one class a field."""

from __future__ import annotations

import numpy as np
import torch
import torchcde
import torchdiffeq
from problems import CLASSES, RATE, Problem, noise

ACTIVATIONS = {"relu": torch.relu, "elu": torch.nn.functional.elu, "tanh": torch.tanh, "none": lambda x: x}


def linear(dense) -> torch.nn.Linear:
    """A layer with our weights."""
    inputs, outputs = dense.weight.shape
    layer = torch.nn.Linear(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(np.asarray(dense.weight).T))
        layer.bias.copy_(torch.tensor(np.asarray(dense.bias)))
    return layer


class Net(torch.nn.Module):
    def __init__(self, mlp):
        super().__init__()
        self.layers = torch.nn.ModuleList(linear(layer) for layer in mlp.layers)
        self.activations = mlp.activations

    def forward(self, x):
        for layer, name in zip(self.layers, self.activations, strict=True):
            x = ACTIVATIONS[name](layer(x))
        return x


class Field(torch.nn.Module):
    """(t, z) -> a matrix, as torchcde wants it."""

    def __init__(self, field, channels: int):
        super().__init__()
        self.net, self.channels = Net(field.net), channels

    def forward(self, t, z):
        return self.net(z).view(len(z), self.channels, -1).transpose(1, 2)  # our weights make columns


class NeuralCDE(torch.nn.Module):
    """As in torchcde's examples; `adjoint=True` is its default."""

    def __init__(self, p: Problem, adjoint: bool):
        super().__init__()
        self.start, self.field = linear(p.model.φ_z), Field(p.model.g, p.batch.X.values.shape[-1])
        self.head, self.adjoint = linear(p.model.head.layer), adjoint

    def forward(self, coefficients):
        X = torchcde.CubicSpline(coefficients)
        z0 = self.start(X.evaluate(X.interval[0]))
        options = {"method": "midpoint", "options": {"step_size": 1.0}}
        z = torchcde.cdeint(X=X, func=self.field, z0=z0, t=X.interval, adjoint=self.adjoint, **options)
        return self.head(z[:, -1]), torch.zeros(())

    def weights(self, model):
        """Our weights and gradients in the order of `parameters()`."""
        return [model.φ_z, *model.g.net.layers, model.head.layer]


class Joint(torch.nn.Module):
    """Eq. 9 and the trace of eq. 12, by automatic differentiation as in FFJORD's code."""

    def __init__(self, f, m, g, noise):
        super().__init__()
        self.f, self.m, self.g, self.noise = f, m, g, noise

    def forward(self, t, state):
        h, z, _ = state
        with torch.enable_grad():
            h = h if h.requires_grad else h.requires_grad_(True)
            dh = self.f(h)
            pushed = torch.autograd.grad(dh, h, self.noise, create_graph=True)[0]
        trace = (pushed * self.noise).sum(-1)
        dY = dh @ self.m.weight.T
        return dh, (self.g(t, z) @ dY.unsqueeze(-1)).squeeze(-1), trace


class Leap(torch.nn.Module):
    """LEAP at the paper's grid: encoder and decoder step from observation to observation."""

    def __init__(self, p: Problem):
        super().__init__()
        model, channels = p.model, p.batch.X.values.shape[-1]
        self.start_e, self.k, self.start_h = linear(model.φ_e), Field(model.k, channels), linear(model.φ_h)
        self.f, self.m = Net(model.f.net), linear(model.m)
        self.start_z, self.g, self.head = linear(model.φ_z), Field(model.g, channels), linear(model.head.layer)
        self.alpha, self.beta, self.pace, self.values = model.alpha, model.beta, model.pace, model.values
        self.noise = torch.tensor(np.asarray(noise(p)))

    def forward(self, coefficients):
        X = torchcde.CubicSpline(coefficients)
        options = {"method": "midpoint", "options": {"step_size": 1.0}}
        x0 = X.evaluate(X.interval[0])
        e = torchcde.cdeint(X=X, func=self.k, z0=self.start_e(x0), t=X.interval, adjoint=False, **options)[:, -1]
        h0, z0 = self.start_h(e), self.start_z(x0)
        joint, clock = Joint(self.f, self.m, self.g, self.noise), X.grid_points * self.pace
        state = (h0, z0, torch.zeros(len(h0)))
        h, z, trace = torchdiffeq.odeint(joint, state, clock, method="midpoint")
        Y, x = self.m(h).transpose(0, 1), X.evaluate(X.grid_points)
        squared = ((Y - x)[..., -self.values :] ** 2).sum((1, 2))
        L_Y = ((self.alpha * squared + self.beta * trace[-1]) / len(clock)).mean()
        return self.head(z[-1]), L_Y

    def weights(self, model):
        nets = [model.φ_e, *model.k.net.layers, model.φ_h, *model.f.net.layers, model.m]
        return [*nets, model.φ_z, *model.g.net.layers, model.head.layer]


class Peer:
    """A model of theirs on a problem of ours."""

    def __init__(self, p: Problem, make):
        self.model, self.labels = make(p), torch.tensor(p.labels)
        values = torch.tensor(np.asarray(p.batch.X.values))
        self.coefficients = torchcde.natural_cubic_coeffs(values)  # once, before training, as its documentation advises
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=RATE)

    def loss(self):
        prediction, penalty = self.model(self.coefficients)
        return torch.nn.functional.cross_entropy(prediction, self.labels) + penalty

    def gradient(self):
        """The loss, and gradients as arrays shaped like our weights and biases."""
        self.optimiser.zero_grad()
        loss = self.loss()
        loss.backward()
        slopes = [parameter.grad.numpy() for parameter in self.model.parameters()]
        return loss.item(), [slope.T if slope.ndim == 2 else slope for slope in slopes]

    def ours(self, slope):
        """Our gradient in their order."""
        return [np.asarray(a) for dense in self.model.weights(slope) for a in (dense.weight, dense.bias)]

    def step(self):
        self.optimiser.zero_grad()
        self.loss().backward()
        self.optimiser.step()

    def forward(self):
        with torch.no_grad():
            return self.model(self.coefficients)[0].numpy()


PEERS = {
    "torchcde, direct": lambda p: Peer(p, lambda p: NeuralCDE(p, adjoint=False)),
    "torchcde, adjoint (its default)": lambda p: Peer(p, lambda p: NeuralCDE(p, adjoint=True)),
}
LEAP_PEERS = {"LEAP in eager PyTorch": lambda p: Peer(p, Leap)}


class Gru(torch.nn.Module):
    """What most people would use: PyTorch's own GRU on the rows, with their times."""

    def __init__(self, inputs: int, hidden: int, classes: int):
        super().__init__()
        self.gru = torch.nn.GRU(inputs, hidden, batch_first=True)
        self.head = torch.nn.Linear(hidden, classes)

    def forward(self, rows):
        return self.head(self.gru(rows)[1][0])


class GruPeer:
    """A GRU of this size on the rows of a problem."""

    def __init__(self, p: Problem, hidden: int):
        obs = p.batch.obs
        rows = np.concatenate([np.asarray(obs.times)[..., None], np.asarray(obs.values)], -1)
        self.rows, self.labels = torch.tensor(rows), torch.tensor(p.labels)
        self.model = Gru(rows.shape[-1], hidden, CLASSES)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=RATE)

    def step(self):
        self.optimiser.zero_grad()
        torch.nn.functional.cross_entropy(self.model(self.rows), self.labels).backward()
        self.optimiser.step()

    def forward(self):
        with torch.no_grad():
            return self.model(self.rows).numpy()
