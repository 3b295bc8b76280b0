"""The attempts at the capture of a model, and what is known after them."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.sources import raised_at
from opbridge.base.torch_private import torch_sizes, torch_tracing
from opbridge.capture import fake_implementations, fixed_sizes, model_module, other_sides
from opbridge.capture.advice import (
    advise,
    advise_eager,
    advise_others,
    advise_shapes,
    is_data_dependent,
    is_final,
    is_shape_violation,
    model_line,
    reason,
)
from opbridge.capture.advice_rules import REGISTER
from opbridge.capture.autograd_functions import Functions
from opbridge.capture.dynamic_shapes import Shapes
from opbridge.capture.exported_programs import from_exported_program, narrow_ranges, without_writes
from opbridge.capture.model_inputs import described
from opbridge.capture.model_state import ModelState
from opbridge.capture.opaque_operators import Operators
from opbridge.capture.side_effects import SideEffects, keeping_random_state
from opbridge.capture.size_constraints import constrain_sizes, contradictions
from opbridge.capture.small_sizes import conditions_of_empty_examples, include_small_sizes
from opbridge.capture.tracer import rewritten, trace
from opbridge.capture.training_mode import evaluating
from opbridge.errors import CaptureError, UsageError
from opbridge.graph.captured_graph import CapturedGraph

__all__ = ["Attempts", "Captured"]

_MOST_CONDITIONS = 5


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
    """

    def __init__(self, conditions: list[Any]) -> None:
        super().__init__("Constraints violated: " + "; ".join(text for text, _ in conditions))
        self.conditions = conditions


class Attempts:
    """The attempts at one capture, and what is known after them.

    Attributes:
        dynamic: Whether some dimensions may vary.
        general: Whether sizes 0 and 1 are treated like other sizes; torch makes them special by default.
        unchecked: Whether torch's checks of its own fake implementations are off.
        grad: Whether gradients are on.
        gradients: What requires gradients where it does in the model: "", "inputs", or "inputs and parameters".
        strategy: "direct", or the mode of torch.export: "non-strict" or "strict".
        with_one: The symbols of the last capture that may be 1, whatever the model asks.
        following: Whether all Python functions of the model's packages follow symbolic sizes.
        notes: What a person should know.
    """

    def __init__(
        self,
        model: Any,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        shapes: Shapes,
        functions: Functions,
        thorough: bool = True,
    ) -> None:
        self.model = model
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.shapes = shapes
        self.functions = functions
        self.operators = Operators(functions.is_suspended)
        self.thorough = thorough
        self.dynamic = shapes.given is not None
        self.general = self.dynamic
        self.unchecked = False
        self.grad = False
        self.gradients = ""
        self.strategy = "direct"
        self.with_one: frozenset[str] = frozenset()
        self.following = False
        self.notes: list[str] = []
        self._example: Shapes | None = None  # the dynamic shapes of the example, while those of a larger one are used
        self._effects: SideEffects | None = None
        self._has_attempted = False

    def graph(self) -> Captured:
        """The first attempt that succeeds.

        Raises:
            CaptureError: None does; the message is advice.
            UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
        """
        if self.shapes.needs_torch_export:
            return self.by_torch_export()
        try:
            return self._following_sizes()
        except UsageError:
            raise
        except Exception as error:
            first = error
        notes, self.notes = self.notes, []
        if not isinstance(first, CaptureError | SizesContradicted) and not is_data_dependent(first):
            self._start_again("non-strict")
            with contextlib.suppress(Exception):
                found = self._default()
                self.notes.append(f"captured by torch.export, as the direct capture stops: {reason(first)}")
                return found
        self._start_again("non-strict")
        self.notes = notes
        return self._explained(first)

    def _following_sizes(self) -> Captured:
        """The direct capture; where Python's own functions fix a size in it, one that keeps the size symbolic.

        1. All Python functions of the model's packages take symbolic sizes; see `tracer.number_calls`.
        2. The example is larger than it is, so that what the model keeps from an earlier run, such as a table and the
           size that it is for, is not for that size; see `fixed_sizes`.
        """
        found, failure = self._outcome()
        if not self.shapes.axes or self.shapes.verify is not None or self.functions.records or self.operators.calls:
            return _one_of(found, failure)
        demands = self._demands_of(found, failure)
        if fixed_sizes.is_by_python(failure, demands):
            found, failure = self._better(found, failure)
            demands = self._demands_of(found, failure)
        if fixed_sizes.limiting(demands, self.shapes.axes):
            larger = fixed_sizes.with_larger_example(self.shapes)
            if larger is not None:
                example = self.shapes
                self._example, self.shapes = example, larger
                try:
                    found, failure = self._better(found, failure)
                finally:
                    self._example, self.shapes = None, example
        return self._with_other_sides(found) if found is not None else _one_of(found, failure)

    def _with_other_sides(self, found: Captured) -> Captured:
        """A capture of the other sides of the model's questions about sizes, where it is the model on both sides."""
        example = shapes = self.shapes
        for _, sizes in list(other_sides.of_other_sides(found.graph, example)):
            tried = other_sides.with_sizes(shapes, sizes)
            kept = dict(vars(self))
            self._start_again("direct")
            self.notes, self.shapes, self._example = [], tried, example
            try:
                new, _ = self._outcome()
            finally:
                self.shapes, self._example = example, None
            if new is not None and self._is_model(new.graph) and other_sides.merged(found.graph, new.graph, example):
                found, shapes = new, tried
            else:
                vars(self).update(kept)
        return found

    def _is_model(self, graph: CapturedGraph) -> bool:
        """Whether a capture of other sizes gives what the model gives on the example, and on one of twice its sizes."""
        leaves, structure = pytree.tree_flatten((self.args, self.kwargs))
        if fixed_sizes.fixes_another_size(graph, leaves, self.shapes.axes):
            return False
        larger = other_sides.twice(leaves, self.shapes)
        return self._gives_same(graph, leaves, structure) is True and (
            self._gives_same(graph, larger, structure) is not False
        )

    def _gives_same(self, graph: CapturedGraph, leaves: list[Any], structure: Any) -> bool | None:
        """Whether a capture and the model give the same on some inputs; None where the model refuses them."""
        copies = [[each.clone() if isinstance(each, torch.Tensor) else each for each in leaves] for _ in range(2)]
        with keeping_random_state(), torch.set_grad_enabled(self.grad):
            try:
                with SideEffects(self.module), ModelState(self.module), torch_tracing.in_onnx_export():
                    args, kwargs = pytree.tree_unflatten(copies[0], structure)
                    expected = pytree.tree_leaves(self.module(*args, **kwargs))
            except Exception:  # a model raises anything for sizes that it does not take
                return None
            try:
                return other_sides.agree(expected, other_sides.results(graph, copies[1]))
            except Exception:  # an operator raises for these sizes
                return False

    def _outcome(self) -> tuple[Captured | None, Exception | None]:
        """What an attempt gives: the graph, or what it raises."""
        try:
            return self._default(), None
        except UsageError:
            raise
        except Exception as error:
            return None, error

    def _better(self, found: Captured | None, failure: Exception | None) -> tuple[Captured | None, Exception | None]:
        """What a further attempt gives where that leaves the sizes more freedom; else what there is."""
        kept = dict(vars(self))
        self._start_again("direct")
        self.following, self.notes = True, []
        new, error = self._outcome()
        axes = (self._example or self.shapes).axes
        before, after = self._demands_of(found, failure), self._demands_of(new, error)
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        is_larger = new is not None and (
            fixed_sizes.fixes_another_size(new.graph, leaves, axes)
            or (self._example is not None and fixed_sizes.leaves_out_example(after, axes))
        )
        if (
            new is not None
            and not is_larger
            and (
                found is None
                or len(after) < len(before)
                or len(fixed_sizes.limiting(after, axes, 4)) < len(fixed_sizes.limiting(before, axes))
            )
        ):
            return new, None
        vars(self).update(kept)
        is_said_best = isinstance(error, SizesContradicted) and self._example is None
        return found, error if found is None and is_said_best else failure

    def _demands_of(self, found: Captured | None, failure: Exception | None) -> list[Any]:
        """What an attempt needs of the sizes."""
        if found is None:
            return failure.conditions if isinstance(failure, SizesContradicted) else []
        kept = dict(found.graph.ranges)
        demands = self._demands(found.graph)
        found.graph.ranges.clear()
        found.graph.ranges.update(kept)
        return demands

    def by_torch_export(self) -> Captured:
        """The capture by torch.export.

        Raises:
            CaptureError: It fails; the message is advice.
            UsageError: The model fails by itself, or the inputs or dynamic shapes are of a wrong kind.
        """
        self._start_again("non-strict")
        try:
            return self._default()
        except UsageError:
            raise
        except Exception as error:
            return self._explained(error)

    def _start_again(self, strategy: str) -> None:
        self.strategy, self.general, self.unchecked, self.grad, self.gradients = (
            strategy,
            self.dynamic,
            False,
            False,
            "",
        )

    def _explained(self, error: Exception) -> Captured:
        """The strict mode where it may succeed; else advice."""
        if isinstance(error, CaptureError):
            # Ours, from inside of torch: without the way that it took there.
            line = raised_at(error)
            raise CaptureError(f"{error} (at {line})" if line else str(error)) from error.__cause__
        if str(error).startswith("Unsupported input type"):
            kind = str(error).partition("'")[2].partition("'")[0]
            raise UsageError(
                f"Among the inputs is a {kind}, which is no container of tensors that torch knows. Give tensors, "
                "numbers, strings and None, in tuples, lists, dicts and dataclasses, or register the class: "
                f"{REGISTER.format(short=kind.rpartition('.')[2])}."
            ) from error
        if self.operators.failure is not None:  # met in a function of TorchScript's
            raise CaptureError(str(self.operators.failure)) from error
        return self._strict(error)

    def demands(self, graph: CapturedGraph) -> list[Any]:
        """The sizes that the capture is for, where these are not all that the dynamic shapes allow, as conditions."""
        return self._demands(graph)

    @staticmethod
    def size_notes(demands: list[Any]) -> Iterator[str]:
        """The conditions for a person."""
        if demands:
            told = [f"{text} ({source})" if source else text for text, source in demands[:_MOST_CONDITIONS]]
            if len(demands) > len(told):
                told.append(f"{len(demands) - len(told)} more conditions hold")
            yield f"the capture is the model only where {', '.join(told)}; other sizes are not covered"

    def check_others(self, found: Captured) -> None:
        """Refuses a capture that does not take the further inputs that the user gave."""
        if self.shapes.verify is not None and found.program is not None:
            narrow_ranges(found.program, found.graph)
            try:
                self.shapes.verify(found.program)
            except Exception as error:
                raise CaptureError(advise_others(error, self._demands(found.graph))) from error

    @contextlib.contextmanager
    def keeping_functions(self) -> Iterator[None]:
        """Around the attempts: classes of torch.autograd.Function that have a `symbolic` stay whole.

        Raises:
            CaptureError: Such a class was defined while the model ran.
        """
        functions = self.functions
        with contextlib.ExitStack() as stack:
            if functions.classes:
                stack.enter_context(functions.whole())
                hook = self.module.register_forward_pre_hook(functions.start_run)
                stack.callback(hook.remove)
            yield
        traced_through = functions.traced_through()
        if traced_through:
            raise CaptureError(
                f"The class {traced_through[0].__qualname__}, whose symbolic is to be used, is defined while the model "
                "runs, and was traced through. Define it at the top of its module."
            )

    def _run_eagerly(self) -> None:
        """Runs the model itself, to see what such classes and operators return.

        Raises:
            UsageError: It fails.
        """
        self._forget_failed_attempt()
        with SideEffects(self.module), torch.random.fork_rng(devices=[]), self.functions.recording():
            with self.operators.recording():
                failure = self._eager_failure()
            if failure is not None and torch_tracing.asks_for_gradient(failure):
                grad, self.grad, self.functions.records = self.grad, True, []
                with self.operators.recording():
                    failure = self._eager_failure()
                self.grad = grad  # the capture finds that out too
        if failure is not None:
            with SideEffects(self.module), self.functions.suspended():
                failure = self._eager_failure() or failure  # without the interception of calls, which its words show
            raise UsageError(advise_eager(failure, described(self.args, self.kwargs))) from failure

    def _default(self) -> Captured:
        with SideEffects(self.module) as effects:
            self._effects = effects
            try:
                program = self._after_eager_run_if_needed()
            except Exception:  # torch.export raises what the model does
                if not (self.functions.inference.unknown or self.operators.unknown):
                    raise
                # The model does not do with sizes that are known only at run time.
                self.functions.use_example_sizes()
                self.operators.use_example_sizes()
                program = self._with_special_sizes_if_needed()
        self.notes += effects.notes()
        if self.strategy == "direct" and self.shapes.axes and not effects.drew:
            self._include_small_sizes(program.graph)
        return program

    def _include_small_sizes(self, graph: CapturedGraph) -> None:
        """Drops the conditions that exclude a size of 1, where the model does the same for it.

        Raises:
            SizesContradicted: A size is 0 in the example, and the model does something else for other sizes.
        """
        if self.functions.records or self.operators.calls:  # what they returned is known for the example only
            return

        def recapture(shapes: Shapes, dynamic: frozenset[str], expected: CapturedGraph | None) -> CapturedGraph:
            with SideEffects(self.module), keeping_random_state(), _keeping_attributes(self.functions, self.operators):
                return self._export(shapes, dynamic, expected, again=True).graph

        leaves = pytree.tree_leaves((self.args, self.kwargs))
        contradicted = conditions_of_empty_examples(graph, leaves, self.shapes, recapture)
        if contradicted:
            raise SizesContradicted(contradicted)
        self.with_one = include_small_sizes(graph, leaves, self.shapes, recapture)

    @property
    def needs_eager_run(self) -> bool:
        """Whether the capture needs to know first what the model's own run does."""
        return self.functions.unrecorded or self.operators.unrecorded

    def _after_eager_run_if_needed(self) -> Captured:
        """The capture; before it the model itself is run, where it calls classes or operators that stay whole."""
        if self.functions.may_call_one(self.model) and not self.functions.records:
            self._run_eagerly()
        try:
            return self._retried_after_eager_run()
        except UsageError:
            raise
        except Exception:
            if not self.operators.has_traced_operators():
                raise
            if self.operators.calls is None:
                self._run_eagerly()
            if not self.operators.has_traced_operators():
                raise
        self.operators.keep_all_whole()
        return self._retried_after_eager_run()

    def _retried_after_eager_run(self) -> Captured:
        try:
            return self._with_special_sizes_if_needed()
        except Exception:
            if not self.needs_eager_run:
                raise
        self._run_eagerly()
        return self._with_special_sizes_if_needed()

    def _with_special_sizes_if_needed(self) -> Captured:
        try:
            return self._export()
        except Exception as error:
            first = error
        if self.needs_eager_run:
            raise first
        if fake_implementations.is_raised_by_check(first) and not self.unchecked:
            self.unchecked = True
            return self._with_special_sizes_if_needed()
        if torch_tracing.asks_for_gradient(first):
            return self._with_gradients()
        if not self.dynamic or is_data_dependent(first):
            raise first
        self.general = False
        try:
            return self._export()
        except Exception as error:
            # torch fixes small sizes of its own accord here; what it then says is not the model's doing.
            raise (first if self.shapes.has_small_sizes else error) from None

    def _with_gradients(self) -> Captured:
        """The capture of a model that computes gradients, with as few of its tensors as possible requiring them."""
        self.grad = True
        self.notes.append("the model computes gradients, so it was captured with gradients on")
        if self.strategy != "direct":
            return self._export()
        self.gradients = "inputs"
        try:
            return self._export()
        except Exception as error:
            if not torch_tracing.asks_for_gradient(error):
                raise
        self.gradients = "inputs and parameters"
        return self._export()

    def _strict(self, error: Exception) -> Captured:
        if is_shape_violation(error):
            demands = error.conditions if isinstance(error, SizesContradicted) else self._violated()
            raise CaptureError(advise_shapes(error, demands)) from error
        with (
            SideEffects(self.module) as effects,
            self.functions.suspended(),
        ):  # strict mode gives no chance to observe them
            failure = self._eager_failure()
            if failure is not None and torch_tracing.asks_for_gradient(failure):
                self.grad = True
                failure = self._eager_failure()
        if failure is not None:
            raise UsageError(advise_eager(failure, described(self.args, self.kwargs))) from failure
        futile = is_data_dependent(error) and not self.thorough
        # The strict mode would trace through the functions, and does not get what the operators return.
        if is_final(error) or futile or self.functions.records or self.operators.calls:
            raise CaptureError(advise(error)) from error
        self.general, self.strategy = self.dynamic, "strict"
        try:
            program = self._export()
        except Exception:
            mode = is_data_dependent(error) and self._is_the_mode()
            raise CaptureError(advise(error, mode=mode)) from error
        self.notes.append(f"captured with torch.export's strict mode, as its default mode stops: {reason(error)}")
        self.notes += effects.notes()
        return program

    def _export(
        self,
        shapes: Any = None,
        dynamic: frozenset[str] = frozenset(),
        expected: CapturedGraph | None = None,
        *,
        again: bool = False,
    ) -> Captured:
        # The name of this function marks where the model's frames begin: see `model_line`.
        self._forget_failed_attempt()
        with (
            torch.set_grad_enabled(self.grad),
            torch_sizes.small_sizes_dynamic(self.general),
            fake_implementations.replacing_fake_implementations(),
            self.operators.whole() if self.strategy != "strict" else contextlib.nullcontext(),
            fake_implementations.without_checks(self.unchecked),
            torch_sizes.recording_guard_stacks(model_line) if self.dynamic else contextlib.nullcontext(),
            torch_tracing.in_onnx_export(),
        ):
            if self.strategy == "direct":
                return self._trace(shapes if again else None, dynamic, expected)
            program = self._program(self.shapes.given if shapes is None else shapes)
        graph = from_exported_program(program)
        if shapes is None:
            self._check_sizes(graph)
        return Captured(graph, functools.partial(without_writes, program), program)

    def _forget_failed_attempt(self) -> None:
        """Puts back what an attempt before left in the attributes of the model: tensors without values."""
        if self._effects is not None and self._has_attempted:
            self._effects.restore()
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
            dynamic=dynamic,
            expected=expected,
            thorough=self.following,
        )
        if self._example is not None:
            fixed_sizes.forget_example(graph, self._example)
        if shapes is None:
            self._check_sizes(graph)
        return Captured(graph, functools.partial(_rewritten, graph, self.general))

    def _check_sizes(self, graph: CapturedGraph) -> None:
        """Compares the sizes that a capture is for with those that were asked for.

        Raises:
            SizesContradicted: They are fewer.
        """
        if not self.shapes.axes:
            return
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        contradicted = contradictions(graph, leaves, self.shapes.axes, 1 if self.general else 2)
        if contradicted:
            raise SizesContradicted(contradicted)

    def _program(self, shapes: Any) -> ExportedProgram:
        with (
            ModelState(self.module),  # torch.export runs the model on tensors in plain attributes as they are
            torch_tracing.keep_model_frames(__file__, model_module.__file__),
            torch_tracing.mute_export(),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", message="The tensor attribute")  # said by a note of ours
            warnings.filterwarnings("ignore", module=r"torch\._dynamo")  # about how it traces
            return torch.export.export(
                self.module, self.args, self.kwargs, dynamic_shapes=shapes, strict=self.strategy == "strict"
            )

    def _demands(self, graph: CapturedGraph, *, checked: bool = True) -> list[Any]:
        if not self.shapes.axes:
            return []
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        least = 1 if self.general else 2
        return constrain_sizes(graph, leaves, self.shapes.axes, least, checked=checked, with_one=self.with_one)

    def _violated(self) -> list[Any]:
        """What the model needs of its sizes, found by leaving every dimension to torch."""
        if self.shapes.relaxed is None:
            return []
        self.general = True  # says it in the fewest conditions
        try:
            return self._demands(self._export(self.shapes.relaxed).graph, checked=False)
        except Exception:
            return []

    def _is_the_mode(self) -> bool:
        """Whether the model would do in evaluation mode."""
        if not self.module.training:
            return False
        self.strategy = "direct"
        try:
            with evaluating(self.module), SideEffects(self.module):
                self._export()
        except Exception:
            return False
        return True

    def _eager_failure(self) -> Exception | None:
        """What the model raises without an export, on copies of its inputs and buffers; its state is restored."""
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (self.args, self.kwargs))
        self.functions.note_inputs(pytree.tree_leaves((args, kwargs)))
        buffers = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        try:
            with (
                ModelState(self.module),
                torch.set_grad_enabled(self.grad),
                torch_tracing.in_onnx_export(self.functions.recording_now),
            ):
                torch.func.functional_call(self.module, buffers, args, kwargs)
        except Exception as error:
            return error
        return None


def _one_of(found: Captured | None, failure: Exception | None) -> Captured:
    """The graph of an attempt, or what it raised."""
    if failure is not None:
        raise failure
    assert found is not None
    return found


def _rewritten(graph: CapturedGraph, general: bool) -> CapturedGraph:
    """The same graph without writes, with no more asked about sizes than the capture did."""
    with torch_sizes.small_sizes_dynamic(general), fake_implementations.replacing_fake_implementations():
        return rewritten(graph)


@contextlib.contextmanager
def _keeping_attributes(*objects: Any) -> Iterator[None]:
    """Within this context, objects may set their attributes, which are put back."""
    kept = [dict(vars(each)) for each in objects]
    try:
        yield
    finally:
        for each, attributes in zip(objects, kept, strict=True):
            vars(each).clear()
            vars(each).update(attributes)
