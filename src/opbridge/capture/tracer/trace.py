"""Captures a module: runs it on tensors without values, and records the operators that run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from opbridge.base.locks import process_state
from opbridge.base.torch_private import (
    torch_hashed_sizes,
    torch_higher_order,
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
from opbridge.capture.tracer.branch_questions import BranchQuestions
from opbridge.capture.tracer.builtin_functions import following_sizes
from opbridge.capture.tracer.contiguous_copies import ContiguousCopies, Copying
from opbridge.capture.tracer.control_flow_operators import ControlFlowOperators
from opbridge.capture.tracer.fakes import Fakes
from opbridge.capture.tracer.idle_questions import leaving_out_idle_questions
from opbridge.capture.tracer.known_items import Known
from opbridge.capture.tracer.known_values import KnownValues
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
from opbridge.capture.tracer.subgraphs import body_of
from opbridge.capture.tracer.symbolic_list import Forms, forming
from opbridge.capture.tracer.symbolic_loops import asking, row_gone_over
from opbridge.capture.tracer.taking_sequences import (
    iterating_tensors,
    keeping_numbers,
    repeating_lists,
    taking_sequences,
)
from opbridge.capture.tracer.traced_call import TracedCall
from opbridge.capture.tracer.triton_launches import recording_launches
from opbridge.capture.tracer.weight_nodes import WeightNodes
from opbridge.capture.tracer.weights import replaced, shapes_of_earlier_runs
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import CapturedGraph, Leaf, SizeCondition
from opbridge.model_support import applying

__all__ = ["trace"]

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
            TracedCall(module, args, dict(kwargs), shapes, gradients),
            Fakes(general=general, dynamic=dynamic, axes=shapes.axes.values()),
            repeating=None if expected is None else Repeating(expected.graph),
            calls=calls,
            answers=answers,
            merged=merged,
            copying=copying or Copying(),
        )
        return run.graph()


class _Run:
    """One run of a module."""

    def __init__(
        self,
        call: TracedCall,
        fakes: Fakes,
        *,
        repeating: Repeating | None,
        calls: FollowingCalls | None,
        answers: Any,
        merged: Any,
        copying: Copying,
    ) -> None:
        self._call, self._fakes, self._calls = call, fakes, calls
        self._copies = ContiguousCopies(copying)
        self._origins = Origins(call.module)
        self._weights = WeightNodes(call.module, fakes)
        note: Callable[[Node], None] = (
            self._origins.note if repeating is None else lambda node: repeating.note(self._recorder.graph, node)
        )
        self._operators: ControlFlowOperators | None = None
        if merged is not None:
            self._operators = ControlFlowOperators(lambda: self._recording, self._body, fakes, merged)
            note = self._operators.note_origin
        known = Known.ALL if answers is None and merged is None else Known.QUOTIENTS
        self._recorder = Recorder(note, fakes.mode, self._weights.constant, KnownValues(known))
        self._recording = self._recorder
        self._questions: BranchQuestions | None = None
        if answers is not None:
            self._questions = BranchQuestions(
                answers, self._recorder, lambda: self._recording, self._origins, fakes.sizes
            )

    def graph(self) -> CapturedGraph:
        """The graph."""
        call, recorder, sizes = self._call, self._recorder, self._fakes.sizes
        leaves, inputs = self._inputs()
        end = recorder.graph.placeholder("end_of_inputs")
        first = next((leaf.node for leaf in inputs if leaf.node is not None), end)
        self._weights.track_state(recorder, first, requires_grad=call.parameters_require_gradients)
        _, structure = pytree.tree_flatten((call.args, call.kwargs))
        with replaced(call.module, self._fakes.of), self._running():
            args, kwargs = pytree.tree_unflatten(leaves, structure)  # a container may compute with what it holds
            if self._operators is None:
                found, returned_structure = self._run(args, kwargs)
            else:
                given = zip(inputs, pytree.tree_leaves((args, kwargs)), strict=True)
                found, returned_structure = self._operators.run(
                    {leaf.name: value for leaf, value in given if leaf.node is not None}
                )
            outputs = [self._output(value) for value in found]
        recorder.graph.erase_node(end)
        module = recorder.finish(tuple(outputs))
        self._copies.check(module)
        return CapturedGraph(
            module,
            tuple(inputs),
            tuple(map(_leaf, torch_tracing.output_paths(returned_structure), outputs)),
            self._weights.found,
            returned_structure,
            sizes.ranges(),
            tuple(SizeCondition(*each) for each in sizes.conditions()),
            sizes.places(),
            zeros=sizes.zeros(),
        )

    def _run(self, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
        """The leaves of what the model returns, and their structure."""
        module, questions = self._call.module, self._questions
        with self._origins.following(), self._noting_zeros(), self._recorder.values.draws.running():
            if questions is None:
                with contextlib.nullcontext() if self._calls is None else keeping_numbers():
                    return pytree.tree_flatten(with_lists_joined(module(*args, **kwargs)))
            answers = questions.answers
            answers.outermost = sys._getframe()
            self._recorder.tracer.computes_sizes = True
            with (
                questions.answering(),
                answers.state.iterations.counting(),
                asking(answers.loops),
                forming(Forms(form_of, replace_form, note_prepended, row_gone_over)),
                iterating_tensors(),
            ):
                return pytree.tree_flatten(with_lists_joined(module(*args, **kwargs)))

    def _noting_zeros(self) -> contextlib.AbstractContextManager[None]:
        if not self._call.has_dynamic_sizes:
            return contextlib.nullcontext()
        return torch_shape_env.noting_zeros(self._fakes.sizes.env)

    def _inputs(self) -> tuple[list[Any], list[Leaf]]:
        """The leaves that the module is run on, and the graph's inputs."""
        call = self._call
        leaves, inputs = [], []
        names = input_names(call.module, call.args, call.kwargs)
        for (name, place), leaf in zip(names, pytree.tree_leaves((call.args, call.kwargs)), strict=True):
            fake, node = self._input(name, place, leaf)
            leaves.append(fake)
            inputs.append(Leaf(name, node, None if node is not None else leaf))
        return leaves, inputs

    def _input(self, name: str, place: str, leaf: Any) -> tuple[Any, Node | None]:
        call, recorder = self._call, self._recorder
        if isinstance(leaf, torch.Tensor):
            fake = self._fakes.input(leaf, call.axes_of(leaf), requires_grad=bool(call.gradients))
            node = torch_proxies.placeholder(recorder.graph, name)
            recorder.track(fake, node)
            return fake, node
        if type(leaf) is int and place in call.shapes.numbers:
            number = self._fakes.size(Axis(place, None, leaf))
            if isinstance(number, torch.SymInt):
                node = torch_proxies.placeholder(recorder.graph, name)
                recorder.track_number(number, node)
                return number, node
        if isinstance(leaf, _CONSTANT):
            return leaf, None
        raise ValueError(f"Unsupported input type {type(leaf)}.")

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
        inner = self._recording = outer.for_body()
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
            stack.enter_context(applying.applied(self._call.module))
            stack.enter_context(torch_overrides.making_nested_tensors())
            stack.enter_context(torch_overrides.asserting_valid_distributions())
            stack.enter_context(torch_transforms.around_transforms(begin, transforms.close))
            stack.enter_context(
                torch_transforms.around_backward(lambda: self._recording.recording(differentiated=True))
            )
            stack.enter_context(torch_hashed_sizes.hashed(self._calls is not None and self._calls.everywhere))
            if self._call.has_dynamic_sizes:
                stack.enter_context(shapes_of_earlier_runs(self._call.module))
            if self._calls is not None:
                stack.enter_context(self._calls.following())
                stack.enter_context(repeating_lists())
                stack.enter_context(torch_sizes_in_python.taken_by_python())
                if self._calls.everywhere:
                    stack.enter_context(applying.applied_to_sizes_in_python(self._call.module))
                stack.enter_context(following_sizes(self._call.module))
            else:
                stack.enter_context(following_sizes(None))
            stack.enter_context(recording_launches(lambda: self._recording))
            stack.enter_context(self._recorder.recording())
            yield


def _leaf(path: str, value: Any) -> Leaf:
    return Leaf(path, value) if isinstance(value, Node) else Leaf(path, None, value)
