"""The comparison of a whole pipeline of parts: a `run` function with the models, and with the files in their places."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from opbridge.base.torch_private import torch_tracing
from opbridge.base.wording import counted
from opbridge.errors import UsageError
from opbridge.graph.precision import coarsest
from opbridge.graph.values import as_tensor
from opbridge.request.verification_config import VerificationConfig
from opbridge.runtimes import known
from opbridge.runtimes.child import ProcessEnded
from opbridge.verification.compare import compare
from opbridge.verification.eager import Eager, explain
from opbridge.verification.fresh_inputs import fresh_inputs
from opbridge.verification.given_inputs import input_sets
from opbridge.verification.judge import Judge
from opbridge.verification.model_outputs import ModelOutputs
from opbridge.verification.part_calls import PartCall, PartCalls, PartFailure
from opbridge.verification.random_outputs import RandomOutputs
from opbridge.verification.report import Run, Verification
from opbridge.verification.runtime_failure import RuntimeFailure

__all__ = ["RunOfParts"]


class _Pipeline(torch.nn.Module):
    """A `run` function over models, as one model: its state and its weights are those of all parts."""

    def __init__(self, models: Mapping[str, Any], run: Callable[..., Any]) -> None:
        super().__init__()
        self._run = run
        self._parts: dict[str, Any] = {}
        for name, model in models.items():
            called = model.module() if isinstance(model, ExportedProgram) else torch_tracing.original_module(model)
            self._parts[name] = called
            if isinstance(called, torch.nn.Module):
                self.add_module(f"part_{name}", called)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(PartCalls({name: _plainly(part) for name, part in self._parts.items()}), *args, **kwargs)


def _plainly(model: Any) -> Callable[..., Any]:
    """A function that calls a model: what a file does not have, such as `config`, a model has not either in `run`."""
    return lambda *args, **kwargs: model(*args, **kwargs)


class RunOfParts:
    """One verification of a pipeline."""

    def __init__(
        self,
        name: str,
        run: Callable[..., Any],
        models: Mapping[str, Any],
        calls: Mapping[str, PartCall],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: VerificationConfig,
    ) -> None:
        """Args:
        name: What the pipeline is called in messages.
        run: Called as `run(parts, *args, **kwargs)`.
        models: The model of each part.
        calls: The file of each part.
        args: The positional example inputs of `run`.
        kwargs: Its keyword example inputs.
        options: The options of the verification.
        """
        self._name, self._args, self._kwargs, self._options = name, args, kwargs, options
        self._pipeline = _Pipeline(models, run)
        self._eager = Eager(self._pipeline)
        self._exported = Eager(lambda *args, **kwargs: run(PartCalls(calls), *args, **kwargs))
        tensors = [*self._pipeline.parameters(), *self._pipeline.buffers(), *pytree.tree_leaves((args, kwargs))]
        self._precision = coarsest(each.dtype for each in tensors if isinstance(each, torch.Tensor))
        outputs = ModelOutputs(self._pipeline, self._eager, _tensors, options.seed)
        self._judge = Judge(outputs, lambda args, kwargs: None, options.seed)
        self._runs: list[Run] = []
        self._random = RandomOutputs(outputs, args, kwargs, options.seed)

    def verify(self) -> Verification:
        """Makes all runs.

        Raises:
            UsageError: `run` raises on the example or on inputs given, or calls a part with other inputs than it was
                exported with.
        """
        start = time.perf_counter()
        for kind, label, args, kwargs in self._inputs():
            try:
                expected = self._leaves(self._eager, args, kwargs)
            except Exception as error:  # `run` and the models raise anything
                if kind != "fresh":
                    what = "the example inputs" if kind == "example" else label
                    raise UsageError(
                        f"run= failed with the PyTorch models on {what}: {explain(error)}. Correct run= or its inputs."
                    ) from error
                self._runs.append(Run(kind, label, left_out=f"run= itself raised {explain(error)}"))
                continue
            self._compare(kind, label, args, kwargs, expected)
        runs = tuple(self._random.left_out_of_all(self._runs))
        notes = [*self._judge.notes]
        if not all(run.ok for run in runs):
            notes.append("each part by itself agrees with PyTorch on its own inputs")
        seconds = time.perf_counter() - start
        return Verification(self._name, known.label(known.ONNXRUNTIME), runs, notes=tuple(notes), seconds=seconds)

    def _inputs(self) -> Iterator[tuple[str, str, tuple[Any, ...], dict[str, Any]]]:
        """Kind, label and inputs of each run."""
        yield "example", "example", self._args, self._kwargs
        if self._options.inputs is None:
            for sample in range(1, self._options.samples + 1):
                args, kwargs = fresh_inputs(self._args, self._kwargs, self._options.seed + sample)
                yield "fresh", f"fresh {sample}", args, kwargs
            return
        for label, given in input_sets(self._options.inputs, self._options.samples):
            given = pytree.tree_map_only((np.ndarray, np.generic), torch.as_tensor, given)
            if isinstance(given, Mapping):
                yield "given", label, self._args, {**self._kwargs, **given}
            else:
                yield "given", label, tuple(given) if isinstance(given, (tuple, list)) else (given,), self._kwargs

    def _compare(
        self, kind: str, label: str, args: tuple[Any, ...], kwargs: dict[str, Any], expected: list[Any]
    ) -> None:
        structure = self._eager.structure
        try:
            actual = self._leaves(self._exported, args, kwargs)
        except UsageError:
            raise
        except PartFailure as error:
            if kind == "fresh" and isinstance(error.__cause__, ProcessEnded):
                how = (
                    f"{known.label(known.ONNXRUNTIME)} ended its process ({error.__cause__.how}) in part '{error.part}'"
                )
                self._runs.append(Run(kind, label, left_out=how))
                return
            failure = dataclasses.replace(error.failure, message=f"part '{error.part}': {error.failure.message}")
            self._runs.append(Run(kind, label, failure=failure))
            return
        except Exception as error:  # `run` raises anything
            raise UsageError(
                f"run= failed with the exported parts but not with the PyTorch models ({label}): {explain(error)}. "
                "With the exported parts, run= can only call a part and use what it returns; attributes and "
                "methods of the PyTorch model are not available."
            ) from error
        said = _unlike(expected, structure, actual, self._exported.structure)
        if said:
            self._runs.append(Run(kind, label, failure=RuntimeFailure(said)))
            return
        left, right = _tensors(expected), _tensors(actual)
        names = _names(expected, structure)
        comparisons = tuple(
            compare(name, one, other, precision=self._precision, rtol=self._options.rtol, atol=self._options.atol)
            for name, one, other in zip(names, left, right, strict=True)
        )
        run = Run(kind, label, comparisons)
        if not run.ok:
            precisions = [self._precision] * len(left)
            run = self._judge.judged_run(run, self._random, args, kwargs, left, right, precisions=precisions)
        self._runs.append(run)

    def _leaves(self, runner: Eager, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        return runner.run(args, kwargs, self._options.seed)


def _is_compared(leaf: Any) -> bool:
    return isinstance(leaf, (torch.Tensor, int, float, complex))


def _tensors(leaves: Sequence[Any]) -> list[torch.Tensor]:
    return [as_tensor(leaf) for leaf in leaves if _is_compared(leaf)]


def _names(leaves: Sequence[Any], structure: Any) -> list[str]:
    """What the results are called: "result", "result[0]", "result['ids']"."""
    parts, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(leaves), structure))
    return [f"result{pytree.keystr(path)}" for path, leaf in parts if _is_compared(leaf)]


def _unlike(expected: Sequence[Any], wanted: Any, actual: Sequence[Any], structure: Any) -> str:
    """What differs between two results beside the values of tensors and numbers; "" where nothing does."""
    if wanted != structure:
        return (
            f"run= returns {counted(len(actual), 'value')} with the exported parts and "
            f"{counted(len(expected), 'value')} with the PyTorch models, or a different structure: {structure} "
            f"instead of {wanted}"
        )
    for name, left, right in zip(range(len(expected)), expected, actual, strict=True):
        if _is_compared(left) != _is_compared(right) or not (_is_compared(left) or left == right):
            return (
                f"the value {name} returned by run= is {right!r} with the exported parts and {left!r} with the "
                "PyTorch models"
            )
    return ""
