"""A captured graph without in-place operators: `out_of_place` makes it of the graph's nodes.

Where it has nodes that are not understood there, it runs again, under torch's functionalisation, and is recorded.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from opbridge.base.locks import process_state
from opbridge.base.torch_private import (
    torch_functional,
    torch_overrides,
    torch_proxies,
    torch_shape_env,
    torch_sizes,
    torch_tracing,
)
from opbridge.base.torch_private.torch_branch_operators import DECISION
from opbridge.capture.tracer.known_values import KnownValues
from opbridge.capture.tracer.out_of_place import out_of_place
from opbridge.capture.tracer.recorder import Recorder
from opbridge.capture.tracer.subgraphs import body_of
from opbridge.capture.tracer.writes import written_by
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import CapturedGraph, Leaf, SizeCondition
from opbridge.graph.node_sources import sources_of

__all__ = ["rewritten"]


def rewritten(graph: CapturedGraph, *, by_running: bool = False) -> CapturedGraph:
    """The same graph without in-place operators and views of what is written to.

    Args:
        graph: The graph.
        by_running: Whether the graph runs again in any case: graphs that are compared with one another need one form.

    Raises:
        CaptureError: torch's functionalisation fails.
    """
    found = None if by_running else out_of_place(graph)
    if found is not None:
        return found
    fake_mode = _fake_mode(graph)
    if fake_mode is None:
        raise CaptureError("The model has no tensors but writes in place.")
    with process_state, torch.no_grad():
        try:
            return _Rewriting(graph, fake_mode).graph()
        except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
            raise CaptureError(f"PyTorch's functionalization of the captured graph failed: {error}") from error


class _Rewriting:
    def __init__(self, graph: CapturedGraph, fake_mode: Any) -> None:
        self._graph = graph
        self._fake_mode = fake_mode
        self._recorder = Recorder(self._note, fake_mode, self._constant, KnownValues(lengths=self._lengths))
        self._recording = self._recorder
        self._original: Node | None = None
        self._copies: dict[Node, Node] = {}

    def graph(self) -> CapturedGraph:
        """The rewritten graph."""
        recorder, original = self._recorder, self._graph
        torch_proxies.forget_numbers(self._fake_mode)
        for node in original.graph.nodes:
            if node.op == "placeholder":
                self._copies[node] = self._placeholder(node)
        recorder.tracer.computes_sizes = any(node.target is DECISION for node in original.graph.nodes)
        with (
            torch_overrides.as_while_exporting(),
            torch_overrides.telling_overlaps_by_strides(),
            self._fake_mode,
            torch_proxies.enable_python_dispatcher(),
            torch_proxies.subgraphs_traced_by(self._body, self._fake_mode),
            recorder.recording(),
        ):
            values = [node.meta["val"] for node in original.graph.nodes if node.op == "placeholder"]
            returned = torch_functional.functionalized(_Running(self, original.module).run, values)
            outputs = [recorder.output(value) if _is_value(value) else value for value in returned]
        module = recorder.finish(tuple(outputs))
        sizes = torch_shape_env.Sizes.of(self._fake_mode.shape_env)
        return dataclasses.replace(
            original,
            module=module,
            inputs=tuple(
                leaf if leaf.node is None else Leaf(leaf.name, self._copies[leaf.node]) for leaf in original.inputs
            ),
            outputs=tuple(
                Leaf(leaf.name, value) if isinstance(value, Node) else Leaf(leaf.name, None, value)
                for leaf, value in zip(original.outputs, outputs, strict=True)
            ),
            weights={self._copies[node]: weight for node, weight in original.weights.items()},
            ranges=sizes.ranges(),
            conditions=tuple(SizeCondition(*each) for each in sizes.conditions()),
        )

    def begin(self, node: Node) -> None:
        """Notes the node that runs next, whose source the new ones have."""
        self._original = node

    def _lengths(self, lengths: Node) -> list[int] | None:
        return None if self._original is None else self._original.meta.get("lengths")

    def _placeholder(self, node: Node) -> Node:
        copied = torch_proxies.placeholder(self._recorder.graph, node.name)
        copied.meta.update(node.meta)
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            weight = self._graph.weights.get(node)
            self._recorder.track(value, copied, *(() if weight is None else (weight.tensor,)))
        elif isinstance(value, torch.SymInt):
            self._recorder.track_number(value, copied)
        return copied

    def _note(self, node: Node) -> None:
        if self._original is not None:
            for key in ("sources", "module_path", "stack_trace", "nn_module_stack"):
                if key in self._original.meta:
                    node.meta[key] = self._original.meta[key]

    def _constant(self, recorder: Recorder, tensor: torch.Tensor) -> Node:
        """The node of a tensor with values in the body of an operator."""
        name = recorder.tracer.get_fresh_qualname("_tensor_constant")
        setattr(recorder.tracer.root, name, tensor)
        node = recorder.tracer.create_node("get_attr", name, (), {})
        recorder.track(self._fake_mode.from_tensor(tensor, static_shapes=True), node, tensor)
        return node

    def _body(self, function: Any, *args: Any) -> GraphModule:
        outer = self._recording
        inner = self._recording = outer.for_body()
        try:
            return body_of(inner, function, args, differentiated=False)
        finally:
            self._recording = outer


class _Running(Interpreter):
    """Runs the graph, and keeps the names of sizes that only data decides."""

    def __init__(self, rewriting: _Rewriting, module: GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.extra_traceback = False  # which would be added to what an error says
        self._rewriting = rewriting

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is torch.ops.aten.tensor_split.sections and not kwargs:
            return _parts(*args)
        if target is torch.ops.aten.tensor_split.tensor_indices_or_sections and args[1].dim() == 1:
            return _parts_at(*args, **kwargs)
        if target is torch.ops.aten.narrow.Tensor:
            return _narrowed(*args)
        if target in _DROPOUTS and len(args) == 3 and args[2] is False and not kwargs:
            return args[0]  # as PyTorch does, so that what is written to the result is written to it
        return super().call_function(target, args, kwargs)

    def run_node(self, n: Node) -> Any:
        self._rewriting.begin(n)
        if n.target is torch.ops.aten.narrow.Tensor:
            _refuse_written(n)
        result = super().run_node(n)
        torch_sizes.keep_unknown_symbols(n, result)
        return result


_DROPOUTS = frozenset(
    {torch.ops.aten.dropout.default, torch.ops.aten.alpha_dropout.default, torch.ops.aten.feature_dropout.default}
)


def _narrowed(x: torch.Tensor, dim: int, start: torch.Tensor, length: Any) -> torch.Tensor:
    """A part of a tensor that begins where a tensor says, as a copy: torch does not know which part it is a view of."""
    numbers = torch.arange(length, device=x.device)
    return x.index_select(dim, torch.where(start < 0, start + x.shape[dim], start) + numbers)


def _refuse_written(node: Node) -> None:
    """Refuses a part of a tensor, where a tensor says which part it is, if a write shows that it shares memory.

    Raises:
        CaptureError: The tensor is written to and the part read afterwards, or the other way round.
    """
    part, whole = (_memory(each) for each in (node, node.args[0]))
    stale: set[Any] = set()  # memory that a later write changes with the other, which is a copy here
    later = node
    while (later := later.next).op != "root":
        if not stale.isdisjoint(map(_memory, later.all_input_nodes)):
            line = next(iter(sources_of(node)), None)
            raise CaptureError(
                "The model writes in place to a tensor or to a part of it that narrow(dim, start, length) returned"
                f"{f' at {line}' if line else ''}, and uses the other afterwards, which is not supported for a start "
                "that is a tensor. Copy the part: narrow(...).clone()."
            )
        changed = set(map(_memory, written_by(later)))
        if whole in changed:
            stale.add(part)
        if part in changed:
            stale.add(whole)


def _memory(node: Any) -> int | None:
    value = node.meta.get("val")
    return torch_tracing.storage_key(value) if isinstance(value, torch.Tensor) else None


def _parts(x: torch.Tensor, sections: int, dim: int = 0) -> list[torch.Tensor]:
    """tensor_split, of which torch asks how many parts are longer than others: along a dynamic dimension, slices."""
    if not isinstance(x.shape[dim], torch.SymInt):
        return list(torch.ops.aten.tensor_split.sections(x, sections, dim))
    start: Any = 0
    parts = []
    for number in range(sections):
        size = (x.shape[dim] + sections - 1 - number) // sections
        parts.append(x.narrow(dim, start, size))
        start = start + size
    return parts


def _parts_at(x: torch.Tensor, places: torch.Tensor, dim: int = 0) -> list[torch.Tensor]:
    """tensor_split at places that a tensor gives, of which torch asks for the numbers: slices."""
    edges = [place.item() for place in places.unbind(0)]
    return [torch.ops.aten.slice(x, dim, *each) for each in itertools.pairwise([0, *edges, None])]


def _fake_mode(graph: CapturedGraph) -> Any:
    values = (node.meta.get("val") for node in graph.graph.nodes)
    return next((mode for value in values if (mode := getattr(value, "fake_mode", None)) is not None), None)


def _is_value(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool))
