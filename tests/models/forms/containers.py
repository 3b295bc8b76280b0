"""Containers of modules and of tensors, and classes of the user's own among inputs and outputs."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
from collections import OrderedDict

import torch
from models.forms.form import floats, form
from torch import nn

__all__: list[str] = []

_X = floats("batch", 4)


class _Output(OrderedDict):
    """diffusers' and transformers' outputs: a dict whose values are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class _PlainDict(dict):
    pass


class _PlainList(list):
    pass


class _Kind(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


@form(_X)
def subclass_of_ordered_dict(x):
    return _Output(value=x * 2, norm=x.norm(dim=-1))


@form(_X)
def subclass_of_dict(x):
    return _PlainDict(value=x * 2, parts=_PlainList([x + 1, x - 1]))


@form(_Output(value=_X, shift=_X))
def input_of_subclass(given):
    return given.value * 2 + given["shift"]


@form(_PlainDict(value=_X), _PlainList([_X, _X]))
def inputs_of_subclasses(named, listed):
    return named["value"] + listed[0] * listed[1]


@form(_X)
def default_dict(x):
    found = collections.defaultdict(list)
    found["a"].append(x + 1)
    found["a"].append(x + 2)
    found["b"].append(x * 2)
    return found


@form(_X)
def deque_of_tensors(x):
    kept = collections.deque(maxlen=2)
    for step in range(3):
        kept.append(x * step)
    return kept


@form(_X)
def transformers_output(x):
    from transformers.modeling_outputs import BaseModelOutput

    return BaseModelOutput(last_hidden_state=x * 2, hidden_states=(x, x + 1))


@dataclasses.dataclass(frozen=True)
class _State:
    hidden: torch.Tensor
    steps: int = 0


@form(_X)
def state_in_dataclass(x):
    state = _State(x)
    for _ in range(2):
        state = dataclasses.replace(state, hidden=state.hidden.tanh() + 1, steps=state.steps + 1)
    return state.hidden * state.steps


@form(_X)
class ModulesByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"first": nn.Linear(4, 4), "second": nn.Linear(4, 4), "third": nn.Identity()})
        self.order = ["second", "first", "third"]

    def forward(self, x):
        return {name: self.layers[name](x) for name in self.order}


@form(_X)
class ParametersByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterDict({"a": torch.randn(4), "b": torch.randn(4)})
        self.shifts = nn.ParameterList([torch.randn(4) for _ in range(3)])

    def forward(self, x):
        for shift in self.shifts[1:]:
            x = x * self.scales["a"] + shift
        return x + sum(self.scales.values())


@form(_X)
class NestedSequences(nn.Sequential):
    def __init__(self) -> None:
        block = nn.Sequential(OrderedDict(linear=nn.Linear(4, 4), relu=nn.ReLU()))
        super().__init__(block, nn.Sequential(block, nn.Dropout(0.5)), nn.Flatten(), nn.Unflatten(1, (2, 2)))


@form(_X)
class PartialFunctions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = functools.partial(nn.functional.leaky_relu, negative_slope=0.3)
        self.layers = [nn.Linear(4, 4)]
        self.kind = _Kind.MEAN

    def forward(self, x):
        x = self.act(self.layers[0](x))
        return x.mean(-1) if self.kind is _Kind.MEAN else x.sum(-1)


@form(_X)
class DenselyConnected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4 + 2 * i, 2) for i in range(3)])

    def forward(self, x):
        found = [x]
        for layer in self.layers:
            found.append(layer(torch.cat(found, dim=-1)))
        return tuple(found), dict(enumerate(found))


@form(_X)
class MixtureOfExperts(nn.Module):
    """Every expert on every row, weighted by the choice of the best two."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
        total = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            total = total + expert(x) * (weights * (chosen == i)).sum(-1, keepdim=True)
        return total


@form(_X)
class ExpertsByIndex(nn.Module):
    """Each expert on the rows that chose it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).max(dim=-1)
        total = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            (rows,) = torch.where(chosen == i)
            total.index_add_(0, rows, expert(x[rows]) * weights[rows, None])
        return total


@form(_X)
class LazyLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(3)
        self.layer(torch.randn(1, 4))

    def forward(self, x):
        return self.layer(x)


@form(_X)
class GeneratorsAndSlices(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))

    def rows(self, x):
        for layer in self.layers[1:3]:
            x = layer(x)
            yield x

    def forward(self, x):
        first, *rest = self.rows(x)
        return first + sum(rest), [a - b for a, b in zip((first, x), (x, first), strict=True)]
