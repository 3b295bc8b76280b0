"""Structures of inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from typing import NamedTuple

import torch
from models.forms.form import floats, form
from torch import nn

__all__: list[str] = []

_X = floats("batch", 4)
_Pair = namedtuple("_Pair", ["first", "second"])


class _Scores(NamedTuple):
    logits: torch.Tensor
    best: torch.Tensor


@dataclasses.dataclass
class _Result:
    """A dataclass that torch has not been told of."""

    value: torch.Tensor
    norm: torch.Tensor


@dataclasses.dataclass
class _Registered:
    value: torch.Tensor
    norm: torch.Tensor


torch.export.register_dataclass(_Registered, serialized_type_name="forms.Registered")


@form(_X)
def ordered_dict(x):
    return OrderedDict([("b", x + 1), ("a", x - 1)])


@form(_X)
def named_tuple(x):
    return _Scores(x * 2, x.argmax(dim=-1))


@form(_X)
def dataclass(x):
    return _Result(x * 2, x.norm(dim=-1))


@form(_X)
def registered_dataclass(x):
    return _Registered(x * 2, x.norm(dim=-1))


@form(_X)
def nested_dict(x):
    return {"outer": {"inner": x + 1, "list": [x, (x * 2,)]}, "other": x.sum(dim=0), "none": None}


@form([_X, {"scale": floats(4), "shift": _X}], _Pair(_X, floats("batch")))
def nested_inputs(parts, pair):
    x, named = parts
    return x * named["scale"] + named["shift"], pair.first + pair.second[:, None]


@form(_X, None)
def none_input(x, mask=None):
    return x if mask is None else x * mask


@form(_X, None, _X)
def none_between_inputs(x, mask, y):
    return (x + y) if mask is None else x


@form(_X, kwargs={"shift": _X})
def keyword_only(x, *, shift, scale=2.0):
    return x * scale + shift


@form(_X, kwargs={"scale": 3.0, "kind": "sum", "flag": True})
def constants_among_inputs(x, scale, kind, flag):
    y = x.sum(dim=1) if kind == "sum" else x.mean(dim=1)
    return y * scale if flag else y


@form(_X, _X, floats("batch", 1))
def gathered_positions(*tensors):
    return sum(tensors)


@form(_X, kwargs={"shift": _X, "factor": floats(4)})
class GatheredKeywords(nn.Module):
    def forward(self, x, **named):
        return x * named["factor"] + named["shift"]


@form(_X, _X, kwargs={"last": _X})
class GatheredBoth(nn.Module):
    def forward(self, first, *others, **named):
        return first + sum(others) * 2 - named["last"]


@form(_X)
def returned_input_and_constants(x):
    return x, x + 1, torch.ones(2), 3


@form(_X)
def returned_twice(x):
    y = x.exp()
    return {"a": y, "b": y}


@form(_X, floats("length"))
def unused_input(x, y):
    return x.relu()


@form(_X)
class BoundMethod(nn.Module):
    """forward calls methods and a function that is stored among the attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.activation = {"relu": torch.relu}["relu"]

    def features(self, x):
        return self.activation(self.linear(x))

    def forward(self, x):
        return self.features(self.features(x))
