"""The runs of a verification: a model in PyTorch and its file in a runtime, on several sets of inputs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from opbridge.capture import capture as capture_model
from opbridge.capture.device_errors import device_advice
from opbridge.errors import CaptureError, UsageError
from opbridge.model_support import caches
from opbridge.request.verification_config import VerificationConfig
from opbridge.runtimes import known
from opbridge.verification.branch_inputs import Inputs, branch_inputs
from opbridge.verification.causes import Mismatch, search_difference
from opbridge.verification.compared_runs import ComparedRuns, outside
from opbridge.verification.correspondence import Correspondence
from opbridge.verification.difference import Search
from opbridge.verification.difference_search import DifferenceSearch
from opbridge.verification.domains import Domain
from opbridge.verification.eager import Eager, explain
from opbridge.verification.extremes import inputs_at_ends
from opbridge.verification.fresh_inputs import fresh_inputs, kind_of
from opbridge.verification.given_inputs import Call, Calls, fitted, input_sets
from opbridge.verification.intermediate import Unusable
from opbridge.verification.invented import Invention
from opbridge.verification.model_outputs import ModelOutputs
from opbridge.verification.replay import Replay, has_nodes_of_operators, replay
from opbridge.verification.report import Run, Verification
from opbridge.verification.unchecked_operators import checked
from opbridge.verification.uncovered_sizes import is_small, uncovered_sizes
from opbridge.verification.unproven import constants, uncompared

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.verification.dynamic_sizes import DynamicSizes

__all__ = ["Verifier"]

_SIZES_SEED = 1000
"""The offset of the seeds for inputs of other sizes; the seeds for samples are below."""

_MOST_UNCOVERED = 6
"""At how many sizes that the capture leaves out a file is compared, without those that the model refuses."""

_MOST_SECONDS = 20.0
"""How long, in processor time, inputs are searched for that take the branches of decisions which no run has taken."""


class Verifier:
    """One verification."""

    def __init__(
        self,
        name: str,
        loaded: Any,
        load: Callable[[], ir.Model],
        model: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        capture: Capture | None,
        own_weights: bool,
        options: VerificationConfig,
        deciding: Capture | None = None,
    ) -> None:
        """Matches the example inputs with the file.

        Args:
            name: The file's name in messages.
            loaded: A session with the file.
            load: Loads the ONNX model.
            model: A module, a function or an ExportedProgram.
            args: The positional example inputs.
            kwargs: The keyword example inputs.
            capture: The capture that the file was made from, or that tells which dimensions may vary; None if unknown.
            own_weights: Whether the weights in the file are known to be those of the capture.
            options: The options of the verification.
            deciding: Where `capture` is not known, a capture that tells the decisions of the model.

        Raises:
            UsageError: The example inputs do not fit the file.
        """
        self._name, self._session, self._load = name, loaded, load
        self._capture, self._own_weights, self._options = capture, own_weights, options
        self._deciding = deciding
        if capture is not None and set(capture.kwargs) == set(kwargs):
            kwargs = {key: kwargs[key] for key in capture.kwargs}  # the order of the file's inputs
        self._args, self._kwargs = args, kwargs = caches.of_all_tokens((args, kwargs))
        self._matching = Correspondence(name, loaded, model, args, kwargs, capture)
        self._model, self._eager = model, Eager(model, self._matching.lists)
        outputs = ModelOutputs(model, self._eager, self._matching.expected, options.seed)
        self._compared = ComparedRuns(
            loaded,
            self._matching,
            self._eager,
            outputs,
            options,
            deciding=capture or deciding,
            given=(args, kwargs),
            load=self._readable_model,
            replay=self._replay,
        )
        self._search = DifferenceSearch(self._compared, self._matching, self._eager, capture, self._find, options)

    def run(self, start: float) -> Verification:
        """Makes all runs.

        Args:
            start: The `time.perf_counter` at which the verification began.

        Raises:
            UsageError: The model itself raises on the example inputs.
        """
        compared = self._compared
        self._run_example()
        kept: tuple[str, ...] = ()
        recorded = self._options.inputs if isinstance(self._options.inputs, Calls) else None
        if self._options.inputs is not None:
            self._run_given()
        if self._options.inputs is None or recorded is not None:
            with checked(self._capture or self._deciding):
                kept = self._run_fresh(recorded.calls if recorded is not None else ())
                self._run_other_sizes()
                self._run_ends()
                self._run_branches()
                self._run_values()
        if self._options.inputs is None:  # recorded calls ask for sizes such as theirs, and not for all
            self._run_uncovered_sizes()
        compared.end()
        difference = self._search.closer(self._args, self._kwargs) or self._search.of_mismatch()
        if compared.mismatch is None:
            compared.notes.extend(compared.inventions.notes(self._search.place))
        self._note_unproven()
        seconds = time.perf_counter() - start
        return Verification(
            self._name,
            known.label(self._options.runtime),
            tuple(compared.runs),
            difference,
            kept,
            tuple(compared.notes),
            seconds,
            self._domains() if compared.mismatch is not None else (),
            compared.branches.reports({run.label for run in compared.runs if run.left_out is None}),
        )

    def _domains(self) -> tuple[tuple[str, str], ...]:
        """The inputs whose fresh values were drawn from a domain, and which."""
        matching = self._matching
        named = ((name, matching.leaves[at]) for name, at in zip(matching.names, matching.positions, strict=True))
        kinds = ((name, kind_of(leaf)) for name, leaf in named if isinstance(leaf, torch.Tensor))
        return tuple((name, kind.name) for name, kind in kinds if isinstance(kind, Domain))

    def _run_example(self) -> None:
        try:
            leaves = self._eager.run(self._args, self._kwargs, self._options.seed)
        except Exception as error:
            raise UsageError(
                f"The model itself fails on the example inputs, so {self._name} could not be verified: "
                f"{explain(error)}. {device_advice(error) or 'Give inputs that the model accepts.'}"
            ) from error
        expected = self._matching.expected(leaves)
        self._compared.begin(expected)
        self._compared.compare("example", "example", self._args, self._kwargs, expected)

    def _run_fresh(self, recorded: Sequence[Call]) -> tuple[str, ...]:
        """Runs on fresh values like the example's, or each like those of a recorded call and in its shapes.

        Returns:
            The names of the inputs that keep their values.
        """
        matching = self._matching
        tensors = [
            (name, position)
            for name, position in zip(matching.names, matching.positions, strict=True)
            if isinstance(matching.leaves[position], torch.Tensor)
        ]
        kept = tuple(
            name
            for name, position in tensors
            if position in matching.fixed or kind_of(matching.leaves[position]).is_kept
        )
        if len(kept) < len(tensors):
            for sample in range(1, self._options.samples + 1):
                seed = self._options.seed + sample
                args, kwargs = self._like_recorded(recorded, sample) or (self._args, self._kwargs)
                args, kwargs = fresh_inputs(args, kwargs, seed, kept=matching.fixed)
                self._compared.attempt_fresh("fresh", f"fresh {sample}", args, kwargs)
        elif tensors and self._options.samples:
            self._compared.notes.append(
                "no random inputs were tried, because every example input is constant or sorted; give an example "
                "with realistic values"
            )
        return kept

    def _like_recorded(self, recorded: Sequence[Call], sample: int) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The inputs of a recorded call, another one for each sample; None where it does not fit, or there is none."""
        if not recorded:
            return None
        call = recorded[(sample - 1) % len(recorded)]
        try:
            return fitted(call, call.label, self._matching, self._args, self._kwargs)
        except UsageError:
            return None

    def _run_given(self) -> None:
        """Runs on the user's own inputs, which have the sizes to be tried too.

        Raises:
            UsageError: They do not fit the file, or the model raises on them.
        """
        compared = self._compared
        shapes = {_shapes_of(self._matching.leaves)}
        for label, given in input_sets(self._options.inputs, self._options.samples):
            try:
                args, kwargs = fitted(given, label, self._matching, self._args, self._kwargs)
            except UsageError as error:
                if not isinstance(given, Call):
                    raise
                compared.runs.append(Run("given", label, left_out=str(error)))
                continue
            shapes.add(_shapes_of(pytree.tree_leaves((args, kwargs))))
            try:
                leaves = self._eager.run(args, kwargs, self._options.seed)
            except Exception as error:
                raise UsageError(
                    f"The model itself fails on {label}: {explain(error)}. "
                    f"{device_advice(error) or 'Give inputs that the model accepts.'}"
                ) from error
            compared.compare("given", label, args, kwargs, self._matching.expected(leaves))
        if isinstance(self._options.inputs, Calls):
            return
        if len(shapes) == 1 and self._matching.dynamic_sizes().groups():
            compared.notes.append(
                "no other sizes of dynamic dimensions were tried, because all given inputs have the sizes of "
                "the example"
            )

    def _run_other_sizes(self) -> None:
        compared = self._compared
        sizes = self._matching.dynamic_sizes()
        for number, group in enumerate(sizes.groups()):
            for position, chosen in enumerate(group):
                seed = self._options.seed + _SIZES_SEED + 10 * number + position
                condition = sizes.broken_condition(chosen)
                if condition is not None and (1 not in chosen.values() or not sizes.exist(chosen)):
                    compared.runs.append(Run("sizes", sizes.label(chosen), left_out=outside(condition)))
                    continue
                if number == 2 and not is_small(chosen, sizes):
                    continue
                is_accepted = compared.attempt_fresh(
                    "sizes", sizes.label(chosen), *self._inputs_of(sizes, chosen, seed)
                )
                if condition is not None:
                    is_accepted = compared.keep_if_ok(condition)
                elif is_accepted:
                    is_accepted = compared.keep_if_decided()
                if position == 0 and is_accepted:
                    break

    def _inputs_of(
        self, sizes: DynamicSizes, chosen: Mapping[str, int], seed: int
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh inputs of other sizes."""
        shapes, numbers = sizes.shapes(chosen), sizes.values(chosen)
        kept = self._matching.fixed - shapes.keys()
        return fresh_inputs(self._args, self._kwargs, seed, shapes=shapes, numbers=numbers, kept=kept)

    def _run_ends(self) -> None:
        """Runs on the ends of dtypes, which no fresh values have; see `extremes`."""
        compared = self._compared
        if not self._options.samples or not all(run.ok for run in compared.runs):
            return
        matching, given = self._matching, (self._args, self._kwargs)
        names = dict(zip(matching.positions, matching.names, strict=True))
        for ends in inputs_at_ends(self._capture or self._deciding, *given, names=names, kept=matching.fixed):
            is_exact = ends.is_exact and self._options.in_onnxruntime
            is_accepted = compared.attempt("ends", ends.label, ends.args, ends.kwargs, is_exact=is_exact)
            if is_accepted and not is_exact and compared.keep_if_decided() and not compared.runs[-1].ok:
                at = " and ".join(f"'{names[position]}'" for position in ends.positions)
                remedy = "If the model is to see such values, give them in inputs=: the difference is then an error."
                invention = Invention(f"{at} is at the {ends.label}", remedy, ends.positions[0])
                expected = [] if compared.mismatch is None else compared.mismatch.expected
                compared.leave_out_by(invention, ends.args, ends.kwargs, expected)
            if compared.runs[-1].left_out is not None and not compared.runs[-1].invented:
                compared.runs.pop()  # the model takes no such inputs, which nobody asked for
            if not compared.runs[-1].ok:
                return

    def _run_branches(self) -> None:
        """Runs on inputs that take branches of decisions which no run before has taken."""
        compared = self._compared
        if not self._options.samples or not compared.branches.untaken:
            return
        start = time.process_time()
        for label, args, kwargs in self._unlike_example():
            if not compared.branches.untaken or time.process_time() - start > _MOST_SECONDS:
                return
            if compared.branches.found_by(args, kwargs):
                compared.attempt("branches", label, args, kwargs)
                run = compared.runs[-1]
                if run.left_out is not None and (not run.invented or compared.inventions.has_several(run.invented)):
                    # The model takes no such inputs, which nobody asked for, or they tell nothing new.
                    compared.runs.pop()

    def _unlike_example(self) -> Iterator[Inputs]:
        """Inputs that may take another branch than the example does, or give outputs other sizes."""
        matching = self._matching
        names = dict(zip(matching.positions, matching.names, strict=True))
        given = (self._args, self._kwargs, self._options.seed)
        return branch_inputs(*given, kept=matching.fixed, sizes=matching.dynamic_sizes(), names=names)

    def _run_values(self) -> None:
        """Runs on inputs for which outputs have numbers that had none in any run before: were empty, or NaN."""
        compared = self._compared
        wanted, start = compared.without_numbers(), time.process_time()
        if not self._options.samples or not wanted or not all(run.ok for run in compared.runs):
            return
        doubtful: Run | None = None
        for label, args, kwargs in self._unlike_example():
            if not wanted or time.process_time() - start > _MOST_SECONDS:
                break
            if not compared.has_numbers(wanted, args, kwargs):
                continue
            compared.attempt("values", label, args, kwargs)
            compared.keep_if_decided()
            run = compared.runs[-1]
            if not run.ok:
                return
            if run.left_out is not None or any(each.forgiven for each in run.comparisons):
                # The model takes no such inputs, or few of PyTorch's digits are right there: others may prove more.
                doubtful = doubtful or (run if run.left_out is None else None)
                compared.runs.pop()
                compared.branches.forget(label)
            wanted &= compared.without_numbers()
        if wanted and doubtful is not None:
            compared.runs.append(doubtful)

    def _run_uncovered_sizes(self) -> None:
        """Runs at sizes that the capture leaves out although the user did not; see `uncovered_sizes`."""
        compared = self._compared
        if self._capture is None or not self._options.complete or compared.mismatch is not None:
            return
        sizes = self._matching.dynamic_sizes()
        count = 0
        for number, beyond in enumerate(uncovered_sizes(self._capture, sizes)):
            seed = self._options.seed + 2 * _SIZES_SEED + number
            compared.attempt("sizes", sizes.label(beyond.sizes), *self._inputs_of(sizes, beyond.sizes, seed))
            run = compared.runs[-1]
            compared.runs[-1] = dataclasses.replace(
                run,
                condition=beyond.condition,
                place=beyond.place,
                stated=beyond.stated,
                no_loop=self._capture.no_loop,
            )
            count += run.left_out is None
            if not run.ok or count == _MOST_UNCOVERED:
                return

    def _find(self, mismatch: Mismatch, wrong: Mapping[int, torch.Tensor] | None, check_weights: bool) -> Search:
        """Searches for the first operator that differs in a run; see `search_difference`."""
        check_weights = check_weights and not self._own_weights
        given = (self._load, self._model, self._capture, mismatch, wrong, self._options)
        return search_difference(*given, check_weights=check_weights)

    def _readable_model(self) -> ir.Model | None:
        try:
            return self._load()
        except Exception:  # the message then lacks the name of the operator
            return None

    def _note_unproven(self) -> None:
        """Notes outputs of which the runs show little or nothing."""
        compared = self._compared
        if compared.mismatch is not None:
            return
        names, matching = self._matching.output_names, self._matching
        if sum(run.left_out is None for run in compared.runs) > 1:
            asked = [
                (name, value)
                for at, (name, value) in enumerate(zip(names, compared.constants, strict=True))
                if not matching.is_constant_number(at)
            ]
            compared.notes.extend(constants(asked))
        found = [names[at] for at in sorted(compared.without_numbers())]
        compared.notes.extend(uncompared(found, is_searched=self._options.inputs is None))

    def _replay(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Replay | None:
        """The captured graph with the runtime's decisions; None where there is nothing to decide, or no graph."""
        model = self._readable_model() if self._options.in_onnxruntime else None
        if model is None or not has_nodes_of_operators(model):
            return None
        if self._capture is not None and self._capture.mode == "trace":
            return None
        try:
            # A new capture has the static sizes of these inputs.
            capture = self._capture or capture_model(self._model, args, kwargs)
            return replay(model, capture, args, kwargs, self._options.isolated)
        except (CaptureError, Unusable):
            return None


def _shapes_of(leaves: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
