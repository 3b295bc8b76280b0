"""Captures a module: runs it on tensors without values, and records the operators that run."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from opbridge.base.locks import process_state
from opbridge.base.python_private.tracing import paused
from opbridge.base.torch_private import (
    torch_decisions,
    torch_hashed_sizes,
    torch_higher_order,
    torch_known_sizes,
    torch_overrides,
    torch_proxies,
    torch_shape_env,
    torch_sizes_in_python,
    torch_subclasses,
    torch_tracing,
    torch_transforms,
    torchscript_running,
)
from opbridge.capture.dynamic_shapes import Axis, Shapes
from opbridge.capture.input_names import input_names
from opbridge.capture.tracer.builtin_functions import following_sizes
from opbridge.capture.tracer.contiguous_copies import ContiguousCopies, Copying
from opbridge.capture.tracer.control_flow_operators import ControlFlowOperators
from opbridge.capture.tracer.fakes import Fakes
from opbridge.capture.tracer.idle_questions import leaving_out_idle_questions
from opbridge.capture.tracer.known_items import Known
from opbridge.capture.tracer.list_forms import form_of
from opbridge.capture.tracer.loop_filled_lists import note_prepended, replace_form
from opbridge.capture.tracer.normalised_sizes import checking_normalised_sizes
from opbridge.capture.tracer.number_calls import FollowingCalls
from opbridge.capture.tracer.origins import Origins
from opbridge.capture.tracer.python_functions import PythonFunctions, masks_of_any_length, taking_symbolic_bools
from opbridge.capture.tracer.recorder import Recorder
from opbridge.capture.tracer.recurrent_layers import checking_symbolic_sizes
from opbridge.capture.tracer.repeating import Repeating
from opbridge.capture.tracer.returned_lists import with_lists_joined
from opbridge.capture.tracer.sparse_operators import dense_form
from opbridge.capture.tracer.subgraphs import body_of
from opbridge.capture.tracer.symbolic_list import forming
from opbridge.capture.tracer.symbolic_loops import asking
from opbridge.capture.tracer.taking_sequences import (
    iterating_tensors,
    keeping_numbers,
    repeating_lists,
    taking_sequences,
)
from opbridge.capture.tracer.triton_launches import recording_launches
from opbridge.capture.tracer.weights import constant_names, parts_of, replaced, shapes_of_earlier_runs, state_of
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import CapturedGraph, Leaf, SizeCondition, Weight
from opbridge.model_support import applying

__all__ = ["trace"]

_PREFIXES = {"parameter": "p", "buffer": "b", "constant": "c"}
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_CONSTANT = (int, float, complex, str, type(None), torch.dtype, torch.device, torch.nn.Module)


def trace(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    shapes: Shapes,
    *,
    general: bool = True,
    gradients: str = "",
    dynamic: frozenset[str] = frozenset(),
    expected: CapturedGraph | None = None,
    calls: FollowingCalls | None = None,
    answers: Any = None,
    merged: Any = None,
    copying: Copying | None = None,
) -> CapturedGraph:
    """Runs a module once, and gives the operators that it calls as a graph.

    1. The module's parameters and buffers are replaced by tensors without values while it runs, and put back. One that
       is made of other tensors, such as a quantised weight of torchao's, is replaced by one made of such tensors.
    2. Dynamic dimensions are symbols; what the model asks of them is noted as a condition.
    3. Operators are recorded before autograd and before they are decomposed, but for those whose derivatives are asked
       for, or that a transform of torch.func is applied to.

    Args:
        module: The model.
        args: Its positional inputs.
        kwargs: Its keyword inputs.
        shapes: The dynamic dimensions.
        general: Whether the sizes 0 and 1 are sizes like others.
        gradients: What requires gradients where it does in the model: "", "inputs", or "inputs and parameters".
        dynamic: The places of dynamic dimensions that are never fixed, whatever the model asks.
        expected: Another capture of the model, which this one is compared with. The nodes of this one have no sources.
        calls: The Python functions that follow symbolic numbers, where there are any; where they are those of all the
            model's packages, such numbers can be hashed.
        answers: What answers the questions about data; see `opbridge.capture.control_flow`.
        merged: What runs in the place of the model: all of its paths.
        copying: Whether `contiguous` copies where sizes decide whether it does; see `contiguous_copies`.

    Raises:
        CopiesMatter: It may not.
        GraphDiffers: The model calls other operators than in the expected capture.
        Exception: What the model raises, or torch where the model cannot be captured.
    """
    with process_state:  # it replaces functions of torch's
        run = _Run(
            module,
            args,
            dict(kwargs),
            shapes,
            general=general,
            gradients=gradients,
            dynamic=dynamic,
            repeating=None if expected is None else Repeating(expected.graph),
            calls=calls,
            answers=answers,
            merged=merged,
            copying=copying or Copying(),
        )
        return run.graph()


class _Run:
    """One run of the module.

    Attributes:
        weights: The parameters, buffers and constants, by placeholder.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        shapes: Shapes,
        *,
        general: bool,
        gradients: str,
        dynamic: frozenset[str],
        repeating: Repeating | None,
        calls: FollowingCalls | None,
        answers: Any,
        merged: Any,
        copying: Copying,
    ) -> None:
        self._answers, self._merged = answers, merged
        self._copies = ContiguousCopies(copying)
        self._calls = calls
        self._module, self._args, self._kwargs = module, args, kwargs
        self._shapes = shapes
        self._gradients = gradients
        self._fakes = Fakes(general=general, dynamic=dynamic, axes=shapes.axes.values())
        self._origins = Origins(module)
        self._repeating = repeating
        self._note = self._origins.note if repeating is None else self._compare
        self._operators: ControlFlowOperators | None = None
        if merged is not None:
            self._operators = ControlFlowOperators(lambda: self._recording, self._body, self._fakes, merged.sizes)
            self._note = self._operators.note_origin
        known = Known.ALL if answers is None and merged is None else Known.QUOTIENTS
        self._recorder = Recorder(self._note, self._fakes.mode, self._constant, known=known)
        self._recording = self._recorder
        self._constant_names: dict[int, str] | None = None
        self._first: Node | None = None
        self.weights: dict[Node, Weight] = {}

    def graph(self) -> CapturedGraph:
        """The graph."""
        recorder = self._recorder
        leaves, inputs = self._inputs()
        end = recorder.graph.placeholder("end_of_inputs")
        self._first = next((leaf.node for leaf in inputs if leaf.node is not None), end)
        state = list(state_of(self._module))
        self._fakes.expect(part for _, _, tensor in state for part in parts_of(tensor))
        for kind, name, tensor in state:
            self._track_state(kind, name, tensor)
        _, structure = pytree.tree_flatten((self._args, self._kwargs))
        with replaced(self._module, self._fakes.of), self._running():
            args, kwargs = pytree.tree_unflatten(leaves, structure)  # a container may compute with what it holds
            found, returned_structure = self._run(args, kwargs)
            outputs = [self._output(value) for value in found]
        recorder.graph.erase_node(end)
        module = recorder.finish(tuple(outputs))
        self._copies.check(module)
        return CapturedGraph(
            module,
            tuple(inputs),
            tuple(map(_leaf, torch_tracing.output_paths(returned_structure), outputs)),
            self.weights,
            returned_structure,
            self._fakes.sizes.ranges(),
            tuple(SizeCondition(*each) for each in self._fakes.sizes.conditions()),
            self._fakes.sizes.places(),
            zeros=self._fakes.sizes.zeros(),
        )

    def _run(self, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
        """The leaves of what the model returns, and their structure."""
        if self._merged is not None:
            leaves = pytree.tree_leaves((args, kwargs))
            given = {name: leaf for name, leaf in zip(self._names, leaves, strict=True) if name}
            assert self._operators is not None
            self._merged.begin = self._operators.begin
            self._merged.branch = self._operators.branch
            self._merged.repeat = self._operators.repeat
            self._merged.negated = self._operators.negated
            for symbol, limits in self._merged.limits.items():
                torch_known_sizes.suppose_limits(self._fakes.sizes.env, symbol, *limits)
            with self._knowing_sizes():
                return list(self._merged(given)), self._merged.structure
        with self._origins.following(), self._noting_zeros(), self._recorder.draws.running():
            if self._answers is None:
                with contextlib.nullcontext() if self._calls is None else keeping_numbers():
                    return pytree.tree_flatten(with_lists_joined(self._module(*args, **kwargs)))
            self._outermost = self._answers.outermost = sys._getframe()
            self._recorder.tracer.computes_sizes = True
            with (
                torch_decisions.answering(
                    self._fakes.sizes.env,
                    self._decide,
                    self._answers.elements_asked_for,
                    self._answers.chosen,
                    self._answers.note_again,
                ),
                self._asking_sizes(),
                self._answers.iterations.counting(),
                asking(self._answers.loops),
                forming(form_of, replace_form, note_prepended),
                iterating_tensors(),
            ):
                return pytree.tree_flatten(with_lists_joined(self._module(*args, **kwargs)))

    def _asking_sizes(self) -> contextlib.AbstractContextManager[None]:
        """Within this context, questions about sizes are decisions, where they are to be."""
        if self._answers.sizes is None:
            return contextlib.nullcontext()
        return torch_decisions.asking_sizes(self._fakes.sizes.env, self._decide_by_size)

    def _decide_by_size(self, condition: torch.SymBool, asked: torch_shape_env.AskedNow, answer: bool) -> None:
        """Notes a question about sizes: as a decision, or as what has to hold where it is asked."""
        answers, recorder = self._answers, self._recorder
        may_decide = self._recording is recorder and not recorder.is_differentiating
        if not answers.sizes.decides(*asked, by_operator=recorder.is_describing or not may_decide):
            line = torch_shape_env.line_of_question(self._fakes.sizes.env)
            answers.sizes.note_condition(asked, answer, line)
            return
        made = len(answers.events)
        with paused():
            answers.answer(recorder, condition, self._outermost, self._origins.stack(), question=asked[0], given=answer)
        if len(answers.events) > made:
            answers.sizes.note_decision(asked, torch_shape_env.line_of_question(self._fakes.sizes.env))

    def _knowing_sizes(self) -> contextlib.AbstractContextManager[None]:
        """Within this context, questions are answered for the sizes of the path that runs, where sizes decide."""
        if self._merged.sizes is None:
            return contextlib.nullcontext()
        return torch_decisions.knowing_sizes(self._fakes.sizes.env, self._merged.sizes.value)

    def _noting_zeros(self) -> contextlib.AbstractContextManager[None]:
        return torch_shape_env.noting_zeros(self._fakes.sizes.env) if self._shapes.axes else contextlib.nullcontext()

    def _decide(self, condition: torch.SymBool, element: tuple[int, int] | None) -> bool | None:
        recorder = self._recorder
        if self._recording is not recorder:
            return None
        recorder.questions += recorder.is_describing
        number = recorder.questions if recorder.is_describing else torch_hashed_sizes.key_asked_about()
        with paused():
            return self._answers.answer(
                recorder, condition, self._outermost, self._origins.stack(), element, of_operator=number
            )

    def _inputs(self) -> tuple[list[Any], list[Leaf]]:
        """The leaves that the module is run on, and the graph's inputs."""
        leaves, inputs = [], []
        names = input_names(self._module, self._args, self._kwargs)
        for (name, place), leaf in zip(names, pytree.tree_leaves((self._args, self._kwargs)), strict=True):
            fake, node = self._input(name, place, leaf)
            leaves.append(fake)
            inputs.append(Leaf(name, node, None if node is not None else leaf))
        self._names = [leaf.name if leaf.node is not None else "" for leaf in inputs]
        return leaves, inputs

    def _input(self, name: str, place: str, leaf: Any) -> tuple[Any, Node | None]:
        recorder = self._recorder
        if isinstance(leaf, torch.Tensor):
            axes = {index: axis for (tensor, index), axis in self._shapes.axes.items() if tensor == id(leaf)}
            fake = self._fakes.input(leaf, axes, requires_grad=bool(self._gradients))
            node = torch_proxies.placeholder(recorder.graph, name)
            recorder.track(fake, node)
            return fake, node
        if type(leaf) is int and place in self._shapes.numbers:
            number = self._fakes.size(Axis(place, None, None, leaf))
            if isinstance(number, torch.SymInt):
                node = torch_proxies.placeholder(recorder.graph, name)
                recorder.track_number(number, node)
                return number, node
        if isinstance(leaf, _CONSTANT):
            return leaf, None
        raise ValueError(f"Unsupported input type {type(leaf)}.")

    def _compare(self, node: Node) -> None:
        assert self._repeating is not None
        self._repeating.note(self._recorder.graph, node)

    def _track_state(self, kind: str, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Makes a tensor without values stand for a parameter or a buffer; a wrapper is rebuilt around such tensors."""
        if torch_subclasses.is_wrapper(tensor):
            parts = torch_subclasses.wrapped_tensors(tensor).items()
            inner = {each: self._track_state(kind, f"{name}.{each}", part) for each, part in parts}
            with self._fakes.mode:
                fake = torch_subclasses.rebuilt(tensor, inner)
            self._fakes.stands_for(fake, tensor)
            return fake
        recorder = self._recorder
        fake = self._fakes.of(tensor, requires_grad=self._gradients == "inputs and parameters")
        recorder.track(fake, self._weight(kind, name, tensor), tensor)
        recorder.constants.add_weight(recorder.tracked(fake).node, tensor)
        return fake

    def _weight(self, kind: str, name: str, tensor: torch.Tensor) -> Node:
        graph = self._recorder.graph
        with graph.inserting_before(self._first):
            node = graph.placeholder(f"{_PREFIXES[kind]}_{re.sub(r'[^a-zA-Z0-9]', '_', name).lower()}")
        self.weights[node] = Weight(name, dense_form(tensor), kind, str(tensor.layout).removeprefix("torch."))
        return node

    def _constant(self, recorder: Recorder, tensor: torch.Tensor) -> Node:
        """The node of a tensor with values that is no parameter or buffer."""
        fake = self._fakes.of(tensor)
        if recorder is not self._recorder:  # the body of an operator has no weights of its own
            name = recorder.tracer.get_fresh_qualname("_tensor_constant")
            setattr(recorder.tracer.root, name, tensor)
            node = recorder.tracer.create_node("get_attr", name, (), {})
        else:
            if self._constant_names is None:
                self._constant_names = constant_names(self._module)
            name = self._constant_names.get(id(tensor)) or f"lifted_tensor_{len(self.weights)}"
            node = self._weight("constant", name, tensor)
        recorder.track(fake, node, tensor)
        return node

    def _output(self, value: Any) -> Any:
        if torch_subclasses.is_wrapper(value):
            raise CaptureError(
                f"The model returns a tensor subclass ({type(value).__name__}), such as a quantized tensor, which "
                "is not supported in ONNX. Return a plain tensor: value.dequantize()."
            )
        if isinstance(value, (torch.Tensor, *_NUMBERS)):
            return self._recorder.output(value)
        if isinstance(value, _CONSTANT) and not isinstance(value, torch.nn.Module):
            return value
        raise RuntimeError(f"Found {type(value)} in output, which is not a known type.")

    def _body(self, function: Any, *args: Any) -> GraphModule:
        outer = self._recording
        inner = Recorder(self._note, self._fakes.mode, self._constant, outer)
        self._recording = inner
        try:
            return body_of(inner, function, args, differentiated=outer.is_differentiating)
        finally:
            self._recording = outer

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """The contexts around the module's run."""
        transforms = contextlib.ExitStack()

        def begin() -> None:
            transforms.enter_context(self._recording.recording(differentiated=True))

        with contextlib.ExitStack() as stack:
            stack.enter_context(torch_transforms.restoring_levels())
            stack.enter_context(torch_overrides.as_while_exporting())
            stack.enter_context(torch_higher_order.called_directly())
            stack.enter_context(self._fakes.mode)
            stack.enter_context(torch_proxies.enable_python_dispatcher())
            stack.enter_context(torch_proxies.subgraphs_traced_by(self._body, self._fakes.mode))
            stack.enter_context(PythonFunctions(lambda values: self._recording.settle_ranks(values), self._copies))
            stack.enter_context(torchscript_running.running_in_python(self._fakes.known))
            stack.enter_context(torch_transforms.following_nested_transforms())
            stack.enter_context(leaving_out_idle_questions())
            stack.enter_context(taking_symbolic_bools())
            stack.enter_context(checking_symbolic_sizes())
            stack.enter_context(taking_sequences())
            stack.enter_context(checking_normalised_sizes())
            stack.enter_context(masks_of_any_length())
            stack.enter_context(applying.applied(self._module))
            stack.enter_context(torch_overrides.making_nested_tensors())
            stack.enter_context(torch_overrides.asserting_valid_distributions())
            stack.enter_context(torch_transforms.around_transforms(begin, transforms.close))
            stack.enter_context(
                torch_transforms.around_backward(lambda: self._recording.recording(differentiated=True))
            )
            stack.enter_context(torch_hashed_sizes.hashed(self._calls is not None and self._calls.everywhere))
            if self._shapes.axes:
                stack.enter_context(shapes_of_earlier_runs(self._module))
            if self._calls is not None:
                stack.enter_context(self._calls.following())
                stack.enter_context(repeating_lists())
                stack.enter_context(torch_sizes_in_python.taken_by_python())
                if self._calls.everywhere:
                    stack.enter_context(applying.applied_to_sizes_in_python(self._module))
                stack.enter_context(following_sizes(self._module))
            else:
                stack.enter_context(following_sizes(None))
            stack.enter_context(recording_launches(lambda: self._recording))
            stack.enter_context(self._recorder.recording())
            yield


def _leaf(path: str, value: Any) -> Leaf:
    return Leaf(path, value) if isinstance(value, Node) else Leaf(path, None, value)
