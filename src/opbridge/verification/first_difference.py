"""Which operator is to blame, when a model and its ONNX file do not give the same.

Both sides are walked node by node, and each operator of the capture is computed by PyTorch on the very values that the
runtime had for its inputs. A difference that an operator inherits, or that it only magnifies, is so never held against
it: what remains is an operator whose inputs agree and whose output does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.sources import innermost
from opbridge.base.wording import listed
from opbridge.capture.functionalize import FunctionalProgram
from opbridge.graph.interface import is_frozen, lifted_tensors, user_outputs
from opbridge.graph.operators import operator_of
from opbridge.graph.precision import coarsest
from opbridge.graph.values import tensors_in
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.verification.compare import Comparison, compare, dtype_name, rms
from opbridge.verification.intermediate import RuntimeValues, Unusable, counterparts, feeds_of, keyed, order_of
from opbridge.verification.runtime_failure import label

if TYPE_CHECKING:
    from opbridge.capture import Capture

__all__ = ["FirstDifference", "Search", "first_difference"]


@dataclass(frozen=True)
class FirstDifference:
    """An operator whose inputs agree and whose output does not.

    Attributes:
        operator: "aten::gelu".
        node: Its name in the captured graph, with the number of the output where it has several ("split:1").
        source: The model's line, "net.py:31"; None where torch did not keep it.
        code: The text of that line.
        module: Where in the model it stands, "backbone.layer1.act".
        onnx_node: The ONNX node that gives the value: operator and name.
        inputs: The dtypes and shapes that it was given.
        comparison: PyTorch's value beside the runtime's.
        unchecked: Operators before it whose own values the file does not have, so that they may be to blame instead.
        is_beyond: Whether the difference is more than is allowed. Where no operator's is, the one that comes nearest to
            it is named.
    """

    operator: str
    node: str
    source: str | None
    code: str
    module: str
    onnx_node: str
    inputs: tuple[str, ...]
    comparison: Comparison
    unchecked: tuple[str, ...] = ()
    is_beyond: bool = True

    @property
    def place(self) -> str:
        """The operator and its line: "aten::gelu at net.py:31"."""
        return f"{self.operator} at {self.source}" if self.source else self.operator

    def __str__(self) -> str:
        around = ", ".join(part for part in (self.module and f"module {self.module}", self.onnx_node) if part)
        inputs = f" ({', '.join(self.inputs)})" if self.inputs else ""
        text = f"{self.place} ({around}): given the same inputs{inputs}, {self._difference()}"
        if self.unchecked:
            text += f"; {', '.join(self.unchecked)} before it could not be compared"
        return text

    def _difference(self) -> str:
        if self.is_beyond:
            return self.comparison.brief()
        return f"its result differs by {self.comparison.relative:.1e} of its size"


@dataclass(frozen=True)
class Search:
    """What the walk found.

    Attributes:
        difference: The operator; None where there is none to name.
        compared: How many values were compared.
        reason: Why there is none to name.
    """

    difference: FirstDifference | None
    compared: int
    reason: str = ""


def first_difference(
    model: ir.Model,
    capture: Capture,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    outputs: Mapping[int, torch.Tensor] | None = None,
    check_weights: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> Search:
    """Finds the first operator that differs.

    1. The runtime gives the value of every node that carries `opbridge.node`; its optimiser is off for this, as it
       removes values. Where the outputs agree then, the optimiser is to blame.
    2. A file's weights have to be the model's: no operator is to blame where they are not.
    3. The captured graph is walked in order. PyTorch computes each node on the runtime's values.
    4. Of the nodes that a wrong output depends on, the first whose own result differs is returned; where none does,
       the one that comes nearest to it.
    5. A random operator is compared in shape and dtype, and the runtime's numbers are handed on.

    Args:
        model: The ONNX model. It is not changed.
        capture: What it was made from.
        args: The positional inputs on which the two differ.
        kwargs: The keyword inputs.
        outputs: The graph's outputs that differ, by number, as PyTorch gives them; None: all of them are of interest.
        check_weights: Whether the weights of the model may be others than the capture's.
        rtol: As for `compare`.
        atol: As for `compare`.
    """
    functional = capture.functional
    program = functional.program
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    try:
        values = counterparts(model.graph, program)
        feeds = feeds_of(model, program, leaves)
        if check_weights and (others := _other_weights(model, program)):
            return Search(None, 0, f"weights of the file are not the model's: {listed(others, 5)}")
        runtime = RuntimeValues(model, feeds, order_of(program, values, capture, leaves))
        if outputs and _agrees(runtime, model, outputs, rtol, atol):
            reason = "with ONNX Runtime's graph optimisations off the outputs agree, so one of these changes the result"
            return Search(None, 0, f"{reason} (SessionOptions.graph_optimization_level)")
        return _Walk(functional, runtime, values, outputs, rtol, atol).run(leaves)
    except Unusable as error:
        return Search(None, 0, str(error))


def _agrees(
    runtime: RuntimeValues,
    model: ir.Model,
    outputs: Mapping[int, torch.Tensor],
    rtol: float | None,
    atol: float | None,
) -> bool:
    """Whether the outputs that differ do not differ without the optimiser."""
    names = [str(model.graph.outputs[position].name) for position in outputs]
    given = runtime.compute(names)
    return all(
        compare(name, expected, actual, rtol=rtol, atol=atol).ok
        for name, expected, actual in zip(names, outputs.values(), given, strict=True)
    )


def _other_weights(model: ir.Model, program: ExportedProgram) -> list[str]:
    """The parameters and buffers that an initializer of the same name, dtype and shape does not equal."""
    differing = []
    for name, tensor in lifted_tensors(program).values():
        initializer = model.graph.initializers.get(name)
        stored = initializer.const_value if initializer is not None else None
        if stored is None or stored.dtype != onnx_dtype(tensor.dtype) or list(stored.shape) != list(tensor.shape):
            continue
        if bytes(stored.tobytes()) != TorchTensor(tensor).tobytes():
            differing.append(repr(name))
    return differing


class _Walk:
    """One walk over the captured graph, on the runtime's values."""

    def __init__(
        self,
        functional: FunctionalProgram,
        runtime: RuntimeValues,
        counterparts: Mapping[str, ir.Value],
        outputs: Mapping[int, torch.Tensor] | None,
        rtol: float | None,
        atol: float | None,
    ) -> None:
        self._program, self._functional = functional.program, functional
        self._runtime, self._counterparts = runtime, counterparts
        self._rtol, self._atol = rtol, atol
        self._relevant = _dependencies(functional, outputs)
        self._values: dict[Node, Any] = {}
        # For a node without a counterpart: the operators, itself included, that made its value unchecked.
        self._unchecked: dict[Node, tuple[str, ...]] = {}
        self._unusable: set[Node] = set()
        self._compared = 0
        self._nearest: FirstDifference | None = None

    def run(self, leaves: Sequence[Any]) -> Search:
        self._enter(leaves)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for node in self._program.graph.nodes:
                if node.op == "get_attr":
                    self._values[node] = _attribute(self._program.graph_module, str(node.target))
                elif node.op == "call_function":
                    found = self._call(node)
                    if found is not None:
                        return Search(found, self._compared)
        if not self._compared:
            return Search(None, 0, "none of its values belongs to an operator that the wrong outputs depend on")
        reason = f"none of {self._compared} operators differs by more than is allowed when given the same inputs"
        return Search(self._nearest, self._compared, reason)

    def _enter(self, leaves: Sequence[Any]) -> None:
        """The placeholders' values. Buffers are copied: batch_norm writes to them without saying so."""
        lifted = lifted_tensors(self._program)
        placeholders = {node.name: node for node in self._program.graph.nodes if node.op == "placeholder"}
        given = iter(leaves)
        for spec in self._program.graph_signature.input_specs:
            node = placeholders[spec.arg.name]
            if node.name in lifted:
                tensor = lifted[node.name][1].detach()
                self._values[node] = tensor if spec.kind == InputKind.PARAMETER else tensor.clone()
            elif spec.kind == InputKind.USER_INPUT:
                leaf = next(given)
                self._values[node] = spec.arg.value if is_frozen(spec) else _detached(leaf)
            else:
                self._values[node] = self._program.constants.get(spec.target or "")

    def _call(self, node: Node) -> FirstDifference | None:
        """Computes one node, compares it, and hands the runtime's value on."""
        clones: dict[Node, torch.Tensor] = {}
        # What depends on no input is computed as it stands, writes included: nobody else has a part of it.
        is_writing = node not in self._functional.constant and _is_writing(node)

        def given(argument: Node) -> Any:
            value = self._values[argument]
            if is_writing and isinstance(value, torch.Tensor):
                value = clones.setdefault(argument, value.clone())
            return value

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), given)
        try:
            result = node.target(*args, **kwargs)
        except Exception as error:
            name = _operator(node)
            raise Unusable(f"PyTorch does not compute {name} again on the runtime's values: {error}") from error
        parents = node.all_input_nodes
        random = _is_random(node, self._values, result)
        unusable = any(parent in self._unusable for parent in parents)
        before = tuple(dict.fromkeys(name for parent in parents for name in self._unchecked.get(parent, ())))
        found, adopted, is_whole = None, [], True
        for key, value in keyed(node.name, result):
            counterpart = self._counterparts.get(key)
            if counterpart is None or _as_tensor(value, None) is None:
                adopted.append(value)
                is_whole = False
                continue
            actual = self._runtime.take(str(counterpart.name))
            self._compared += 1
            comparison = self._comparison(key, value, actual, parents, random or unusable)
            if node in self._relevant and not unusable:
                difference = self._difference(node, key, counterpart, comparison, parents, before)
                if found is None and not comparison.ok:
                    found = difference
                nearest = self._nearest
                if comparison.excess > 0 and (nearest is None or comparison.excess > nearest.comparison.excess):
                    self._nearest = difference
            adopted.append(_adopted(value, actual) if comparison.reason is None else value)
        self._values[node] = adopted if isinstance(result, (list, tuple)) else adopted[0]
        if not is_whole and node not in self._functional.constant:
            self._unchecked[node] = before if _is_access(node) else (*before, _operator(node))
            if random or unusable:
                self._unusable.add(node)
        for written in self._functional.rebinds.get(node, ()):
            value = self._values[node]
            self._values[written] = value if isinstance(value, torch.Tensor) else clones.get(written, value)
            self._unchecked[written] = self._unchecked.get(node, ())
            (self._unusable.add if node in self._unusable else self._unusable.discard)(written)
        return found

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
        before: tuple[str, ...],
    ) -> FirstDifference:
        frames = innermost(node.meta.get("stack_trace"))
        stack = node.meta.get("nn_module_stack") or {}
        producer = counterpart.producer()
        return FirstDifference(
            operator=_operator(node),
            node=key,
            source=str(frames[0]) if frames else None,
            code=frames[0].code if frames else "",
            module=next(reversed(stack.values()))[0] if stack else "",
            onnx_node=label(producer) if producer is not None else "",
            inputs=tuple(
                f"{dtype_name(tensor.dtype)} {list(tensor.shape)}"
                for parent in parents
                for tensor in tensors_in(self._values[parent])
            ),
            comparison=comparison,
            unchecked=before,
            is_beyond=not comparison.ok,
        )


def _dependencies(functional: FunctionalProgram, outputs: Mapping[int, Any] | None) -> set[Node]:
    """The nodes that the outputs of interest depend on; what is read after a write depends on the write."""
    program = functional.program
    latest: dict[Node, Node] = {}
    parents: dict[Node, list[Node]] = {}
    by_name: dict[str, Node] = {}
    for node in program.graph.nodes:
        by_name[node.name] = node
        parents[node] = [latest.get(argument, argument) for argument in node.all_input_nodes]
        for written in functional.rebinds.get(node, ()):
            latest[written] = node
    results = [by_name[spec.arg.name] for spec in user_outputs(program) if not is_frozen(spec)]
    chosen = results if outputs is None else [results[position] for position in outputs if position < len(results)]
    waiting = [latest.get(node, node) for node in chosen]
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(parents[node])
    return found


def _operator(node: Node) -> str:
    return operator_of(node)


def _is_writing(node: Node) -> bool:
    return bool(getattr(getattr(node.target, "_schema", None), "is_mutable", False))


def _is_access(node: Node) -> bool:
    return _operator(node) == "_operator::getitem"


def _is_random(node: Node, values: Mapping[Node, Any], result: Any) -> bool:
    """Whether an operator gives something else the next time; dropout does not when it is not training."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda argument: _copied(values[argument]))
    again = node.target(*args, **kwargs)
    pairs = zip(tensors_in(result), tensors_in(again), strict=True)
    return not all(torch.equal(left, right) for left, right in pairs)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _as_tensor(value: Any, like: torch.Tensor | None) -> torch.Tensor | None:
    """A value of the walk in the form that the ONNX file has it; None for what is no number."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, float) and like is not None and like.is_floating_point():
        return torch.tensor(value, dtype=like.dtype)  # a Python float has no dtype of its own
    return torch.tensor(value) if isinstance(value, (bool, int, float)) else None


def _adopted(value: Any, actual: torch.Tensor) -> Any:
    """The runtime's number in the form that PyTorch has it."""
    if not isinstance(value, torch.Tensor):
        return actual.item()
    if value.is_complex():
        actual = torch.view_as_complex(actual)
    return actual.to(value.device)
