"""The model in float64, which decides where PyTorch and a file differ by more than the tolerance.

An ill-conditioned model amplifies rounding: eager PyTorch is then as far from the true values as the file may be, and
the two differ although neither is wrong. The model is computed in float64 on the same inputs, and both are compared
with that.

The rule, for each element of an output. `e` is PyTorch's error there, `f` the file's, both from float64.

1. It is right where it is within the tolerance of PyTorch's value or of the float64 value.
2. It is right where `f <= FACTOR * max(e, common)`: `common` is the error that a tenth of PyTorch's elements exceed, as
   errors of rounding are large and small by chance. An error that few elements of PyTorch's have is allowed to these
   alone, so that one ill-conditioned element excuses no other. Where PyTorch is exact, `e` and `common` are nothing,
   and the tolerance stands.
3. Where elements are still outside, PyTorch is run again on inputs that differ by one rounding, then with sums that are
   rounded otherwise, and sigmoids that are as far from float64 as a runtime's; `e` is the largest of these errors: the
   error of a single ill-conditioned element may be small by chance, and elements may change places.
4. Where elements are outside then, by up to `CHANCE` times, each of PyTorch's results is judged by the others as the
   file's is by all. The file's is one more of them where one of these has as many elements outside, the worst as far:
   errors that pass through an exponential are large for a few elements, and which these are is chance. The worst of
   eight equals is outside in one of eight cases: before it is called wrong there are `MANY_RUNS` of PyTorch's results.
5. NaNs and infinities have to be those of PyTorch, or of float64 in the output's dtype. Integers and bools have to be
   those of PyTorch on these inputs or on inputs that differ by one rounding, or of float64.
6. Where PyTorch's own error is more than `NOISE` of the output's RMS, rule 1 alone holds: PyTorch's result has no
   digits then, or the model in float64 is another one, as where it reads `torch.finfo`. Where a rounding selects
   another expert of a mixture, a minority of the runs of rule 3 has no digits: these allow no error, and an element is
   right where it is as near to that of such a run as `FACTOR * common`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.torch_private.torch_float64 import in_float64, widened
from opbridge.graph.open_lists import Form
from opbridge.verification.compare import Comparison, Tolerance, rms
from opbridge.verification.eager import Eager, explain

__all__ = [
    "CHANCE",
    "FACTOR",
    "MANY_RUNS",
    "NEARBY_RUNS",
    "NOISE",
    "Unavailable",
    "errors",
    "judged",
    "perturbed",
    "run_in_float64",
]

FACTOR = 4
"""How many times PyTorch's error the file's may be. Orders of summation differ in error by about that."""

CHANCE = 2
"""How many times what is allowed an error may be that PyTorch's results have among themselves."""

NOISE = 0.25
"""The share of an output's RMS from which on PyTorch's own error says that the output has no digits."""

NEARBY_RUNS = 3
"""How many inputs that differ by one rounding are tried, and as many runs with sums and sigmoids that do.

For inputs without floats, twice as many of the latter.
"""

MANY_RUNS = 18
"""How many runs of PyTorch, beside that on the inputs themselves, say that an error is larger than chance makes it."""

_COMMON = 0.9
_ROOM = 2
"""How many times the memory for weights in float64 has to be free."""


class Unavailable(Exception):
    """The model cannot be computed in float64; the message is the reason."""


def run_in_float64(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    seed: int,
    lists: Mapping[str, Form] | None = None,
) -> list[Any]:
    """Runs a model in float64.

    1. Its operators compute in float64 (`in_float64`), and nothing of the model is changed.
    2. If the model raises then, as where it compares dtypes, its weights are converted for the time of the run, too:
       each tensor keeps its identity, and gets back the very memory that it had.
    3. If it raises again, only its weights and inputs are converted.

    Args:
        model: A module, a function or an ExportedProgram.
        args: The positional inputs.
        kwargs: The keyword inputs.
        seed: The seed for torch's generators.
        lists: The lists in what it returns of which a file has the joined form.

    Returns:
        The leaves of the model's output.

    Raises:
        Unavailable: The model raises in each of these ways, or there is no memory for its weights.
    """
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: widened(tensor.detach()), (args, dict(kwargs)))
    module = model.module() if isinstance(model, ExportedProgram) else model
    has_weights = isinstance(module, torch.nn.Module)
    attempts: list[tuple[bool, Callable[[], AbstractContextManager[None]]]]
    attempts = [(False, in_float64), (has_weights, in_float64), (has_weights, contextlib.nullcontext)]
    reason = ""
    for weights, within in attempts:
        try:
            with _wide_weights(module) if weights else contextlib.nullcontext():
                return Eager(module, lists, prints=False).run(args, kwargs, seed, within)
        except Exception as error:  # the model raises anything
            reason = reason or explain(error)
    raise Unavailable(reason)


@contextlib.contextmanager
def _wide_weights(module: torch.nn.Module) -> Iterator[None]:
    """Within this context, the float parameters, buffers and tensors in plain attributes have float64 values."""
    held = [*module.parameters(), *module.buffers()]
    held += [value for each in module.modules() for value in vars(each).values() if isinstance(value, torch.Tensor)]
    unique = {id(tensor): tensor for tensor in held if type(tensor) in (torch.Tensor, torch.nn.Parameter)}
    narrow = [tensor for tensor in unique.values() if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 8]
    needed = sum(8 * tensor.numel() for tensor in narrow)
    free = _free_bytes()
    if free is not None and _ROOM * needed > free:
        raise MemoryError(f"its weights need {needed >> 20:,} MB in float64, and {free >> 20:,} MB are available")
    before = [(tensor, tensor.data) for tensor in narrow]
    try:
        for tensor, values in before:
            tensor.data = values.double()
        yield
    finally:
        for tensor, values in before:
            tensor.data = values


def _free_bytes() -> int | None:
    """The memory that is free, where the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def perturbed(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int, kept: Container[int]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Inputs whose floats are, at random, smaller by one rounding or as they are; None where there are no floats.

    They get smaller only, so that probabilities, cosines and coordinates stay within their bounds.

    Args:
        args: The positional inputs.
        kwargs: The keyword inputs.
        seed: The same seed gives the same inputs.
        kept: The positions of leaves that are not changed.
    """
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    generator = torch.Generator().manual_seed(seed)
    changed = False
    for position, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor) or position in kept or leaf.dtype not in _PERTURBED:
            continue
        bits = torch.randint(2, tuple(leaf.shape), generator=generator).to(leaf.device)
        leaves[position] = (leaf.detach() * (1 - bits.to(leaf.dtype) * torch.finfo(leaf.dtype).eps)).to(leaf.dtype)
        changed = True
    return pytree.tree_unflatten(leaves, structure) if changed else None


_PERTURBED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def judged(
    comparison: Comparison,
    expected: torch.Tensor,
    actual: torch.Tensor,
    reference: torch.Tensor,
    nearby: Sequence[torch.Tensor] = (),
    rounded: Sequence[torch.Tensor] = (),
) -> Comparison:
    """A comparison that differs, judged by the model in float64, by the rule of this module.

    Args:
        comparison: What `compare` gave for `expected` and `actual`.
        expected: PyTorch's output.
        actual: The file's output.
        reference: The output of the model in float64.
        nearby: PyTorch's outputs on inputs that differ by one rounding.
        rounded: PyTorch's outputs with sums and sigmoids that are rounded otherwise.

    Returns:
        The comparison, with what was found as its remark; `forgiven` where every element is right, `noisy` where
        PyTorch's outputs nearby are others, `by_chance` where more runs may say that it is right.
    """
    near = [each for each in (*nearby, *rounded) if each.shape == expected.shape]
    ways = (
        (nearby, "for inputs perturbed by one ulp"),
        (rounded, "with a different order of summation"),
    )
    said = " or ".join(way for outputs, way in ways if outputs)
    if comparison.reason is not None or reference.shape != expected.shape:
        return comparison
    if not (expected.is_floating_point() or expected.is_complex()):
        return _judged_integers(comparison, expected, actual, reference, near, said)
    left, right, truth, *others = (_flat(each) for each in (expected, actual, reference, *near))
    dtype = torch.view_as_real(expected).dtype if expected.is_complex() else expected.dtype
    rounded_truth = truth.to(dtype).double()
    is_finite = left.isfinite() & right.isfinite() & rounded_truth.isfinite()
    same = (right == left) | (right == rounded_truth) | (right.isnan() & (left.isnan() | rounded_truth.isnan()))
    runs = _Runs((left, *others), truth, is_finite, comparison.tolerance)
    own, off = runs.largest, runs.error(right)
    if rms(own) > NOISE * rms(truth):
        allowed = runs.within_tolerance(right, left) | (off <= runs.tolerated)
        if bool(torch.where(is_finite, allowed, same).all()):
            remark = f"agrees with float64 within the tolerance; PyTorch's own error is {float(own.max()):.2g}"
            remark += f", {said}" if said else ""
            return dataclasses.replace(comparison, forgiven=True, remark=remark)
        spread = [torch.where(is_finite, (other - left).nan_to_num(0.0, 0.0, 0.0), 0.0) for other in others]
        return dataclasses.replace(
            comparison,
            remark=f"not decidable by float64, because PyTorch's own error is {float(own.max()):.2g}"
            + (f", {said}" if said else ""),
            noisy=any(rms(each) > NOISE * rms(truth) for each in spread),
        )
    errors = f"{float(off.max()):.2g}, PyTorch {float(own.max()):.2g}"
    remark = f"{errors}, {said}" if said else errors
    if bool((same | is_finite).all()) and runs.has_one_like(right):
        return dataclasses.replace(
            comparison, forgiven=True, remark=f"error against float64 no larger than PyTorch's: {remark}"
        )
    return dataclasses.replace(
        comparison,
        remark=f"larger error against float64 than PyTorch: {remark}",
        by_chance=runs.worst(right) <= CHANCE and bool((same | is_finite).all()),
    )


class _Runs:
    """PyTorch's results of one output, by which another result of it is judged."""

    def __init__(
        self, runs: Sequence[torch.Tensor], truth: torch.Tensor, is_finite: torch.Tensor, tolerance: Tolerance
    ) -> None:
        """Args:
        runs: The results, that on the inputs themselves first.
        truth: The result in float64.
        is_finite: For which elements these, and the file's result, are finite.
        tolerance: The tolerance between two results.
        """
        self._truth, self._is_finite, self._tolerance = truth, is_finite, tolerance
        self._runs, self._without_digits = self._by_digits(runs)
        self.largest = self._largest_of(self._runs)
        self.tolerated = tolerance.absolute + tolerance.relative * truth.abs()

    def _by_digits(self, runs: Sequence[torch.Tensor]) -> tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]:
        """The runs by which errors are judged, and a minority whose own errors are above `NOISE`."""
        noisy = [rms(self.error(run)) > NOISE * rms(self._truth) for run in runs]
        if noisy[0] or 2 * sum(noisy) >= len(runs):
            return runs, ()
        return [each for each, off in zip(runs, noisy, strict=True) if not off], list(itertools.compress(runs, noisy))

    def error(self, result: torch.Tensor) -> torch.Tensor:
        """How far a result is from float64, for each element; 0 where one is not finite."""
        return torch.where(self._is_finite, (result - self._truth).abs().nan_to_num(nan=0.0, posinf=0.0), 0.0)

    def _largest_of(self, runs: Sequence[torch.Tensor]) -> torch.Tensor:
        return functools.reduce(torch.maximum, map(self.error, runs))

    def within_tolerance(self, result: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Which elements of a result are within the tolerance of another one's."""
        return (result - other).abs() <= self._tolerance.absolute + self._tolerance.relative * other.abs()

    def has_one_like(self, result: torch.Tensor) -> bool:
        """Whether a result is as near to float64 as these are, by the rules 1 to 4 of this module."""
        count, worst = self._outside(result, self.largest, self._runs[0])
        if count == 0:
            return True
        if len(self._runs) <= NEARBY_RUNS or worst > CHANCE:
            return False
        for position, run in enumerate(self._runs):
            others = [each for at, each in enumerate(self._runs) if at != position]
            of_run = self._outside(run, self._largest_of(others), others[0])
            if of_run[0] >= count and of_run[1] >= worst:
                return True
        return False

    def worst(self, result: torch.Tensor) -> float:
        """How many times what is allowed the worst element of a result is off."""
        return self._outside(result, self.largest, self._runs[0])[1]

    def _outside(self, result: torch.Tensor, largest: torch.Tensor, other: torch.Tensor) -> tuple[int, float]:
        """How many elements are outside, and how many times what is allowed the worst of them is off.

        Args:
            result: The result.
            largest: The errors that the others have, for each element the largest.
            other: One of these.
        """
        common = float(largest.kthvalue(int(_COMMON * (largest.numel() - 1)) + 1).values)
        allowed = torch.maximum(self.tolerated, FACTOR * largest.clamp(min=common))
        off = self.error(result)
        near = [(result - run).abs() <= FACTOR * common for run in self._without_digits]
        right = functools.reduce(torch.logical_or, near, self.within_tolerance(result, other) | (off <= allowed))
        outside = self._is_finite & ~right
        return int(outside.sum()), float((off / allowed)[outside].max()) if bool(outside.any()) else 0.0


def errors(
    expected: torch.Tensor, actual: torch.Tensor, reference: torch.Tensor, nearby: Sequence[torch.Tensor]
) -> tuple[float, float] | None:
    """How far a file's output is from the model in float64, and how far PyTorch's outputs are, as RMS of the errors.

    Args:
        expected: PyTorch's output, of float32 or float64, or of complex numbers of these.
        actual: The file's output.
        reference: The output of the model in float64.
        nearby: PyTorch's outputs on inputs that differ by one rounding, or with sums that do.

    Returns:
        The two; None where an output is not finite, or where PyTorch's has no digits.
    """
    if any(each.shape != expected.shape for each in (actual, reference, *nearby)):
        return None
    truth, right, *own = (_flat(each) for each in (reference, actual, expected, *nearby))
    if not all(bool(each.isfinite().all()) for each in (truth, right, *own)):
        return None
    largest = max(rms(each - truth) for each in own)
    return None if largest > NOISE * rms(truth) else (rms(right - truth), largest)


def _judged_integers(
    comparison: Comparison,
    expected: torch.Tensor,
    actual: torch.Tensor,
    reference: torch.Tensor,
    nearby: Sequence[torch.Tensor],
    said: str,
) -> Comparison:
    """`judged` for integers and bools."""
    actual = actual.to(expected.device)
    if not all(each.dtype == expected.dtype for each in (actual, reference, *nearby)):
        return comparison
    same = actual == expected
    for each in (reference, *nearby):
        same |= actual == each.to(expected.device)
    if not bool(same.all()):
        return comparison
    whose = f"of PyTorch {said}" if said else "of the model in float64"
    remark = f"{comparison.outside} of {comparison.elements} elements equal those {whose}"
    return dataclasses.replace(comparison, forgiven=True, remark=remark)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.reshape(-1).double()
