"""The graph that a capture gives, whichever way the model was captured.

It holds what plan, translation, verification and the search for a difference need, and none of torch.export's classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

__all__ = ["AskedDimension", "CapturedGraph", "Leaf", "SizeCondition", "Weight"]


@dataclass(frozen=True)
class Leaf:
    """One leaf of the model's inputs `(args, kwargs)`, or of what it returns.

    Attributes:
        name: For an input, the name of its placeholder: "x", "batch_ids". For an output, its path in what the model
            returns: "logits", "hidden_states.0", "output". For a tensor of a cache, see `opbridge.capture.cache_names`.
        node: The node that it is; None where the leaf is a constant of the graph.
        value: The constant: None, a string, or a number that is not dynamic.
    """

    name: str
    node: Node | None
    value: Any = None

    @property
    def is_frozen(self) -> bool:
        """Whether the leaf is a constant of the graph."""
        return self.node is None

    @property
    def is_number(self) -> bool:
        """Whether the leaf is a symbolic number: a dynamic int among the inputs, or a size that the model returns."""
        return self.node is not None and not isinstance(self.node.meta.get("val"), torch.Tensor)

    @property
    def is_returned(self) -> bool:
        """Whether an output of the model is one of its ONNX graph: a tensor or a number is, None is not."""
        return self.node is not None or isinstance(self.value, (int, float, complex))


@dataclass(frozen=True)
class AskedDimension:
    """A dimension of an input that is to be dynamic in the ONNX model.

    Attributes:
        leaf: The number of the input among the leaves of `(args, kwargs)`.
        axis: The dimension.
        place: As a Python expression: `x.shape[0]`.
        name: The name that the user gave it; None where there is none, or where it is computed from another's.
        is_automatic: Whether it may be fixed where the model needs it, as for Dim.AUTO.
        is_checked: Whether the user said which sizes it may have, as with a Dim.
        may_be_empty: Whether a size of zero is to be tried.
    """

    leaf: int
    axis: int
    place: str
    name: str | None = None
    is_automatic: bool = False
    is_checked: bool = False
    may_be_empty: bool = False


@dataclass(frozen=True)
class Weight:
    """A tensor of the model: a parameter, a buffer, or a constant.

    Attributes:
        name: Its name in the model: "layer1.0.weight". A constant has a name of its own.
        tensor: The tensor.
        kind: "parameter", "buffer", or "constant" for a tensor that forward() makes or that is no parameter or buffer.
        layout: Its layout in the model: "strided", or "sparse_coo" and the like, where `tensor` is its dense form.
    """

    name: str
    tensor: torch.Tensor
    kind: str
    layout: str = "strided"


@dataclass(frozen=True)
class SizeCondition:
    """A condition on sizes under which the graph is the model.

    Attributes:
        expression: A Python expression over symbols: `(s77 % 2) == 0`.
        symbols: Its symbols, sorted.
        stack: The stack trace of the line that caused it; empty where that is not known.
        operator: The operator, "aten::split", that is one node of the graph and whose result PyTorch asked for it to
            describe; "" where the model's own code asked.
        is_number: Whether Python asked for a number, as `int(n)` and `range(n)` do, and not for a truth value.
    """

    expression: str
    symbols: tuple[str, ...]
    stack: str = ""
    operator: str = ""
    is_number: bool = False

    @property
    def by_operator(self) -> bool:
        """Whether an operator asked for it, and not the model's own code."""
        return bool(self.operator)


@dataclass
class CapturedGraph:
    """A graph of operators with the interface of a model.

    Attributes:
        module: The graph, with the subgraphs of its higher-order operators as submodules. Its placeholders are the
            weights that it uses and the inputs that are no constants, in any order; it returns the tuple of the
            model's outputs, leaf by leaf, with constants as they are. Each node has its fake value in `meta["val"]`.
        inputs: One entry for each leaf of `(args, kwargs)`, in order.
        outputs: One entry for each leaf of what the model returns, in order.
        weights: The parameters, buffers and constants that are placeholders.
        structure: The pytree structure of what the model returns.
        ranges: The smallest and the largest value of each symbol, by its name ("s77"); None: no upper bound.
        conditions: The conditions on the sizes, beyond the ranges.
        places: The input size that each symbol was made for, as a Python expression: `x.shape[0]`.
        updated: The names of the buffers that the model writes to.
        without_one: The symbols that may be 1 as far as the user said, and whose range leaves 1 out.
        zeros: The symbols that the model's own code tells 0 from others, each with the stack trace of the line that
            does. No other condition says that they are not 0.
        branch_sizes: For a graph that decides by sizes, sizes that take each of its branches, by symbol.
    """

    module: GraphModule
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    weights: dict[Node, Weight]
    structure: Any = None
    ranges: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    conditions: tuple[SizeCondition, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    updated: tuple[str, ...] = ()
    without_one: frozenset[str] = frozenset()
    zeros: Mapping[str, str] = field(default_factory=dict)
    branch_sizes: tuple[Mapping[str, int], ...] = ()

    @property
    def graph(self) -> Graph:
        """The nodes."""
        return self.module.graph
