"""Records the operators that run, as the nodes of one graph."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from opbridge.base.python_private.tracing import paused
from opbridge.base.torch_private import torch_proxies, torch_shape_env, torch_sizes, torch_subclasses, torch_tracing
from opbridge.base.torch_private.torch_branch_operators import DECISION
from opbridge.capture import packed_sequences
from opbridge.capture.tracer import (
    autocasting,
    broadcast_sizes,
    free_values,
    generators,
    kinds_of_operators,
    open_ranks,
    out_variants,
    quantized_tensors,
    refused_sizes,
    shape_functions,
    sparse_operators,
    symbolic_loops,
    symbolic_scalars,
    triton_launches,
)
from opbridge.capture.tracer.known_values import KnownValues
from opbridge.capture.tracer.long_sizes import check_length
from opbridge.capture.tracer.operator_questions import OperatorQuestions
from opbridge.capture.tracer.recording_modes import RecordingModes
from opbridge.capture.tracer.tracked_tensors import Tracked, TrackedTensors
from opbridge.errors import CaptureError

__all__ = ["Recorder"]

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_PLAIN = frozenset(
    {int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
)
_aten = torch.ops.aten


class Recorder:
    """The graph of one function, while that runs.

    1. An operator is recorded before autograd, and so before a composite operator is taken apart.
    2. Where its derivatives may be asked for, or a transform of torch.func is at work, the operators are recorded that
       remain after these.
    3. Under autocast, its casts are recorded as operators.

    Args:
        note: Called with each new node.
        fake_mode: The mode that computes the shapes and dtypes of results.
        constant: Called with a tensor that has values and that the graph does not know; returns its node.
        values: What is known of the values in the graph.
        outside: The recorder of the graph that this one is the body of an operator of.

    Attributes:
        tracer: The graph, as torch sees it.
        fake_mode: The same.
        values: The same.
        outside: The same.
        questions: The questions that an operator asks while its result is described.
        casts: How many operators were run by a rule of autocast's.
    """

    def __init__(
        self,
        note: Callable[[Node], None],
        fake_mode: Any,
        constant: Callable[[Recorder, torch.Tensor], Node],
        values: KnownValues,
        outside: Recorder | None = None,
    ) -> None:
        self._tensors = TrackedTensors()
        self.tracer = torch_proxies.GraphTracer(note, self._tensors)
        self._tensors.proxy = self.tracer.proxy
        self.fake_mode = fake_mode
        self._constant = constant
        self.values, self.outside = values, outside
        self._modes = RecordingModes(
            torch_proxies.before_autograd(self.tracer, self._call_before_autograd),
            torch_proxies.after_autograd(self.tracer, self._call_after_autograd),
        )
        self.questions = OperatorQuestions()
        self.casts = 0

    @property
    def graph(self) -> Graph:
        """The nodes."""
        return self.tracer.graph

    @property
    def is_differentiating(self) -> bool:
        """Whether operators are being recorded after autograd."""
        return self._modes.is_differentiating

    def for_body(self) -> Recorder:
        """What records the body of an operator of this graph."""
        return Recorder(self.tracer.on_node, self.fake_mode, self._constant, self.values.for_body(), self)

    def recording(self, *, differentiated: bool = False) -> contextlib.AbstractContextManager[None]:
        """Within this context, this is the graph that operators are recorded in.

        Args:
            differentiated: Whether they are recorded after autograd and the transforms of torch.func.
        """
        return self._modes.active(differentiated=differentiated)

    def finish(self, output: Any) -> GraphModule:
        """The graph as a module, which is complete with what it returns."""
        self.graph.output(output)
        free_values.pass_free_values(self)
        self._remove_unused_numbers()
        return torch_tracing.lazy_graph_module(self.tracer.attributes(), self.graph)

    def _remove_unused_numbers(self) -> None:
        """Removes the arithmetic of sizes that nothing reads."""
        for node in reversed(self.graph.nodes):
            if node.op == "call_function" and not node.users and isinstance(node.meta.get("val"), _NUMBERS):
                if node.target in kinds_of_operators.ASKING or not isinstance(node.target, torch._ops.OpOverload):
                    self.graph.erase_node(node)

    def last_node(self) -> Node:
        """The node that was recorded last."""
        return next(iter(reversed(self.graph.nodes)))

    def erase_after(self, last: Node) -> None:
        """Takes back the nodes that were recorded after one."""
        for node in reversed(self.graph.nodes):
            if node is last:
                return
            self.graph.erase_node(node)

    def track(self, tensor: torch.Tensor, node: Node, *aliases: torch.Tensor) -> None:
        """Makes a node stand for a tensor without values, and for the tensors with values that it was made from."""
        node.meta["val"] = tensor
        tracked = Tracked(node, tensor)
        for each in (tensor, *aliases):
            self._tensors.found[id(each)] = tracked
            self._tensors.alive.append(each)
        self._bind_sizes(tensor, node)

    def _bind_sizes(self, tensor: torch.Tensor, node: Node) -> None:
        for index, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt):
                self.tracer.bind_size(size, functools.partial(self._size_of, node, index, size))

    def track_number(self, number: Any, node: Node) -> None:
        """Makes a node stand for a symbolic number."""
        node.meta["val"] = number
        self.tracer.bind_size(number, lambda: node)

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is one of this graph."""
        return self._tensors.find(tensor) is not None

    def node_of(self, tensor: torch.Tensor) -> Node | None:
        """The node of a tensor; None where it is none of this graph."""
        found = self._tensors.find(tensor)
        return None if found is None else found.node

    def argument(self, value: Any) -> Any:
        """A value of the model's as an argument of a node."""
        return self._converted(value)[1]

    def output(self, value: Any) -> Any:
        """A value that the model returns, as an argument of a node. Its rank may be open."""
        found = self._tensors.find(value) if isinstance(value, torch.Tensor) else None
        return self.argument(value) if found is None else found.node

    def settle_ranks(self, values: Any) -> None:
        """Asks for the ranks of tensors, where they are open."""
        self._tensors.settle_ranks(values)

    def _call_before_autograd(self, function: Any, args: Any, kwargs: Any) -> Any:
        if torch_proxies.has_nested(args, kwargs):
            with self.recording(differentiated=True):
                return function(*args, **kwargs)
        wrapper = torch_subclasses.wrapper_among((*args, *kwargs.values()))
        if wrapper is not None:
            return self._taken_apart(wrapper, function, args, kwargs)
        if quantized_tensors.takes(function):
            with self.recording(differentiated=self.is_differentiating):
                return quantized_tensors.call(function, args, kwargs)
        if self._is_differentiated(args, kwargs):
            with self.recording(differentiated=True):
                return function(*map(self._fake, args), **{name: self._fake(value) for name, value in kwargs.items()})
        body = triton_launches.body_of(function)
        if body is not None:
            with self.recording(differentiated=self.is_differentiating):
                return body(*args, **kwargs)
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            return autocasting.call(self, function, args, kwargs)
        return self.record(function, args, kwargs)

    def _taken_apart(self, wrapper: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """What a tensor that is made of others makes of an operator; what it does with those is recorded."""

        def decomposed() -> Any:
            return function.decompose(*args, **kwargs)

        with self.recording(differentiated=self.is_differentiating):
            return torch_subclasses.dispatch(wrapper, function, args, kwargs, decomposed)

    def _call_after_autograd(self, function: Any, args: Any, kwargs: Any) -> Any:
        # A nested tensor calls operators on the tensors that it is made of.
        return NotImplemented if torch_proxies.has_nested(args, kwargs) else self.record(function, args, kwargs)

    def _is_differentiated(self, args: Any, kwargs: Any) -> bool:
        """Whether derivatives of an operator's results may be asked for."""
        if torch.autograd.forward_ad._current_level >= 0:
            return True
        return torch.is_grad_enabled() and any(map(_requires_grad, (*args, *kwargs.values())))

    def _fake(self, value: Any) -> Any:
        return self._converted(value)[0]

    def record(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Records one operator, and computes the shapes and dtypes of its results."""
        if getattr(function, "namespace", None) not in kinds_of_operators.NAMESPACES:
            return self._recorded(function, args, kwargs)  # what describes its results may be the model's code
        with paused():
            return self._recorded(function, args, kwargs)

    def _recorded(self, function: Any, args: Any, kwargs: Any) -> Any:
        if function in kinds_of_operators.METADATA:
            return function(*args, **kwargs)
        if function is DECISION:
            node = self.tracer.create_node("call_function", function, self._converted(tuple(args))[1], {}, "decision")
            node.meta["val"] = None
            return None
        if kwargs and out_variants.functional_form(function) is not None:
            return out_variants.record(self, function, args, kwargs)
        has_generator = kwargs.get("generator") is not None
        if "generator" in kwargs:
            function, kwargs = generators.left_out(function, kwargs)
        if torch.Tag.nondeterministic_seeded in function.tags and not has_generator:
            if (drawn := self.values.draws.of(function, args, kwargs)) is not None:
                if function._schema.is_mutable:
                    return self.record(_aten.copy_.default, (args[0], drawn), {})
                return self.record(_aten.lift_fresh_copy.default, (drawn,), {})
        dense = sparse_operators.dense_operator(function)
        if dense is not None:
            with self.recording(differentiated=self.is_differentiating):
                return dense(self, *args, **kwargs)
        if (squeezed := open_ranks.squeeze_known_ones(self.record, function, args)) is not None:
            return squeezed
        if function is _aten.lift_fresh.default:
            function = _aten.lift_fresh_copy.default  # or a write to the result would change the constant
        elif function is _aten.is_nonzero.default:
            return self._is_nonzero(args[0])
        elif function is _aten._efficientzerotensor.default:
            function = _aten.zeros.default  # the tangent of a constant; without memory it would ask for known sizes
        args = kinds_of_operators.with_masks(function, args, self.record)
        fakes, arguments = self._converted(tuple(args))
        fake_keywords, keywords = {}, {}
        for name, value in kwargs.items():
            fake_keywords[name], keywords[name] = self._converted(value)
        if torch.Tag.data_dependent_output in function.tags:
            known, value = False, None
            if symbolic_loops.knows_constants():
                known, value = self.values.constants.result(function, arguments, keywords)
            if known:
                symbolic_loops.note_constant()
                return value
            size = packed_sequences.first_batch_size(function, arguments)
            if size is not None:
                return size
        elif torch.Tag.inplace_view in function.tags:
            # The node keeps the shape that the tensor has before it is changed.
            arguments[0].meta["val"] = torch_proxies.snapshot(fakes[0])
        env = self.fake_mode.shape_env
        before = torch_shape_env.questions(env)
        shape = None if fake_keywords else self.values.parts.shape(function, fakes)
        shape = shape or shape_functions.shape_function(function, fakes, fake_keywords)
        lengths = self.values.lengths(arguments[1]) if function is _aten._pack_padded_sequence.default else None
        if lengths is not None:
            shape = functools.partial(packed_sequences.pack, known=lengths)
        opened = [] if self.is_differentiating or self.outside else open_ranks.open_sizes(function, fakes)
        if opened:
            shape = open_ranks.squeeze_by_example
        item = self.values.items.item(function, arguments)
        self.questions.begin(function)
        broadcast = broadcast_sizes.dims_beside_data(function, fakes)
        self.values.masks.share(arguments, fakes)
        try:
            if item is not None:
                result: Any = item
            elif shape:
                result = shape(*fakes)
            else:
                result = symbolic_scalars.result_of(function, fakes, fake_keywords)
        except Exception as error:
            refused_sizes.note_error(error, function, fakes, fake_keywords)
            raise
        finally:
            is_described = self.questions.end()
        check_length(result)
        if not self.is_differentiating and is_described:
            torch_shape_env.note_questions_of_operator(env, before, function._schema.name)
        if function is _aten._new_zeros_with_same_feature_meta.default:
            function, arguments, keywords = _aten.new_zeros.default, (arguments[0], self.argument(result.shape)), {}
        node = self.tracer.create_node("call_function", function, arguments, keywords, _name(function))
        if lengths is not None:
            node.meta["lengths"] = lengths
        if opened:
            self._tensors.ranks.add(node, opened)
        self.values.masks.note(arguments, fakes)
        self.values.add(function, node, result)
        self.bind(result, node)
        for dim, sizes in broadcast.items():
            # From now on, torch takes these for one number, under each of their symbols.
            for size in (result.shape[dim], *sizes):
                if isinstance(size, torch.SymInt):
                    self.tracer.rebind_size(size, functools.partial(self._size_of, node, dim % result.dim(), size))
        if function in kinds_of_operators.PARTS and self._is_new_symbol(result.storage_offset()):
            self.tracer.bind_size(result.storage_offset(), functools.partial(self._offset_of, node))
        torch_sizes.note_unknown_symbols(node, self.fake_mode.shape_env, result)
        return result

    def bind(self, result: Any, node: Node) -> None:
        """Makes a node stand for a result, and a getitem for each of several."""
        if isinstance(result, torch.Tensor):
            self.track(result, node)
        elif isinstance(result, _NUMBERS):
            self.track_number(result, node)
        elif isinstance(result, (list, tuple)):
            node.meta["val"] = result
            for index, item in enumerate(result):
                if isinstance(item, (torch.Tensor, list, tuple, *_NUMBERS)):
                    inner = self.tracer.create_node("call_function", operator.getitem, (node, index), {})
                    self.values.add(operator.getitem, inner, item)
                    self.bind(item, inner)
        else:
            node.meta["val"] = result

    def rebind(self, result: Any, function: Any, args: Any, kwargs: Any) -> None:
        """Records an operator whose result is there already."""
        node = self.tracer.create_node(
            "call_function",
            function,
            self._converted(tuple(args))[1],
            {name: self._converted(value)[1] for name, value in kwargs.items()},
            _name(function),
        )
        self.values.add_node(function, node)
        self.bind(result, node)

    def sparse_weight(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The sparse weight that a tensor of the graph stands for; None for any other tensor."""
        return self.values.constants.sparse_weight(self.tracked(tensor).node)

    def _is_nonzero(self, tensor: torch.Tensor) -> Any:
        """What `bool(tensor)` asks for, as operators that a graph can hold."""
        with self.recording(differentiated=self.is_differentiating):
            if tensor.numel() != 1:
                raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
            return (tensor != 0).item()

    def _converted(self, value: Any) -> tuple[Any, Any]:
        """An argument of an operator, as what has its shape, and as what stands for it in the graph."""
        if type(value) in _PLAIN:
            return value, value
        if isinstance(value, torch.Tensor):
            tracked = self.tracked(value)
            return tracked.fake, tracked.node
        if isinstance(value, _NUMBERS):
            return value, self._size(value)
        if isinstance(value, (list, tuple)):
            pairs = [self._converted(item) for item in value]
            kind = list if isinstance(value, list) else tuple
            return kind(fake for fake, _ in pairs), kind(argument for _, argument in pairs)
        return value, self.tracer.create_arg(value)

    def tracked(self, tensor: torch.Tensor) -> Tracked:
        """What the graph knows of a tensor.

        Raises:
            CaptureError: The tensor was computed outside of this graph.
        """
        found = self._tensors.find(tensor)
        if found is not None:
            self._tensors.ranks.settle(found.node)
            return found
        if isinstance(tensor, torch_proxies.FakeTensor):
            if self.outside is not None:
                self.track(tensor, self.free(tensor))
                return self._tensors.found[id(tensor)]
            raise CaptureError(
                "The model uses a tensor that was computed outside of this graph, for example in another branch or "
                "in an earlier run. Compute it in forward(), or pass it as an input."
            )
        node = self._constant(self, tensor)
        self.values.constants.add_weight(node, tensor)
        return self._tensors.found[id(tensor)]

    def free(self, value: Any) -> Node:
        """The node of a value from around a body; see `free_values`."""
        name = self.tracer.get_fresh_qualname("_free")
        setattr(self.tracer.root, name, value)
        node = self.tracer.create_node("get_attr", name, (), {})
        node.meta["free"] = node.meta["val"] = value
        return node

    def _size(self, size: Any) -> Any:
        """A symbolic number as an argument of a node."""
        if self.outside is not None and not self.tracer.knows_size(size):
            for each in self.tracer.unknown_symbols(size) or [size]:
                self.tracer.bind_size(each, functools.partial(self.free, each))
        return self.tracer.size_argument(size)

    def _size_of(self, node: Node, index: int, size: torch.SymInt) -> Node:
        made = self.tracer.create_node("call_function", _aten.sym_size.int, (node, index), {})
        made.meta["val"] = size
        return made

    def _is_new_symbol(self, number: Any) -> bool:
        """Whether a number is nothing but a symbol that nothing else tells.

        An offset of `n - 1` is no such number: the model may compute with the same number, which no tensor of the file
        has as its offset.
        """
        return torch_sizes.is_symbol(number) and not self.tracer.knows_size(number)

    def _offset_of(self, node: Node) -> Node:
        """Where in memory a part begins whose position only a run tells; torch's functionalisation computes with it."""
        made = self.tracer.create_node("call_function", _aten.sym_storage_offset.default, (node,), {})
        made.meta["val"] = node.meta["val"].storage_offset()
        return made


@functools.cache
def _name(function: Any) -> str:
    """What a node of an operator is called: "add" for aten.add.Tensor."""
    return torch_proxies.node_name(function._schema.name.partition("::")[2])


def _requires_grad(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.requires_grad
    return isinstance(value, (list, tuple)) and any(map(_requires_grad, value))
