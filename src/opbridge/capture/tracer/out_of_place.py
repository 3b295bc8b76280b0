"""A captured graph without in-place operators, made from its nodes: nothing runs again.

Each tensor that is written to, with all its views, is followed from the node that makes it:

1. An in-place operator becomes the one that gives a new value.
2. The tensors that the written one is a view of are put together anew, with the new value as a part of them.
3. Another view of them is taken again where it is read next.

What is not understood is left to torch's functionalisation, which runs the graph: see `rewriting`.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from opbridge.base.torch_private import torch_operators, torch_overrides, torch_sizes, torch_tracing
from opbridge.base.torch_private.torch_branch_operators import DECISION
from opbridge.capture.tracer import writing_back
from opbridge.capture.tracer.writes import PARTS_BY_DATA, written_by
from opbridge.graph.captured_graph import CapturedGraph, Leaf
from opbridge.graph.operators import functional_name
from opbridge.graph.values import tensors_in

__all__ = ["out_of_place"]

_aten = torch.ops.aten


def out_of_place(graph: CapturedGraph) -> CapturedGraph | None:
    """The same graph without in-place operators; None where it has something that is not understood here."""
    inner = [body for body in graph.module.modules() if body is not graph.module and isinstance(body, GraphModule)]
    if any(written_by(node) for body in inner for node in body.graph.nodes if node.op == "call_function"):
        return None
    try:
        return _Rewriting(graph).graph()
    except (_NotUnderstood, writing_back.NotInvertible):
        return None


class _NotUnderstood(Exception):
    """A node that is left to torch's functionalisation."""


@dataclasses.dataclass(eq=False)
class _Memory:
    """A tensor that is written to, with its views.

    Attributes:
        version: How often it has been written to so far.
    """

    version: int = 0


class _Rewriting:
    def __init__(self, graph: CapturedGraph) -> None:
        self._original = graph
        self._parents: dict[Node, Node | None] = {}
        self._memory: dict[Node, _Memory] = {}
        self._in_place: set[Node] = set()
        self._find_views(list(graph.graph.nodes))
        self._graph = Graph()
        self._copies: dict[Node, Node] = {}
        self._versions: dict[Node, int] = {}
        self._running: Node | None = None
        self._optional: list[Node] = []
        """New nodes that are left out where nothing reads them."""

    def graph(self) -> CapturedGraph:
        """The rewritten graph."""
        original = self._original
        placeholders: dict[Node, Node] = {}
        for node in original.graph.nodes:
            self._running = node
            if node in self._in_place:
                self._write(node)
            elif self._is_several_views(node) or self._is_place(node):
                continue
            elif node.target is _aten.sym_size.int and self._versions.get(node.args[0], -1) >= 0:
                self._copies[node] = self._graph.node_copy(node, self._copies.__getitem__)
            elif (parent := self._parents.get(node)) is not None:
                self._copies[node] = self._view(node, self._now(parent))
                self._versions[node] = self._memory[node].version
            else:
                self._copies[node] = self._graph.node_copy(node, self._now)
                self._versions[node] = 0
                if node.op == "placeholder":
                    placeholders[node] = self._copies[node]
        outputs = tuple(
            leaf if leaf.node is None else Leaf(leaf.name, self._now(leaf.node), leaf.value)
            for leaf in original.outputs
        )
        # Paths of a model that decides are compared node by node, and only some may read a value after the decision.
        decides = any(node.target is DECISION for node in original.graph.nodes)
        for node in reversed(self._optional):
            if not (decides or node.users):
                self._graph.erase_node(node)
        attributes = dict(original.module.named_children())
        attributes.update(
            {
                node.target: getattr(original.module, node.target)
                for node in self._graph.nodes
                if node.op == "get_attr" and "." not in node.target
            }
        )
        return dataclasses.replace(
            original,
            module=torch_tracing.lazy_graph_module(attributes, self._graph),
            inputs=tuple(
                leaf if leaf.node is None else Leaf(leaf.name, placeholders[leaf.node], leaf.value)
                for leaf in original.inputs
            ),
            outputs=outputs,
            weights={placeholders[node]: weight for node, weight in original.weights.items()},
        )

    def _find_views(self, nodes: list[Node]) -> None:
        """Finds the nodes that share memory with what is written to, and what each is a view of.

        Raises:
            _NotUnderstood: Such a node is a view of a kind that is not known here.
        """
        keys = {node: _keys(node) for node in nodes}
        written: set[int] = set()
        for node in nodes:
            if node.op == "call_function":
                if "autocast" in str(node.target):
                    raise _NotUnderstood
                for target in written_by(node):
                    written |= keys[target]
        if not written:
            return
        joined = _Joined()
        for node in nodes:
            if _is_inactive_dropout(node):  # which gives the tensor itself
                joined.join(keys[node] | keys[node.args[0]])
        written = set(map(joined.first, written))
        memory: dict[int, _Memory] = defaultdict(_Memory)
        for node in nodes:
            own = {joined.first(key) for key in keys[node]} & written
            if node.target in PARTS_BY_DATA and (own or written & set(map(joined.first, keys[node.args[0]]))):
                raise _NotUnderstood  # it shares memory, which a capture does not see
            if node.op == "output" or not own:
                continue
            if len(own) > 1:
                raise _NotUnderstood
            (key,) = own
            value = node.meta["val"]
            if not isinstance(value, torch.Tensor):
                if not self._is_several_views(node):
                    raise _NotUnderstood
                continue
            if value.layout != torch.strided or value.is_quantized or value.is_complex():
                raise _NotUnderstood
            parent = self._parent(
                node, key, {each: set(map(joined.first, keys[each])) for each in node.all_input_nodes}
            )
            if parent is None and key in memory:
                raise _NotUnderstood  # a second node that seems to make the same memory
            self._parents[node] = parent
            self._memory[node] = memory[key]
            if written_by(node):
                self._in_place.add(node)

    def _parent(self, node: Node, key: int, keys: dict[Node, set[int]]) -> Node | None:
        """What a node is a view of; None where it makes new memory."""
        sharing = [each for each in keys if key in keys[each]]
        if node.op != "call_function" or not sharing:
            return None
        if written_by(node):
            if _functional(node) is None or node.args[0] not in self._memory:
                raise _NotUnderstood
            return node.args[0]
        if node.target is operator.getitem:
            split = sharing[0]
            if not self._is_several_views(split):
                raise _NotUnderstood
            return split.args[0]
        if node.target not in writing_back.VIEWS or sharing[0] is not node.args[0]:
            raise _NotUnderstood
        return sharing[0]

    def _is_several_views(self, node: Node) -> bool:
        """Whether a node gives several views of a tensor that is written to, which only getitem nodes read."""
        return (
            node.target in writing_back.SPLITS
            and node.args[0] in self._memory
            and all(user.target is operator.getitem for user in node.users)
        )

    def _is_place(self, node: Node) -> bool:
        """Whether a node asks where in memory a view of what is written to lies; only torch's functionalisation does.

        Raises:
            _NotUnderstood: Another node reads it.
        """
        if node.target not in _PLACES or node.args[0] not in self._memory:
            return False
        if node.users:
            raise _NotUnderstood
        return True

    def _now(self, node: Node) -> Node:
        """The node of the new graph that stands for a tensor as it is now."""
        memory = self._memory.get(node)
        if memory is None or self._versions[node] == memory.version:
            return self._copies[node]
        parent = self._parents[node]
        assert parent is not None
        self._copies[node] = self._view(node, self._now(parent))
        self._versions[node] = memory.version
        return self._copies[node]

    def _view(self, node: Node, whole: Node) -> Node:
        """A view of a tensor as it is now."""
        if node in self._in_place or _is_inactive_dropout(node):
            return whole
        if node.target is operator.getitem:
            return writing_back.part_of_split(self._emit, node, whole)
        new = self._graph.node_copy(node, lambda each: whole if each is node.args[0] else self._now(each))
        new.meta["val"] = _like(node.meta["val"])
        self._optional.append(new)
        return new

    def _write(self, node: Node) -> None:
        """Puts together anew what an in-place operator writes to."""
        target = self._parents[node]
        assert target is not None
        chain = list(self._chain(target))
        before = {each: self._now(each) for each in chain}
        is_part = any(self._is_link(each) and writing_back.is_part(each) for each in chain)
        new, is_alike = self._result(node, target, is_part)
        memory = self._memory[node]
        memory.version += 1
        for each in (node, *chain):
            if is_alike:
                self._copies[each], self._versions[each] = new, memory.version
            else:  # it is taken of the whole again where it is read, with the strides that it has there
                self._versions[each] = -1
            if self._is_link(each):
                parent = self._parents[each]
                assert parent is not None
                is_alike = is_alike or writing_back.is_part(each)
                new = writing_back.inverse(self._emit, each, before[parent], new)

    def _is_link(self, node: Node) -> bool:
        """Whether a node is another view than what it is a view of."""
        return self._parents[node] is not None and not (node in self._in_place or _is_inactive_dropout(node))

    def _chain(self, node: Node | None) -> Iterator[Node]:
        """A tensor, what it is a view of, and so on."""
        while node is not None:
            yield node
            node = self._parents[node]

    def _result(self, node: Node, target: Node, is_part: bool) -> tuple[Node, bool]:
        """What an in-place operator makes of the tensor that it writes to, and whether it has the same strides."""
        value, function = target.meta["val"], _functional(node)
        if function is _aten.copy.default:
            source = node.args[1]
            assert isinstance(source, Node)
            given = source.meta["val"]
            if given.dtype == value.dtype and torch_sizes.is_same_shape(given.shape, value.shape):
                is_alike = torch_sizes.has_same_strides(given, value)
                if is_alike or is_part:
                    return self._now(source), is_alike
        args = torch.fx.map_arg(node.args, self._now)
        new = self._graph.create_node("call_function", function, args, torch.fx.map_arg(node.kwargs, self._now))
        new.meta.update(node.meta)
        new.meta["val"] = _like(value)
        self._optional.append(new)
        return new, True

    def _emit(self, target: Any, args: tuple[Any, ...], like: torch.Tensor) -> Node:
        args = torch.fx.map_arg(args, lambda each: each if each.graph is self._graph else self._now(each))
        new = self._graph.create_node("call_function", target, args)
        assert self._running is not None
        for key in ("sources", "module_path", "stack_trace", "nn_module_stack"):
            if key in self._running.meta:
                new.meta[key] = self._running.meta[key]
        new.meta["val"] = _like(like)
        self._optional.append(new)
        return new


class _Joined:
    """Keys of memory, of which some stand for the same memory."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}

    def first(self, key: int) -> int:
        """The key that stands for all that are joined with one."""
        while key in self._before:
            key = self._before[key]
        return key

    def join(self, keys: set[int]) -> None:
        """Lets keys stand for the same memory."""
        first, *others = sorted(set(map(self.first, keys)))
        self._before.update(dict.fromkeys(others, first))


def _keys(node: Node) -> set[int]:
    return {torch_tracing.storage_key(tensor) for tensor in tensors_in(node.meta.get("val"))}


def _like(value: torch.Tensor) -> torch.Tensor:
    """A tensor with memory of its own."""
    return torch_overrides.new_fake(value, value.shape, strides=value.stride())


def _is_inactive_dropout(node: Node) -> bool:
    return node.target in _DROPOUTS and len(node.args) == 3 and node.args[2] is False and not node.kwargs


_PLACES = frozenset({_aten.sym_storage_offset.default, _aten.sym_stride.int})
_DROPOUTS = frozenset({_aten.dropout.default, _aten.alpha_dropout.default, _aten.feature_dropout.default})


def _functional(node: Node) -> Any:
    """The operator that gives what an in-place one writes; None where it is not known to give the same dtype."""
    written = written_by(node)
    name = torch_operators.operator_name(node.target)
    if name is None or len(written) != 1 or not node.args or node.args[0] is not written[0]:
        return None
    function = torch_operators.operator_object(functional_name(name) or "")
    value = written[0].meta["val"]
    if function is None or function._schema.is_mutable or not isinstance(node.target, torch._ops.OpOverload):
        return None
    others = list(tensors_in([each.meta.get("val") for each in node.all_input_nodes]))
    if any(each.device != value.device or each.is_complex() for each in others):
        return None
    base = name.partition("::")[2].partition(".")[0]
    if base in _WRITING:
        return function
    same = all(each.dtype == value.dtype for each in others)
    if same and (base in _ARITHMETIC or (value.is_floating_point() and base in _OF_FLOATS)):
        return function
    return None


# Whatever the other arguments are, the result has the dtype of the first one.
_WRITING = frozenset(
    {
        "copy_",
        "fill_",
        "zero_",
        "masked_fill_",
        "masked_scatter_",
        "index_put_",
        "index_copy_",
        "index_fill_",
        "index_add_",
        "scatter_",
        "scatter_add_",
        "tril_",
        "triu_",
    }
)
_BITS = ("bitwise_and_", "bitwise_or_", "bitwise_xor_", "__iand__", "__ior__", "__ixor__")
# With arguments of one dtype the result has it.
_ARITHMETIC = frozenset({"add_", "sub_", "mul_", "neg_", "abs_", "clamp_", "clamp_min_", "clamp_max_", "relu_", *_BITS})
_OF_FLOATS = frozenset(
    {
        "div_",
        "pow_",
        "exp_",
        "log_",
        "sqrt_",
        "rsqrt_",
        "sigmoid_",
        "tanh_",
        "sin_",
        "cos_",
        "floor_",
        "ceil_",
        "round_",
        "addcmul_",
        "addcdiv_",
        "lerp_",
        "leaky_relu_",
        "elu_",
        "silu_",
        "hardtanh_",
        "reciprocal_",
        "square_",
    }
)
