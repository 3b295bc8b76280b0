"""One attempt at the capture of a model: what it assumes, and the graph that it gives."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.dropped_prints import dropping_prints
from opbridge.base.torch_private import torch_shape_env, torch_size_arithmetic, torch_sizes, torch_tracing
from opbridge.capture import fake_implementations, fixed_sizes, model_module
from opbridge.capture.advice import model_line
from opbridge.capture.autograd_functions import Functions
from opbridge.capture.config import CaptureConfig
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.exported_programs import from_exported_program, without_writes
from opbridge.capture.limits import CaptureLimits
from opbridge.capture.model_state import ModelState
from opbridge.capture.opaque_operators import Operators
from opbridge.capture.resolved_call import ResolvedCall
from opbridge.capture.side_effects import SideEffects
from opbridge.capture.size_constraints import constrain_sizes, contradictions
from opbridge.capture.tracer import FollowingCalls, rewritten, trace
from opbridge.capture.tracer.append_only_lists import Identities
from opbridge.capture.tracer.contiguous_copies import Copying
from opbridge.capture.tracer.triton_launches import has_launches
from opbridge.errors import CaptureError
from opbridge.graph.captured_graph import CapturedGraph
from opbridge.graph.decisions import Decision

__all__ = ["Attempt", "Captured", "SizesContradicted"]


@dataclass
class Captured:
    """The graph of an attempt that succeeded.

    Attributes:
        graph: The graph.
        rewrite: Gives the same graph without in-place operators, views of what is written to, and autocast.
        program: What torch.export gave, where that was used.
    """

    graph: CapturedGraph
    rewrite: Callable[[], CapturedGraph]
    program: ExportedProgram | None = None


class SizesContradicted(Exception):
    """The model does not take all the sizes that it is to take.

    Attributes:
        conditions: What it needs of them, each with the line that causes it where that is known.
        unrolls: Whether the capture has as many iterations of a loop as the example has; see
            `fixed_sizes.unrolls_a_loop`.
        of_operators: The conditions that operators require.
    """

    def __init__(
        self, conditions: list[Any], *, unrolls: bool = False, of_operators: frozenset[str] = frozenset()
    ) -> None:
        super().__init__("Constraints violated: " + "; ".join(text for text, _ in conditions))
        self.conditions, self.unrolls, self.of_operators = conditions, unrolls, of_operators


class Attempt:
    """One attempt at a capture: what it assumes, which the next attempt changes, and what is known after it.

    Attributes:
        model: What the user gave.
        module: The module to capture.
        args: Its positional example inputs.
        kwargs: Its keyword example inputs.
        shapes: Its dynamic shapes.
        functions: Classes of torch.autograd.Function that stay whole.
        operators: Operators that stay whole.
        thorough: Whether the strict mode is tried on a model whose Python asks for values of tensors.
        dynamic: Whether some dimensions may vary.
        general: Whether sizes 0 and 1 are treated like other sizes; torch makes them special by default.
        unchecked: Whether torch's checks of its own fake implementations are off.
        grad: Whether gradients are on.
        gradients: What requires gradients where it does in the model: "", "inputs", or "inputs and parameters".
        strategy: "direct", or the mode of torch.export: "non-strict" or "strict".
        with_one: The symbols of the last capture that may be 1, whatever the model asks.
        following: Whether all Python functions of the model's packages follow symbolic sizes, and numbers that data
            decides.
        example: The dynamic shapes of the example, while those of a larger one are used.
        other_side: The places of the sizes that are those on the other side of a question; see `other_sides`. They stay
            symbolic, however few sizes there are on that side.
        by_size: Whether this is one of several captures, each for sizes of its own; see `size_branches`.
        filling: Whether captures are made the model for both answers to questions about remainders, where they can be.
        joined: The conditions whose other side the graph is the model for as well.
        is_right_for_one: Whether the capture of the example, run for sizes of 1 that it leaves out, gave what the model
            gives wherever it was tried.
        is_same_elsewhere: Whether a capture for the other side of a question is the same graph.
        effects: What the run under way changes besides its results.
        notes: What a person should know.
        answers: The answers that the run under way gets to its questions about data.
        merged: What runs in the place of the model: all of its paths.
        looping: Whether a loop over a dynamic size is a decision, and not unrolled for the example.
        identities: Which identities matter to what the model does, as far as its captures have shown.
        limits: How many captures a model that decides by data may take.
        strict: Whether relations between dimensions that the dynamic shapes do not state are an error.
        copying: Whether `contiguous` copies where sizes decide whether it does.
        rewriting_by_running: Whether writes are taken out by torch's functionalisation alone; see `rewriting`.
        raising: The decisions after which the model raises an error for one answer; None where it decides nothing.
    """

    def __init__(
        self,
        call: ResolvedCall,
        module: torch.nn.Module,
        functions: Functions,
        config: CaptureConfig,
        limits: CaptureLimits,
    ) -> None:
        self.model = call.model
        self.module = module
        self.args = call.args
        self.kwargs = call.kwargs
        self.shapes = call.shapes
        self.functions = functions
        self.operators = Operators(functions.is_suspended)
        self.thorough = config.is_thorough
        self.dynamic = call.shapes.given is not None
        self.general = self.dynamic
        self.unchecked = False
        self.grad = False
        self.gradients = ""
        self.strategy = "direct"
        self.with_one: frozenset[str] = frozenset()
        self.following = False
        self.example: Shapes | None = None
        self.other_side: frozenset[str] = frozenset()
        self.by_size = False
        self.filling = False
        self.joined: frozenset[str] = frozenset()
        self.is_right_for_one = self.is_same_elsewhere = False
        self.effects: SideEffects | None = None
        self.notes: list[str] = []
        self.answers: Any = None
        self.merged: Any = None
        self.looping = False
        self.identities = Identities()
        self.limits = limits
        self.strict = config.strict
        self.rewriting_by_running = False
        self.copying = Copying()
        self.raising: tuple[Decision, ...] | None = None
        self._has_attempted = False
        self._calls: dict[bool, FollowingCalls] = {}

    @property
    def is_for_example(self) -> bool:
        """Whether classes or operators stay whole in it, of which the results are known for the example only."""
        return bool(self.functions.records or self.operators.calls)

    def start_again(self, strategy: str) -> None:
        """Takes back what earlier attempts have found out to assume, for another strategy."""
        self.strategy = strategy
        self.general = self.dynamic
        self.unchecked = False
        self.grad = False
        self.gradients = ""

    def capture_once(
        self,
        shapes: Any = None,
        dynamic: frozenset[str] = frozenset(),
        expected: CapturedGraph | None = None,
        *,
        again: bool = False,
    ) -> Captured:
        """The graph under the assumptions of now.

        The name of this function marks where the model's frames begin: see `model_line`.

        Args:
            shapes: Other dynamic shapes; the sizes that the capture is for are not compared with those asked for.
            dynamic: Places of sizes that are never fixed; see `trace`.
            expected: A graph that this one is compared with; see `trace`.
            again: Whether this repeats a direct capture with these shapes.

        Raises:
            SizesContradicted: The capture is for fewer sizes than were asked for.
            OutOfTime: The time limit is reached.
            Exception: Whatever the model or torch raises.
        """
        # The paths of a model are limited where they are explored, and what is made of them is never given up.
        self.limits.begin_one(self._purpose(again), is_limited=self.answers is None and self.merged is None)
        self.forget_failed_attempt()
        with (
            dropping_prints(self.limits.is_again),
            torch.set_grad_enabled(self.grad),
            torch_sizes.small_sizes_dynamic(self.general),
            fake_implementations.replacing_fake_implementations(),
            self.operators.whole() if self.strategy != "strict" else contextlib.nullcontext(),
            fake_implementations.without_checks(self.unchecked),
            torch_shape_env.recording_guard_stacks(model_line) if self.dynamic else contextlib.nullcontext(),
            torch_size_arithmetic.dividing_sizes_directly() if self.dynamic else contextlib.nullcontext(),
            torch_size_arithmetic.rounding_quotients_to_integers(),
            torch_tracing.in_onnx_export(),
        ):
            if self.strategy == "direct":
                return self._trace(shapes if again else None, dynamic, expected)
            program = self._program(self.shapes.given if shapes is None else shapes)
        if has_launches(program):
            raise CaptureError(
                "The model launches Triton kernels, which a program of torch.export does not show. Capture it with "
                'opbridge\'s own capture, capture="export".'
            )
        graph = from_exported_program(program)
        if shapes is None:
            self._check_sizes(graph)
        return Captured(graph, functools.partial(without_writes, program), program)

    def _purpose(self, again: bool) -> str:
        """What an execution of the model is for."""
        if self.strategy != "direct":
            return f"torch.export, {self.strategy} mode"
        if self.merged is not None:
            return "its paths joined in one graph"
        if self.answers is not None:
            return "another path of its data-dependent control flow"
        if self.by_size or self.other_side or again:
            return "other sizes, for the other branch of a condition on sizes"
        return "a larger example" if self.example is not None else "other assumptions on its sizes"

    def forget_failed_attempt(self) -> None:
        """Puts back what an attempt before left in the attributes of the model: tensors without values."""
        if self.effects is not None and self._has_attempted:
            self.effects.restore()
        self._has_attempted = True

    def _trace(self, shapes: Shapes | None, dynamic: frozenset[str], expected: CapturedGraph | None) -> Captured:
        self.with_one = frozenset()
        graph = trace(
            self.module,
            self.args,
            self.kwargs,
            shapes or self.shapes,
            general=self.general,
            gradients=self.gradients,
            dynamic=dynamic | self.other_side,
            expected=expected,
            calls=self._following_calls() if self.following or (shapes or self.shapes).axes else None,
            answers=self.answers,
            merged=self.merged,
            copying=self.copying,
        )
        if self.example is not None:
            fixed_sizes.forget_example(graph, self.example)
        if shapes is None:
            self._check_sizes(graph)
        return Captured(graph, functools.partial(_rewritten, graph, self.general, self.rewriting_by_running))

    def _following_calls(self) -> FollowingCalls:
        """The Python functions that follow symbolic numbers: those of the model's packages, or of its classes."""
        if self.following not in self._calls:
            self._calls[self.following] = FollowingCalls(self.module, everywhere=self.following)
        return self._calls[self.following]

    def _check_sizes(self, graph: CapturedGraph) -> None:
        """Compares the sizes that a capture is for with those that were asked for.

        Raises:
            SizesContradicted: They are fewer.
        """
        if not self.shapes.axes or self.other_side:
            return
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        contradicted = contradictions(graph, leaves, self.shapes.axes, 1 if self.general else 2)
        if contradicted:
            asked = dataclasses.replace(graph, conditions=tuple(each for each in graph.conditions if each.by_operator))
            of_operators = contradictions(asked, leaves, self.shapes.axes, 1 if self.general else 2)
            raise SizesContradicted(
                contradicted,
                unrolls=fixed_sizes.unrolls_a_loop(graph) or fixed_sizes.splits_by_a_size(graph),
                of_operators=frozenset(text for text, _ in of_operators),
            )

    def _program(self, shapes: Any) -> ExportedProgram:
        with (
            ModelState(self.module),  # torch.export runs the model on tensors in plain attributes as they are
            torch_tracing.keep_model_frames(__file__, model_module.__file__),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", message="The tensor attribute")  # said by a note of ours
            warnings.filterwarnings("ignore", module=r"torch\._dynamo")  # about how it traces
            return torch.export.export(
                self.module, self.args, self.kwargs, dynamic_shapes=shapes, strict=self.strategy == "strict"
            )

    def demands(self, graph: CapturedGraph, *, checked: bool = True) -> list[Any]:
        """The sizes that the capture is for, where these are not all that the dynamic shapes allow, as conditions.

        Args:
            graph: The capture; its ranges are narrowed.
            checked: See `constrain_sizes`.
        """
        if not self.shapes.axes:
            return []
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        least = 1 if self.general else 2
        return constrain_sizes(graph, leaves, self.shapes.axes, least, checked=checked, with_one=self.with_one)


def _rewritten(graph: CapturedGraph, general: bool, by_running: bool) -> CapturedGraph:
    """The same graph without writes, with no more asked about sizes than the capture did."""
    replacing = fake_implementations.replacing_fake_implementations(rewriting=True)
    with torch_sizes.small_sizes_dynamic(general), replacing:
        return rewritten(graph, by_running=by_running)
