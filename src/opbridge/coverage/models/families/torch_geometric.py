"""torch_geometric's convolutions, and its models of one convolution many times."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, runs, vary

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("torch_geometric",)

_CHANNELS = 16
_EDGE_CHANNELS = 16
_RELATIONS = 3
_SIZES = {"nodes": Size(12, (9, 17)), "edges": Size(30, (21, 44))}
_OPTIONAL = ("edge_type", "edge_attr", "edge_weight")
_MODELS = ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN")


def entries() -> Iterator[ModelEntry]:
    """Every class of `torch_geometric.nn.conv`, and the basic models."""
    from torch_geometric.nn import conv

    for name in conv.__all__:
        if name != "MessagePassing":
            yield ModelEntry(name, partial(_make_conv, name))
    for name in _MODELS:
        yield ModelEntry(name, partial(_make_model, name))


def _make_conv(name: str) -> Case:
    from torch_geometric.nn import conv

    cls = getattr(conv, name)
    values = _CONSTRUCTOR | _OWN_CONSTRUCTOR.get(name, {})
    return _case(cls(**_arguments(name, _required(cls.__init__), values)))


def _make_model(name: str) -> Case:
    from torch_geometric.nn import models

    return _case(getattr(models, name)(_CHANNELS, 32, num_layers=2, out_channels=8))


def _case(module: torch.nn.Module) -> Case:
    """Of the inputs that a module takes those without which it does not run."""
    kind = type(module).__name__
    own = _OWN_FORWARD.get(kind, {})
    values = _FORWARD | own
    names = list(dict.fromkeys([*_required(module.forward), *own]))
    _check(kind, names, values)
    optional = [name for name in _OPTIONAL if name in inspect.signature(module.forward).parameters]
    draws = [partial(_inputs, values, [*names, *extra]) for extra in ([], *([name] for name in optional))]
    example = {name: size.example for name, size in _SIZES.items()}
    draw = next((one for one in draws if runs(module, one(**example))), draws[0])
    return vary(module, draw, _SIZES, batch=None)


def _inputs(values: dict[str, Any], names: list[str], nodes: int, edges: int) -> Inputs:
    return Inputs((), {name: values[name](nodes, edges) for name in names})


def _arguments(what: str, names: list[str], values: dict[str, Any]) -> dict[str, Any]:
    _check(what, names, values)
    return {name: values[name]() if inspect.isfunction(values[name]) else values[name] for name in names}


def _check(what: str, names: list[str], values: dict[str, Any]) -> None:
    missing = [name for name in names if name not in values]
    if missing:
        raise NotImplementedError(f"no rule for the parameters {', '.join(missing)} of {what}")


def _required(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in kinds and p.name != "self"]


def _network(inputs: int = _CHANNELS) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(inputs, 16), torch.nn.ReLU(), torch.nn.Linear(16, _CHANNELS))


def _convolution() -> Any:
    from torch_geometric.nn import SAGEConv

    return SAGEConv(_CHANNELS, _CHANNELS)


def _edges(nodes: int, edges: int) -> torch.Tensor:
    return torch.randint(nodes, (2, edges))


def _mesh(nodes: int, edges: int) -> torch.Tensor:
    """The four neighbours of each edge of a mesh, whose edges are the nodes."""
    return torch.stack([torch.arange(nodes).repeat_interleave(4), torch.randint(nodes, (4 * nodes,))])


_CONSTRUCTOR: dict[str, Any] = {
    "in_channels": _CHANNELS,
    "out_channels": _CHANNELS,
    "channels": _CHANNELS,
    "hidden_channels": 8,
    "edge_dim": _EDGE_CHANNELS,
    "dim": _EDGE_CHANNELS,
    "kernel_size": 3,
    "K": 2,
    "k": 3,
    "num_relations": _RELATIONS,
    "num_types": _RELATIONS,
    "num_node_types": 2,
    "num_edge_types": _RELATIONS,
    "edge_type_emb_dim": 4,
    "edge_attr_emb_dim": 4,
    "num_layers": 2,
    "heads": 2,
    "num_bases": 2,
    "alpha": 0.1,
    "shared_weights": True,
    "theta": 0.5,
    "layer": 1,
    "num_heads": 2,
    "max_degree": 6,
    "aggregators": lambda: ["mean", "max"],
    "scalers": lambda: ["identity", "amplification"],
    "deg": lambda: torch.tensor([0, 3, 5, 2]),
    "nn": lambda: _network(),
    "mlp": lambda: _network(_CHANNELS * 2),
    "mlp_h": lambda: torch.nn.Linear(_CHANNELS, 3),
    "mlp_f": lambda: torch.nn.Linear(_CHANNELS + 3, _CHANNELS),
    "mlp_g": lambda: _network(),
    "space_dimensions": 3,
    "propagate_dimensions": 4,
    "num_hidden": 8,
    "first_aggr": True,
    "filter_size": 2,
    "conv": lambda: _convolution(),
}

_TYPES = ("author", "paper")
_RELATED = (("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author"))
_METADATA = (list(_TYPES), list(_RELATED))
"""The kinds of nodes and of edges of a heterogeneous graph."""

_OWN_CONSTRUCTOR: dict[str, dict[str, Any]] = {
    "EdgeConv": {"nn": lambda: _network(2 * _CHANNELS)},  # of both ends of an edge
    "NNConv": {"nn": lambda: torch.nn.Linear(_EDGE_CHANNELS, _CHANNELS * _CHANNELS)},  # gives a matrix for each edge
    "HGTConv": {"metadata": _METADATA},
    "HANConv": {"metadata": _METADATA},
    "HeteroConv": {"convs": lambda: {relation: _convolution() for relation in _RELATED}},
}
"""Arguments that mean something else to the class of this name."""

_FORWARD: dict[str, Any] = {
    "x": lambda nodes, edges: torch.randn(nodes, _CHANNELS),
    "x_0": lambda nodes, edges: torch.randn(nodes, _CHANNELS),
    "edge_index": _edges,
    "hyperedge_index": _edges,
    "pos_edge_index": _edges,
    "neg_edge_index": _edges,
    "edge_attr": lambda nodes, edges: torch.randn(edges, _EDGE_CHANNELS),
    "edge_weight": lambda nodes, edges: torch.rand(edges),
    "edge_type": lambda nodes, edges: torch.randint(_RELATIONS, (edges,)),
    "node_type": lambda nodes, edges: torch.randint(2, (nodes,)),
    "pseudo": lambda nodes, edges: torch.rand(edges, _EDGE_CHANNELS),
    "pos": lambda nodes, edges: torch.randn(nodes, 3),
    "normal": lambda nodes, edges: torch.nn.functional.normalize(torch.randn(nodes, 3), dim=1),
}

_HETEROGENEOUS = {
    "x_dict": lambda nodes, edges: {kind: torch.randn(nodes, _CHANNELS) for kind in _TYPES},
    "edge_index_dict": lambda nodes, edges: {relation: _edges(nodes, edges) for relation in _RELATED},
}
_OWN_FORWARD: dict[str, dict[str, Any]] = {
    "DNAConv": {"x": lambda nodes, edges: torch.randn(nodes, 3, _CHANNELS)},  # of three layers before it
    "NNConv": {"edge_attr": _FORWARD["edge_attr"]},
    "WLConv": {"x": lambda nodes, edges: torch.randint(4, (nodes,))},
    "MeshCNNConv": {"edge_index": _mesh},
    "HGTConv": _HETEROGENEOUS,
    "HANConv": _HETEROGENEOUS,
    "HeteroConv": _HETEROGENEOUS,
}
"""Inputs that mean something else to the class of this name, or that it takes beside those without a default."""
