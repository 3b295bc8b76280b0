"""The runs of a verification: a model in PyTorch and its file in a runtime, on several sets of inputs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from opbridge.base.wording import counted
from opbridge.capture import capture as capture_model
from opbridge.capture.device_errors import device_advice
from opbridge.errors import CaptureError, UsageError
from opbridge.model_support import caches
from opbridge.request.verification_config import VerificationConfig
from opbridge.runtimes import known
from opbridge.runtimes.child import ProcessEnded
from opbridge.verification import exchange, small_differences
from opbridge.verification.branch_inputs import Inputs, branch_inputs
from opbridge.verification.causes import Mismatch, search_difference
from opbridge.verification.compare import compare, incomparable
from opbridge.verification.correspondence import Correspondence, OtherOutputs
from opbridge.verification.difference import FirstDifference
from opbridge.verification.domains import Domain
from opbridge.verification.eager import Eager, explain
from opbridge.verification.ended_runs import EndedRuns
from opbridge.verification.exercised_branches import ExercisedBranches
from opbridge.verification.extremes import inputs_at_ends
from opbridge.verification.fresh_inputs import fresh_inputs, kind_of
from opbridge.verification.given_inputs import Call, Calls, fitted, input_sets
from opbridge.verification.intermediate import Unusable
from opbridge.verification.invented import Example, Invention, Results
from opbridge.verification.inventions import Inventions
from opbridge.verification.judge import Judge, is_suspicious
from opbridge.verification.model_outputs import ModelOutputs
from opbridge.verification.other_lines import computes_otherwise
from opbridge.verification.random_outputs import RandomOutputs
from opbridge.verification.replay import Replay, has_nodes_of_operators, replay
from opbridge.verification.report import Run, Verification
from opbridge.verification.runtime_failure import locate_failure
from opbridge.verification.unchecked_operators import checked
from opbridge.verification.uncovered_sizes import is_small, uncovered_sizes
from opbridge.verification.unproven import constants, gives_numbers, uncompared, without_numbers

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.verification.dynamic_sizes import DynamicSizes

__all__ = ["Verifier", "runtime_label"]

_ASKED_FOR = ("example", "given")
"""The runs on inputs of the user's."""

_SIZES_SEED = 1000
"""The offset of the seeds for inputs of other sizes; the seeds for samples are below."""

_MOST_UNCOVERED = 6
"""At how many sizes that the capture leaves out a file is compared, without those that the model refuses."""

_OWN = ("fresh", "sizes", "branches", "values")
"""The kinds of runs whose inputs opbridge makes up."""

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
        self._is_exact = False  # whether no difference is allowed in the run that is made
        if capture is not None and set(capture.kwargs) == set(kwargs):
            kwargs = {key: kwargs[key] for key in capture.kwargs}  # the order of the file's inputs
        self._args, self._kwargs = args, kwargs = caches.of_all_tokens((args, kwargs))
        self._matching = Correspondence(name, loaded, model, args, kwargs, capture)
        self._model, self._eager = model, Eager(model, self._matching.lists)
        self._runs: list[Run] = []
        self._notes: list[str] = []
        self._mismatch: Mismatch | None = None
        outputs = ModelOutputs(model, self._eager, self._matching.expected, options.seed)
        self._judge = Judge(outputs, self._replay, options.seed)
        self._random = RandomOutputs(outputs, args, kwargs, options.seed)
        self._branches = ExercisedBranches(capture or deciding, options.seed)
        self._inventions = Inventions(self._example(outputs), self._branches)
        self._ended = EndedRuns(runtime_label(options.runtime), self._matching)
        # For each output, the value that all of its elements had in all runs so far; None where there were several.
        self._constants: list[float | None] = []

    def run(self, start: float) -> Verification:
        """Makes all runs.

        Args:
            start: The `time.perf_counter` at which the verification began.

        Raises:
            UsageError: The model itself raises on the example inputs.
        """
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
        self._runs = self._random.left_out_of_all(self._runs)
        if note := getattr(self._session, "note", ""):
            self._notes.append(note)
        self._notes.extend((*self._ended.notes(), *self._judge.notes))
        difference = self._look_closer() or self._find_difference()
        if self._mismatch is None:
            self._notes.extend(self._inventions.notes(self._place))
        self._note_unproven()
        seconds = time.perf_counter() - start
        return Verification(
            self._name,
            runtime_label(self._options.runtime),
            tuple(self._runs),
            difference,
            kept,
            tuple(self._notes),
            seconds,
            self._domains() if self._mismatch is not None else (),
            self._branches.reports({run.label for run in self._runs if run.left_out is None}),
        )

    def _example(self, outputs: ModelOutputs) -> Example:
        matching = self._matching
        structure = pytree.tree_structure((self._args, self._kwargs))

        def run(leaves: Sequence[Any]) -> list[torch.Tensor]:
            return outputs(*pytree.tree_unflatten(leaves, structure))

        names = dict(zip(matching.positions, matching.names, strict=True))
        return Example(matching.leaves, names, matching.dynamic_sizes(), run)

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
        self._precisions = self._matching.precisions(expected)
        self._constants = [float(each.reshape(-1)[0].real) if each.numel() else None for each in expected]
        self._compare("example", "example", self._args, self._kwargs, expected)

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
                self._try_fresh("fresh", f"fresh {sample}", args, kwargs)
        elif tensors and self._options.samples:
            self._notes.append(
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
        shapes = {_shapes_of(self._matching.leaves)}
        for label, given in input_sets(self._options.inputs, self._options.samples):
            try:
                args, kwargs = fitted(given, label, self._matching, self._args, self._kwargs)
            except UsageError as error:
                if not isinstance(given, Call):
                    raise
                self._runs.append(Run("given", label, left_out=str(error)))
                continue
            shapes.add(_shapes_of(pytree.tree_leaves((args, kwargs))))
            try:
                leaves = self._eager.run(args, kwargs, self._options.seed)
            except Exception as error:
                raise UsageError(
                    f"The model itself fails on {label}: {explain(error)}. "
                    f"{device_advice(error) or 'Give inputs that the model accepts.'}"
                ) from error
            self._compare("given", label, args, kwargs, self._matching.expected(leaves))
        if isinstance(self._options.inputs, Calls):
            return
        if len(shapes) == 1 and self._matching.dynamic_sizes().groups():
            self._notes.append(
                "no other sizes of dynamic dimensions were tried, because all given inputs have the sizes of "
                "the example"
            )

    def _run_other_sizes(self) -> None:
        sizes = self._matching.dynamic_sizes()
        for number, group in enumerate(sizes.groups()):
            for position, chosen in enumerate(group):
                seed = self._options.seed + _SIZES_SEED + 10 * number + position
                condition = sizes.broken_condition(chosen)
                if condition is not None and (1 not in chosen.values() or not sizes.exist(chosen)):
                    self._runs.append(Run("sizes", sizes.label(chosen), left_out=_outside(condition)))
                    continue
                if number == 2 and not is_small(chosen, sizes):
                    continue
                is_accepted = self._try_fresh("sizes", sizes.label(chosen), *self._inputs_of(sizes, chosen, seed))
                if condition is not None:
                    is_accepted = self._keep_if_ok(condition)
                elif is_accepted:
                    is_accepted = self._keep_if_decided()
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
        if not self._options.samples or not all(run.ok for run in self._runs):
            return
        matching, given = self._matching, (self._args, self._kwargs)
        names = dict(zip(matching.positions, matching.names, strict=True))
        for ends in inputs_at_ends(self._capture or self._deciding, *given, names=names, kept=matching.fixed):
            self._is_exact = ends.is_exact and self._options.in_onnxruntime
            is_accepted = self._try("ends", ends.label, ends.args, ends.kwargs)
            counts, self._is_exact = self._is_exact, False
            if is_accepted and not counts and self._keep_if_decided() and not self._runs[-1].ok:
                at = " and ".join(f"'{names[position]}'" for position in ends.positions)
                remedy = "If the model is to see such values, give them in inputs=: the difference is then an error."
                invention = Invention(f"{at} is at the {ends.label}", remedy, ends.positions[0])
                expected = [] if self._mismatch is None else self._mismatch.expected
                self._leave_out_by(invention, ends.args, ends.kwargs, expected)
            if self._runs[-1].left_out is not None and not self._runs[-1].invented:
                self._runs.pop()  # the model takes no such inputs, which nobody asked for
            if not self._runs[-1].ok:
                return

    def _run_branches(self) -> None:
        """Runs on inputs that take branches of decisions which no run before has taken."""
        if not self._options.samples or not self._branches.untaken:
            return
        start = time.process_time()
        for label, args, kwargs in self._unlike_example():
            if not self._branches.untaken or time.process_time() - start > _MOST_SECONDS:
                return
            if self._branches.found_by(args, kwargs):
                self._try("branches", label, args, kwargs)
                run = self._runs[-1]
                if run.left_out is not None and (not run.invented or self._inventions.has_several(run.invented)):
                    self._runs.pop()  # the model takes no such inputs, which nobody asked for, or they tell nothing new

    def _unlike_example(self) -> Iterator[Inputs]:
        """Inputs that may take another branch than the example does, or give outputs other sizes."""
        matching = self._matching
        names = dict(zip(matching.positions, matching.names, strict=True))
        given = (self._args, self._kwargs, self._options.seed)
        return branch_inputs(*given, kept=matching.fixed, sizes=matching.dynamic_sizes(), names=names)

    def _run_values(self) -> None:
        """Runs on inputs for which outputs have numbers that had none in any run before: were empty, or NaN."""
        wanted, start = self._without_numbers(), time.process_time()
        if not self._options.samples or not wanted or not all(run.ok for run in self._runs):
            return
        doubtful: Run | None = None
        for label, args, kwargs in self._unlike_example():
            if not wanted or time.process_time() - start > _MOST_SECONDS:
                break
            if not self._has_numbers(wanted, args, kwargs):
                continue
            self._try("values", label, args, kwargs)
            self._keep_if_decided()
            run = self._runs[-1]
            if not run.ok:
                return
            if run.left_out is not None or any(each.forgiven for each in run.comparisons):
                # The model takes no such inputs, or few of PyTorch's digits are right there: others may prove more.
                doubtful = doubtful or (run if run.left_out is None else None)
                self._runs.pop()
                self._branches.forget(label)
            wanted &= self._without_numbers()
        if wanted and doubtful is not None:
            self._runs.append(doubtful)

    def _without_numbers(self) -> set[int]:
        """The positions of the outputs that may have numbers, and of which no run so far compared one."""
        return without_numbers(self._runs, len(self._constants)) - self._matching.always_empty

    def _has_numbers(self, wanted: set[int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether PyTorch gives numbers in one of some outputs, on inputs like the example's."""
        if self._inventions.example.invented(pytree.tree_leaves((args, kwargs)), None) is not None:
            return False
        try:
            expected = self._matching.expected(self._eager.run(args, kwargs, self._options.seed))
        except Exception:  # the model raises anything, or gives another number of outputs
            return False
        return gives_numbers(expected, wanted)

    def _run_uncovered_sizes(self) -> None:
        """Runs at sizes that the capture leaves out although the user did not; see `uncovered_sizes`."""
        if self._capture is None or not self._options.complete or self._mismatch is not None:
            return
        sizes = self._matching.dynamic_sizes()
        compared = 0
        for number, beyond in enumerate(uncovered_sizes(self._capture, sizes)):
            seed = self._options.seed + 2 * _SIZES_SEED + number
            self._try("sizes", sizes.label(beyond.sizes), *self._inputs_of(sizes, beyond.sizes, seed))
            run = self._runs[-1]
            self._runs[-1] = dataclasses.replace(
                run, condition=beyond.condition, place=beyond.place, stated=beyond.stated
            )
            compared += run.left_out is None
            if not run.ok or compared == _MOST_UNCOVERED:
                return

    def _keep_if_ok(self, condition: str) -> bool:
        """Leaves the last run out if it differs: torch specialises on size 1, and most graphs are right for it too."""
        run = self._runs[-1]
        if run.left_out is not None:
            return False
        if run.ok:
            self._notes.append(f"{run.label} was tried although {_outside(condition)}; the file agrees with PyTorch")
            return True
        how = "the two differ" if run.failure is None else f"the runtime raises: {run.failure}"
        return self._leave_out(f"{_outside(condition)}; here {how}")

    def _keep_if_decided(self) -> bool:
        """Leaves the last run out if it differs by PyTorch's own noise, as a norm of a single element is.

        That is for sizes that nobody asked for: there are others.
        """
        differing = [each for each in self._runs[-1].comparisons if not each.ok]
        if not differing or not all(each.noisy for each in differing):
            return True
        return self._leave_out("PyTorch's own result is not accurate here: a perturbation of one ulp changes it")

    def _leave_out(self, reason: str) -> bool:
        """Leaves the last run out: what it shows proves nothing. Returns false."""
        run = self._runs[-1]
        self._runs[-1] = Run(run.kind, run.label, left_out=reason)
        self._branches.forget(run.label)
        if self._mismatch is not None and self._mismatch.run == len(self._runs) - 1:
            self._mismatch = None
        self._judge.forget()
        return False

    def _try(self, kind: str, label: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Makes a run on inputs that the model may refuse, or the runtime not survive. Returns whether they took it."""
        try:
            leaves = self._eager.run(args, kwargs, self._options.seed)
        except Exception as error:
            self._runs.append(Run(kind, label, left_out=f"the model itself fails: {explain(error)}"))
            return False
        try:
            expected = self._matching.expected(leaves)
        except OtherOutputs as error:
            reason = f"PyTorch returns {counted(error.given, 'output')} here, but the file has {len(self._constants)}"
            names = self._matching.output_names
            self._runs.append(Run(kind, label, tuple(incomparable(name, reason) for name in names)))
            self._set_aside(args, kwargs, None)
            return True
        self._compare(kind, label, args, kwargs, expected)
        return self._runs[-1].left_out != self._ended.left_out

    def _compare(
        self, kind: str, label: str, args: tuple[Any, ...], kwargs: dict[str, Any], expected: list[torch.Tensor]
    ) -> None:
        """Makes a run in the runtime, and compares its outputs with PyTorch's."""
        self._constants = [
            value if value is not None and bool((each == value).all()) else None
            for value, each in zip(self._constants, expected, strict=True)
        ]
        matching = self._matching
        feeds = matching.feeds(pytree.tree_leaves((args, kwargs)))
        is_asked = kind in _ASKED_FOR
        if not is_asked and self._ended.foresees(feeds):
            self._runs.append(Run(kind, label, left_out=self._ended.left_out))
            return
        try:
            actual = exchange.run(self._session, feeds)
        except Exception as error:  # the runtime's errors have no other common base class
            if isinstance(error, ProcessEnded) and not is_asked:
                self._ended.add(label, feeds, error)
                self._runs.append(Run(kind, label, left_out=self._ended.left_out))
                return
            self._runs.append(Run(kind, label, failure=locate_failure(str(error), self._readable_model())))
            self._set_aside(args, kwargs, None)
            return
        rtol, atol = self._options.rtol, self._options.atol
        if self._is_exact and rtol is None and atol is None:
            rtol = atol = 0.0
        comparisons = tuple(
            compare(name, left, right, precision=precision, rtol=rtol, atol=atol)
            for name, left, right, precision in zip(
                matching.output_names, expected, actual, self._precisions, strict=True
            )
        )
        self._branches.note(label, args, kwargs)
        run = Run(kind, label, comparisons)
        if not run.ok and not self._is_exact:
            run = self._judged(run, args, kwargs, expected, actual)
        self._runs.append(run)
        if run.ok or self._set_aside(args, kwargs, Results(run.comparisons, expected, actual)):
            return
        if self._mismatch is None:
            self._mismatch = Mismatch(len(self._runs) - 1, args, kwargs, expected)

    def _try_fresh(self, kind: str, label: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """`_try`, and with other masks where the masks that were drawn leave nothing to attend to."""
        is_accepted = self._try(kind, label, args, kwargs)
        if is_accepted and self._inventions.is_mask(self._runs[-1].invented):
            leaves, structure = pytree.tree_flatten((args, kwargs))
            for others in self._inventions.example.with_other_masks(leaves):
                args, kwargs = pytree.tree_unflatten(others, structure)
                if self._try(kind, f"{label} with other masks", args, kwargs) and self._runs[-1].left_out is None:
                    break
                self._runs.pop()
        return is_accepted

    def _set_aside(self, args: tuple[Any, ...], kwargs: dict[str, Any], results: Results | None) -> bool:
        """Leaves the last run, which differs, out where it does so by what no caller gave. Returns whether it does."""
        run = self._runs[-1]
        if run.kind not in _OWN:
            return False
        invention = self._inventions.example.invented(pytree.tree_leaves((args, kwargs)), results)
        if invention is not None:
            self._leave_out_by(invention, args, kwargs, [] if results is None else results.expected)
        return invention is not None

    def _leave_out_by(
        self, invention: Invention, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Sequence[torch.Tensor]
    ) -> None:
        """Leaves the last run, which differs by what no caller gave, out."""
        self._inventions.add(invention, self._runs[-1], Mismatch(len(self._runs) - 1, args, kwargs, list(expected)))
        self._leave_out(f"{invention.what}, which the example does not have, and the two differ there")
        self._runs[-1] = dataclasses.replace(self._runs[-1], invented=invention.what)

    def _readable_model(self) -> ir.Model | None:
        try:
            return self._load()
        except Exception:  # the message then lacks the name of the operator
            return None

    def _note_unproven(self) -> None:
        """Notes outputs of which the runs show little or nothing."""
        if self._mismatch is not None:
            return
        names, matching = self._matching.output_names, self._matching
        if sum(run.left_out is None for run in self._runs) > 1:
            asked = [
                (name, value)
                for at, (name, value) in enumerate(zip(names, self._constants, strict=True))
                if not matching.is_constant_number(at)
            ]
            self._notes.extend(constants(asked))
        found = [names[at] for at in sorted(self._without_numbers())]
        self._notes.extend(uncompared(found, is_searched=self._options.inputs is None))

    def _judged(
        self,
        run: Run,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        expected: Sequence[torch.Tensor],
        actual: Sequence[torch.Tensor],
    ) -> Run:
        """A run that differs, without the differences that say nothing against the file."""
        run = self._random.left_out(run, args, kwargs, self._precisions)
        if run.ok:
            return run
        comparisons = self._judge.judged(run.comparisons, args, kwargs, expected, actual, self._matching.fixed)
        return dataclasses.replace(run, comparisons=comparisons)

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

    def _look_closer(self) -> FirstDifference | None:
        """Looks for an operator that differs where the example's outputs agree, and rounding does not explain how."""
        options, run = self._options, self._runs[0]
        is_asked = options.rtol is None and options.atol is None and options.in_onnxruntime
        if not is_asked or self._mismatch is not None or not any(map(is_suspicious, run.comparisons)):
            return None
        expected = self._matching.expected(self._eager.run(self._args, self._kwargs, options.seed))
        feeds = self._matching.feeds(pytree.tree_leaves((self._args, self._kwargs)))
        actual = exchange.run(self._session, feeds)
        given = (run.comparisons, self._args, self._kwargs, expected, actual)
        unexplained = self._judge.unexplained(*given, self._matching.fixed)
        if not unexplained:
            return None
        mismatch = Mismatch(0, self._args, self._kwargs, expected)
        search = search_difference(
            self._load, self._model, self._capture, mismatch, None, options, check_weights=not self._own_weights
        )
        if search.difference is None or not search.difference.is_beyond:
            self._notes.append(small_differences.note(run.comparisons, unexplained, search))
            return None
        wrong = small_differences.as_wrong(run.comparisons, unexplained, expected, actual)
        self._runs[0], self._mismatch = dataclasses.replace(run, comparisons=wrong), mismatch
        return search.difference

    def _find_difference(self) -> FirstDifference | None:
        if self._mismatch is None or self._runs[self._mismatch.run].ok or self._runs[self._mismatch.run].condition:
            return None
        if not self._options.in_onnxruntime:
            self._notes.append(
                "the first operator that differs can be located only in ONNX Runtime; verify the file there too"
            )
            return None
        wrong = {
            position: self._mismatch.expected[position]
            for position, comparison in enumerate(self._runs[self._mismatch.run].comparisons)
            if not comparison.ok
        }
        search = search_difference(
            self._load,
            self._model,
            self._capture,
            self._mismatch,
            wrong,
            self._options,
            check_weights=not self._own_weights,
        )
        if search.difference is None or not search.difference.is_beyond:
            otherwise = self._otherwise(wrong)
            if otherwise:
                self._notes.append(otherwise)
                return None
        if search.difference is None:
            self._notes.append(f"the first operator that differs could not be located: {search.reason}")
        return search.difference

    def _place(self, mismatch: Mismatch, wrong: Mapping[int, torch.Tensor]) -> str:
        """The first operator that differs on inputs, with its line; "" where it is not found."""
        if not self._options.in_onnxruntime:
            return ""
        search = search_difference(
            self._load, self._model, self._capture, mismatch, wrong, self._options, check_weights=False
        )
        found = search.difference
        return found.place if found is not None and found.is_beyond else ""

    def _otherwise(self, wrong: Mapping[int, torch.Tensor]) -> str:
        """How the capture itself differs from the model; "" where it does not, or there is no graph of it."""
        if self._capture is None or self._capture.mode in ("trace", "given") or self._options.isolated:
            return ""
        assert self._mismatch is not None
        return computes_otherwise(
            self._capture,
            self._eager,
            self._mismatch.args,
            self._mismatch.kwargs,
            wrong,
            seed=self._options.seed,
            rtol=self._options.rtol,
            atol=self._options.atol,
        )


def _shapes_of(leaves: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)


def _outside(condition: str) -> str:
    """The reason why a run is left out whose sizes break a condition of the capture."""
    return f"the file is valid only for {condition}"


def runtime_label(runtime: str = known.ONNXRUNTIME) -> str:
    """The runtime and its version, "onnxruntime 1.31.1"."""
    return known.label(runtime)
