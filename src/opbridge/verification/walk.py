"""The walk over a captured graph that compares each operator with the runtime's value, given the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.fx import Node

from opbridge.capture.functionalize import FunctionalGraph
from opbridge.graph.node_sources import module_path_of, sources_of
from opbridge.graph.operators import UNINITIALIZED, functional_operator_of, operator_of
from opbridge.graph.precision import coarsest
from opbridge.graph.values import tensors_in
from opbridge.kernels import aten as aten_kernel
from opbridge.verification import exchange, ties
from opbridge.verification.compare import Comparison, compare, dtype_name, rms
from opbridge.verification.difference import FirstDifference, Search
from opbridge.verification.graph_run import GraphRun
from opbridge.verification.intermediate import RuntimeValues, Unusable, keyed
from opbridge.verification.rounding import quantizes, rounded
from opbridge.verification.runtime_failure import label

__all__ = ["Walk"]

_PYTHON = frozenset({"_operator", "builtins", "math"})
"""Where Python's own functions come from."""

_ROUNDING_ERRORS = 4
"""By how many times eps the quotient of a quantisation may differ: x / scale and x * (1 / scale)."""


class Walk:
    """One walk over the captured graph."""

    def __init__(
        self,
        functional: FunctionalGraph,
        runtime: RuntimeValues,
        counterparts: Mapping[str, ir.Value],
        outputs: Mapping[int, torch.Tensor] | None,
        rtol: float | None,
        atol: float | None,
    ) -> None:
        """Prepares a walk.

        Args:
            functional: The captured graph in functional form.
            runtime: The values of the runtime.
            counterparts: The ONNX value of each node of the captured graph, by "node" or "node:output".
            outputs: The outputs that differ, by position; None: all outputs.
            rtol: As for `compare`.
            atol: As for `compare`.
        """
        self._graph, self._functional = functional.graph, functional
        self._runtime, self._counterparts = runtime, counterparts
        self._rtol, self._atol = rtol, atol
        self._relevant = _dependencies(functional, outputs)
        self._values: Mapping[Node, Any] = {}
        # For a node whose value is not compared: the operators, its own included, that this value comes from.
        self._unchecked: dict[Node, tuple[str, ...]] = {}
        self._unusable: set[Node] = set()
        self._compared = 0
        self._nearest: FirstDifference | None = None

    def run(self, leaves: Sequence[Any]) -> Search:
        """Walks to the first node that differs.

        Args:
            leaves: The leaves of `(args, kwargs)`.

        Raises:
            Unusable: PyTorch cannot compute a node, or the runtime raises.
        """
        self._run = GraphRun(self._functional, leaves)
        self._values = self._run.values
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for node in self._graph.graph.nodes:
                if node.op == "get_attr":
                    self._run.read(node)
                elif node.op == "call_function":
                    found = self._call(node)
                    if found is not None:
                        return Search(found, self._compared)
        if not self._compared:
            return Search(None, 0, "no value of the file belongs to an operator that the differing outputs depend on")
        reason = f"none of {self._compared} operators exceeds the tolerance when given the same inputs"
        return Search(self._nearest, self._compared, reason)

    def _call(self, node: Node) -> FirstDifference | None:
        """Computes one node, compares it, and gives it the runtime's value. Returns the difference, if there is one."""
        if self._runtime.isolated is not False and not _bears_any_values(node):
            raise Unusable(
                f"PyTorch would have to compute {operator_of(node)} in this process on values of the file, which "
                "isolated= prevents; leave isolated= out if you trust the file"
            )
        result = self._run.compute(node)
        in_file = {
            key: self._runtime.value(str(self._counterparts[key].name))
            for key, value in keyed(node.name, result)
            if key in self._counterparts and _as_tensor(value, None) is not None
        }
        result = self._with_decisions_of(in_file, node, result)
        parents = node.all_input_nodes
        random = _is_random(node, self._values, result)
        unusable = any(parent in self._unusable for parent in parents)
        unchecked = tuple(dict.fromkeys(name for parent in parents for name in self._unchecked.get(parent, ())))
        found, values, is_complete = None, [], True
        for key, value in keyed(node.name, result):
            if key not in in_file:
                values.append(value)
                is_complete = False
                continue
            counterpart, actual = self._counterparts[key], in_file[key]
            if isinstance(value, torch.Tensor):
                actual = exchange.quantized_as(value, actual)
            self._compared += 1
            comparison = self._comparison(key, value, actual, parents, random or unusable)
            if node in self._relevant and not unusable:
                difference = self._difference(node, key, counterpart, comparison, parents, unchecked)
                if found is None and not comparison.ok:
                    found = difference
                nearest = self._nearest
                if comparison.excess > 0 and (nearest is None or comparison.excess > nearest.comparison.excess):
                    self._nearest = difference
            values.append(_torch_form(value, actual) if comparison.reason is None else value)
        self._run.assign(node, values if isinstance(result, (list, tuple)) else values[0])
        if not is_complete and node not in self._functional.constant:
            self._unchecked[node] = unchecked if _is_getitem(node) else (*unchecked, operator_of(node))
            if random or unusable:
                self._unusable.add(node)
        for written in self._functional.rebinds.get(node, ()):
            self._unchecked[written] = self._unchecked.get(node, ())
            (self._unusable.add if node in self._unusable else self._unusable.discard)(written)
        return found

    def _with_decisions_of(self, in_file: Mapping[str, torch.Tensor], node: Node, result: Any) -> Any:
        """A node's result, with the positions of the file where PyTorch leaves the order of what they pick open, and
        with its values next to ties of a quantisation: x / scale and x * (1 / scale) differ by a rounding error."""
        source = self._values.get(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
        if not isinstance(source, torch.Tensor) or source.numel() == 0:
            return result
        if quantizes(node) and source.is_floating_point():
            around = _ROUNDING_ERRORS * torch.finfo(source.dtype).eps * source.abs()
            found = rounded(node, result, self._values, in_file, around)
            return result if found is None else found.result
        if not ties.picks_positions(node):
            return result
        picked = ties.picked(node, result, source, in_file, allowed=0.0)
        return result if picked is None else picked.result

    def _comparison(
        self, key: str, value: Any, actual: torch.Tensor, parents: Sequence[Node], random: bool
    ) -> Comparison:
        expected = _as_tensor(value, actual)
        assert expected is not None
        tensors = [tensor for parent in parents for tensor in tensors_in(self._values[parent])]
        scale = max((rms(tensor) for tensor in tensors), default=1.0)
        precision = coarsest(tensor.dtype for tensor in tensors)
        return compare(
            key,
            expected,
            actual,
            precision=precision,
            scale=max(scale, 1.0),
            rtol=self._rtol,
            atol=self._atol,
            random=random,
        )

    def _difference(
        self,
        node: Node,
        key: str,
        counterpart: ir.Value,
        comparison: Comparison,
        parents: Sequence[Node],
        unchecked: tuple[str, ...],
    ) -> FirstDifference:
        frames = sources_of(node)
        producer = counterpart.producer()
        return FirstDifference(
            operator=operator_of(node),
            node=key,
            source=str(frames[0]) if frames else None,
            code=frames[0].code if frames else "",
            module=module_path_of(node),
            onnx_node=label(producer) if producer is not None else "",
            inputs=tuple(
                f"{dtype_name(tensor.dtype)} {list(tensor.shape)}"
                for parent in parents
                for tensor in tensors_in(self._values[parent])
            ),
            comparison=comparison,
            unchecked=unchecked,
            is_beyond=not comparison.ok,
        )


def _dependencies(functional: FunctionalGraph, outputs: Mapping[int, Any] | None) -> set[Node]:
    """The nodes that the given outputs depend on. A value that is read after a write depends on the write."""
    latest: dict[Node, Node] = {}
    parents: dict[Node, list[Node]] = {}
    for node in functional.graph.graph.nodes:
        parents[node] = [latest.get(argument, argument) for argument in node.all_input_nodes]
        for written in functional.rebinds.get(node, ()):
            latest[written] = node
    results = [leaf.node for leaf in functional.graph.outputs if leaf.node is not None]
    chosen = results if outputs is None else [results[position] for position in outputs if position < len(results)]
    pending = [latest.get(node, node) for node in chosen]
    found: set[Node] = set()
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(parents[node])
    return found


def _is_getitem(node: Node) -> bool:
    return operator_of(node) == "_operator::getitem"


def _bears_any_values(node: Node) -> bool:
    """Whether an operator reads and writes nothing but its arguments, whatever their values are."""
    namespace, _, operator = functional_operator_of(node).partition("::")
    if namespace != "aten":
        return namespace in _PYTHON
    packet, _, overload = operator.partition(".")
    found = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return aten_kernel.bears_anything(str(found._schema))


def _is_random(node: Node, values: Mapping[Node, Any], result: Any) -> bool:
    """Whether an operator gives another result when it is called again. Dropout does so in training only."""
    namespace, _, operator = functional_operator_of(node).partition("::")
    if namespace == "aten" and operator.partition(".")[0] in UNINITIALIZED:
        return True
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda argument: _copied(values[argument]))
    again = node.target(*args, **kwargs)
    pairs = zip(tensors_in(result), tensors_in(again), strict=True)
    return not all(torch.equal(left, right) for left, right in pairs)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _as_tensor(value: Any, like: torch.Tensor | None) -> torch.Tensor | None:
    """A value as the tensor that the ONNX file has for it; None for what is no number."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, float) and like is not None and like.is_floating_point():
        return torch.tensor(value, dtype=like.dtype)  # a Python float has no dtype of its own
    return torch.tensor(value) if isinstance(value, (bool, int, float)) else None


def _torch_form(value: Any, actual: torch.Tensor) -> Any:
    """The runtime's value in the form that PyTorch has: a number, or a tensor that may be complex."""
    if not isinstance(value, torch.Tensor):
        return actual.item()
    if value.is_complex():
        actual = torch.view_as_complex(actual)
    return actual.to(value.device)
