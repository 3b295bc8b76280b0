"""The runs of a verification: PyTorch and ONNX Runtime on one set of inputs after the other."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import onnxruntime
import torch
from torch.utils import _pytree as pytree

from opbridge.base.wording import counted, listed, sentence
from opbridge.capture import capture as take_capture
from opbridge.errors import CaptureError, UsageError
from opbridge.graph.interface import as_tensor, is_frozen, user_inputs, user_outputs
from opbridge.graph.precision import coarsest, precisions
from opbridge.verification import dynamic_sizes, exchange
from opbridge.verification.compare import Comparison, compare, dtype_name
from opbridge.verification.eager import Eager, explain
from opbridge.verification.first_difference import FirstDifference, Search, first_difference
from opbridge.verification.fresh_inputs import fresh_inputs, kind_of
from opbridge.verification.report import Run, Verification
from opbridge.verification.runtime_failure import locate_failure

if TYPE_CHECKING:
    from opbridge.capture import Capture
    from opbridge.verification.dynamic_sizes import DynamicSizes

__all__ = ["Options", "Verifier", "runtime_label"]

_MOST_FROZEN = 3
"""How many of the values that a trace froze are named where the model and the file differ."""

_SEEDS = 8
"""So many are tried on an output that differs: where few values can be drawn, two seeds may give the same."""

_SIZES_SEED = 1000
"""Where the seeds for inputs of other sizes begin, apart from those for more samples."""


@dataclass(frozen=True)
class Options:
    """How a verification is made; see `opbridge.verify`.

    Raises:
        UsageError: a number that cannot be used.
    """

    samples: int = 2
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None
    aten: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.samples) is not int or self.samples < 0:
            raise UsageError(f"samples={self.samples!r} is no number of samples; give 0 or more.")
        if type(self.seed) is not int:
            raise UsageError(f"seed={self.seed!r} is no seed; give an integer.")
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not (isinstance(value, (int, float)) and 0 <= value < math.inf):
                raise UsageError(f"{name}={value!r} is no tolerance; give a number from 0 on, or leave it out.")


@dataclass
class _Mismatch:
    """The first run that differs: its number, its inputs, and PyTorch's outputs on them."""

    run: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expected: list[torch.Tensor]


class Verifier:
    """One verification while it runs.

    `capture` is given where it is known which dimensions may vary; `own_weights` says that the weights in the file are
    those of the capture.
    """

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
        options: Options,
    ) -> None:
        self._name, self._session, self._load = name, loaded, load
        self._model, self._eager = model, Eager(model)
        self._capture, self._own_weights, self._options = capture, own_weights, options
        if capture is not None and set(capture.kwargs) == set(kwargs):
            kwargs = {key: kwargs[key] for key in capture.kwargs}  # the order of the graph's inputs
        self._args, self._kwargs = args, kwargs
        self._leaves = pytree.tree_leaves((args, kwargs))
        # The capture that tells what is an output of the graph and what a constant; a file alone does so mostly.
        self._program = None if capture is None else capture.exported_program
        self._inputs, self._output_names = loaded.get_inputs(), [output.name for output in loaded.get_outputs()]
        self._runs: list[Run] = []
        self._notes: list[str] = []
        self._mismatch: _Mismatch | None = None
        # For each output the number that all of its elements have been so far; None once there were two.
        self._same: list[float | None] = []

    def run(self, start: float) -> Verification:
        """Makes all runs; `start` is when the verification began."""
        self._positions = self._matched_inputs()
        self._kept = self._kept_inputs()
        self._check_outputs()
        self._run_example()
        kept = self._run_fresh()
        self._run_other_sizes()
        self._find_random()
        difference = self._find_difference()
        self._note_constants()
        seconds = time.perf_counter() - start
        return Verification(
            self._name, runtime_label(), tuple(self._runs), difference, kept, tuple(self._notes), seconds
        )

    # What belongs to what

    def _matched_inputs(self) -> list[int]:
        """The number of the leaf that each input of the graph is."""
        tensors = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, torch.Tensor)]
        numbers = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, torch.Tensor) or type(leaf) is int]
        positions = numbers if len(numbers) == len(self._inputs) else tensors
        if self._program is not None:
            specs = user_inputs(self._program)
            if len(specs) != len(self._leaves):
                raise UsageError(
                    f"The example inputs do not fit the model's capture: it was captured with "
                    f"{counted(len(specs), 'input')}, and the example holds {len(self._leaves)}. Give inputs of the "
                    "same structure, or leave them out where a program is given."
                )
            positions = [i for i, spec in enumerate(specs) if not is_frozen(spec)]
        if len(positions) != len(self._inputs):
            names = f" ({listed([each.name for each in self._inputs], 6)})" if self._inputs else ""
            raise UsageError(
                f"The example inputs do not fit {self._name}: it has {counted(len(self._inputs), 'input')}{names}, and "
                f"the example holds {counted(len(positions), 'tensor')}. Give the inputs that the file was exported "
                "with, in the same order."
            )
        for wanted, position in zip(self._inputs, positions, strict=True):
            self._check_fits(wanted, as_tensor(self._leaves[position]))
        return positions

    def _kept_inputs(self) -> set[int]:
        """The leaves whose values the model turns into Python numbers, by what the file says: they stay in all runs."""
        names = json.loads(self._session.get_modelmeta().custom_metadata_map.get("opbridge.read_inputs", "[]"))
        pairs = zip(self._inputs, self._positions, strict=True)
        return {position for wanted, position in pairs if wanted.name in names}

    def _check_fits(self, wanted: Any, leaf: torch.Tensor) -> None:
        """Whether a tensor can be given to an input of the file."""
        form = exchange.runtime_form(leaf)
        dtype, shape = exchange.dtype_of(wanted.type), list(wanted.shape)
        same_sizes = len(shape) == form.dim() and all(
            size == given for size, given in zip(shape, form.shape, strict=True) if isinstance(size, int)
        )
        if dtype == form.dtype and same_sizes:
            return
        described = f"{dtype_name(dtype) if dtype else wanted.type} [{', '.join(map(str, shape))}]"
        given = f"{dtype_name(leaf.dtype)} {list(leaf.shape)}"
        if leaf.is_complex():
            given += f", which enters as {dtype_name(form.dtype)} {list(form.shape)}"
        raise UsageError(
            f"The example inputs do not fit {self._name}: its input '{wanted.name}' is {described}, and the example "
            f"has {given} in its place. Give the inputs that the file was exported with, in the same order."
        )

    def _check_outputs(self) -> None:
        for output in self._session.get_outputs():
            if exchange.dtype_of(output.type) is None:
                raise UsageError(
                    f"Output '{output.name}' of {self._name} is a {output.type}, which PyTorch has no tensor for, so "
                    "it cannot be compared. Give a file whose outputs are all tensors."
                )

    def _expected(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """The leaves of the model's output that are outputs of the graph."""
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        kept: list[Any] = tensors
        if self._program is None and len(tensors) != len(self._output_names):
            # The model gives numbers too. Whether they are outputs or constants, only a capture tells.
            try:
                self._program = take_capture(self._model, self._args, self._kwargs).exported_program
            except CaptureError:
                kept = [leaf for leaf in leaves if isinstance(leaf, (torch.Tensor, int))]
        if self._program is not None:
            specs = user_outputs(self._program)
            if len(specs) == len(leaves):
                kept = [leaf for leaf, spec in zip(leaves, specs, strict=True) if not is_frozen(spec)]
        if len(kept) != len(self._output_names):
            raise UsageError(
                f"{sentence(self._name)} has {counted(len(self._output_names), 'output')} "
                f"({listed(self._output_names, 6)}), and the model gives {len(kept)} that could be compared with them. "
                "Give the model that the file was exported from."
            )
        return [as_tensor(leaf) for leaf in kept]

    def _coarsest(self, expected: Sequence[torch.Tensor]) -> list[torch.dtype | None]:
        """The coarsest dtype that each output was computed through."""
        if self._program is not None:
            found = precisions(self._program)
            specs = [spec for spec in user_outputs(self._program) if not is_frozen(spec)]
            if len(specs) == len(expected):
                return [found.get(spec.arg.name) for spec in specs]
        tensors = [leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor)]
        if isinstance(self._model, torch.nn.Module):
            tensors += [*self._model.parameters(), *self._model.buffers()]
        return [coarsest(tensor.dtype for tensor in tensors)] * len(expected)

    # The runs

    def _run_example(self) -> None:
        try:
            leaves = self._eager.run(self._args, self._kwargs, self._options.seed)
        except Exception as error:
            raise UsageError(
                f"The model itself raises on the example inputs, so there is nothing to compare {self._name} with: "
                f"{explain(error)}. Give inputs that it takes."
            ) from error
        expected = self._expected(leaves)
        self._precisions = self._coarsest(expected)
        self._same = [float(each.reshape(-1)[0].real) if each.numel() else None for each in expected]
        self._compare("example", "example", self._args, self._kwargs, expected)

    def _run_fresh(self) -> tuple[str, ...]:
        """Fresh values in the example's shapes. Returns the inputs whose values stay."""
        tensors = [
            (wanted.name, self._leaves[position])
            for wanted, position in zip(self._inputs, self._positions, strict=True)
            if isinstance(self._leaves[position], torch.Tensor)
        ]
        named = [
            wanted.name
            for wanted, position in zip(self._inputs, self._positions, strict=True)
            if position in self._kept
        ]
        kept = tuple(name for name, tensor in tensors if name in named or kind_of(tensor).is_kept)
        if len(kept) < len(tensors):
            for sample in range(1, self._options.samples + 1):
                seed = self._options.seed + sample
                args, kwargs = fresh_inputs(self._args, self._kwargs, seed, kept=self._kept)
                self._try("fresh", f"fresh {sample}", args, kwargs)
        elif tensors and self._options.samples:
            self._notes.append(
                "no fresh values were tried, as every input is constant or in order in the example; give one with "
                "values as the model will see them"
            )
        return kept

    def _run_other_sizes(self) -> None:
        sizes = self._sizes()
        for number, group in enumerate(sizes.groups()):
            for position, chosen in enumerate(group):
                seed = self._options.seed + _SIZES_SEED + 10 * number + position
                condition = sizes.broken_condition(chosen)
                if condition is not None and 1 not in chosen.values():
                    self._runs.append(Run("sizes", sizes.label(chosen), left_out=_outside(condition)))
                    continue
                shapes, numbers = sizes.shapes(chosen), sizes.values(chosen)
                args, kwargs = fresh_inputs(
                    self._args, self._kwargs, seed, shapes=shapes, numbers=numbers, kept=self._kept - shapes.keys()
                )
                is_taken = self._try("sizes", sizes.label(chosen), args, kwargs)
                if condition is not None:
                    is_taken = self._keep_if_ok(condition)
                if position == 0 and is_taken:
                    break

    def _keep_if_ok(self, condition: str) -> bool:
        """Lets the last run count only where it agrees: torch sets size 1 apart, and most graphs hold for it too."""
        run = self._runs[-1]
        if run.left_out is None and not run.ok:
            self._runs[-1] = Run(run.kind, run.label, left_out=f"{_outside(condition)}; here the two differ")
            if self._mismatch is not None and self._mismatch.run == len(self._runs) - 1:
                self._mismatch = None
        return self._runs[-1].left_out is None

    def _sizes(self) -> DynamicSizes:
        """The dimensions that may vary: those of the capture, or else of the file."""
        if self._capture is not None:
            return dynamic_sizes.from_capture(self._capture, self._leaves)
        dims: dict[int, tuple[int | str, ...]] = {}
        for wanted, position in zip(self._inputs, self._positions, strict=True):
            leaf = self._leaves[position]
            if isinstance(leaf, torch.Tensor):
                # A complex tensor has a dimension more in the file; one without a name varies by itself.
                dims[position] = tuple(
                    size if isinstance(size, (int, str)) else f"{wanted.name}.{dim}"
                    for dim, size in enumerate(wanted.shape[: leaf.dim()])
                )
        return dynamic_sizes.from_shapes(dims, self._leaves)

    def _try(self, kind: str, label: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Makes a run on inputs that the model may refuse; false where it does."""
        try:
            leaves = self._eager.run(args, kwargs, self._options.seed)
        except Exception as error:
            self._runs.append(Run(kind, label, left_out=f"the model itself raises {explain(error)}"))
            return False
        self._compare(kind, label, args, kwargs, self._expected(leaves))
        return True

    def _compare(
        self, kind: str, label: str, args: tuple[Any, ...], kwargs: dict[str, Any], expected: list[torch.Tensor]
    ) -> None:
        self._same = [
            same if same is not None and bool((each == same).all()) else None
            for same, each in zip(self._same, expected, strict=True)
        ]
        leaves = pytree.tree_leaves((args, kwargs))
        feeds = {
            wanted.name: as_tensor(leaves[position])
            for wanted, position in zip(self._inputs, self._positions, strict=True)
        }
        try:
            actual = exchange.run(self._session, feeds)
        except Exception as error:  # the runtime's errors share no other base
            self._runs.append(Run(kind, label, failure=locate_failure(str(error), self._readable_model())))
            return
        comparisons = tuple(
            compare(name, left, right, precision=precision, rtol=self._options.rtol, atol=self._options.atol)
            for name, left, right, precision in zip(self._output_names, expected, actual, self._precisions, strict=True)
        )
        self._runs.append(Run(kind, label, comparisons))
        if self._mismatch is None and not self._runs[-1].ok:
            self._mismatch = _Mismatch(len(self._runs) - 1, args, kwargs, expected)

    def _readable_model(self) -> ir.Model | None:
        try:
            return self._load()
        except Exception:  # only the name of an operator is lost
            return None

    def _note_constants(self) -> None:
        """A head whose weights are all zero gives the same whatever stands before it."""
        if sum(run.left_out is None for run in self._runs) < 2 or self._mismatch is not None:
            return
        for name, same in zip(self._output_names, self._same, strict=True):
            if same is not None:
                self._notes.append(
                    f"output '{name}' is {same:g} throughout, on all inputs, so little is proved of what it comes from"
                )

    # What a difference comes from

    def _find_random(self) -> None:
        """Outputs that differ, and that differ between eager runs with other seeds too, are random."""
        if self._mismatch is None:
            return
        wrong = {
            position for run in self._runs for position, comparison in enumerate(run.comparisons) if not comparison.ok
        }
        seed = self._options.seed
        first = self._expected(self._eager.run(self._args, self._kwargs, seed))
        random: dict[int, bool] = {}
        for other in range(seed + 1, seed + _SEEDS):
            second = self._expected(self._eager.run(self._args, self._kwargs, other))
            for position, (left, right) in enumerate(zip(first, second, strict=True)):
                if not compare("", left, right, precision=self._precisions[position]).ok:
                    random[position] = random.get(position, False) or left.shape != right.shape
            if not self._eager.drew or wrong <= random.keys():
                break
        for number, run in enumerate(self._runs):
            comparisons = [
                _as_random(comparison, varies_in_shape=random[position]) if position in random else comparison
                for position, comparison in enumerate(run.comparisons)
            ]
            self._runs[number] = dataclasses.replace(run, comparisons=tuple(comparisons))

    def _find_difference(self) -> FirstDifference | None:
        if self._mismatch is None or self._runs[self._mismatch.run].ok:
            return None
        wrong = {
            position: self._mismatch.expected[position]
            for position, comparison in enumerate(self._runs[self._mismatch.run].comparisons)
            if not comparison.ok
        }
        try:
            search = self._search(self._mismatch, wrong)
        except CaptureError as error:
            search = Search(None, 0, f"the model cannot be captured again ({error})")
        if search.difference is None:
            self._notes.append(f"the operator that differs could not be found: {search.reason}")
        return search.difference

    def _search(self, mismatch: _Mismatch, wrong: Mapping[int, torch.Tensor]) -> Search:
        if self._capture is not None and self._capture.strategy == "trace":
            frozen = [note for note in self._capture.notes if note.startswith("frozen by the trace")]
            said = f"it depends on what the trace froze, perhaps: {'; '.join(frozen[:_MOST_FROZEN])}" if frozen else ""
            more = f"; and {len(frozen) - _MOST_FROZEN} more notes of the plan" if len(frozen) > _MOST_FROZEN else ""
            return Search(None, 0, f"a trace keeps no graph of the model to search; {said}{more}".rstrip("; "))
        # Without a capture that leaves them open, the sizes have to be those of these very inputs.
        capture = self._capture or take_capture(self._model, mismatch.args, mismatch.kwargs)
        return first_difference(
            self._load(),
            capture,
            mismatch.args,
            mismatch.kwargs,
            outputs=wrong,
            check_weights=not self._own_weights,
            rtol=self._options.rtol,
            atol=self._options.atol,
        )


def _as_random(comparison: Comparison, *, varies_in_shape: bool) -> Comparison:
    """The comparison of an output whose values are random, and perhaps its sizes."""
    same_rank = len(comparison.shape) == len(comparison.actual_shape)
    same_dtype = comparison.actual_dtype == comparison.dtype
    return comparison.as_random(None if varies_in_shape and same_rank and same_dtype else comparison.reason)


def _outside(condition: str) -> str:
    return f"the capture holds only where {condition}"


def runtime_label() -> str:
    return f"onnxruntime {onnxruntime.__version__}"
