"""Inputs that the user gives for a verification: `inputs=` of `opbridge.export` and `opbridge.verify`.

They are one of these:

1. A list of sets of inputs, one for each run.
2. A function of the run's number, from 1 to `samples`, that returns a set.
3. The path of an `.npz` or `.npy` file with a set, or a list of such paths.

A set is a tuple of inputs in the order of the example's, one tensor, or a dict of inputs by the file's names for them
(or by the model's, where all of its inputs are keyword inputs). For a model with both kinds, it may be a tuple of the
positional inputs, as a tuple, and the keyword inputs, as a dict. Tensors may be NumPy arrays. An `.npz` file is a dict,
or a tuple where `numpy.savez` named its arrays (arr_0, arr_1); an `.npy` file is the input of a model with one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from opbridge.base import files
from opbridge.base.wording import counted, listed
from opbridge.capture.containers import register_containers
from opbridge.errors import UsageError
from opbridge.graph.values import as_tensor
from opbridge.model_support import caches
from opbridge.verification.eager import explain

if TYPE_CHECKING:
    from opbridge.verification.correspondence import Correspondence

__all__ = ["Call", "Calls", "example_from_file", "fitted", "input_sets"]

_FORMS = (
    "Expected a list with one tuple, tensor or dict of inputs for each run, a function that returns one for the "
    "number of the run, or the paths of .npz or .npy files."
)
_LARGEST_BYTES = 1 << 40
"""What is larger than any computer's memory is no file of inputs."""

_POSITIONAL = re.compile(r"arr_(\d+)")


@dataclass(frozen=True)
class Call:
    """A call of the model: its positional and keyword inputs, in the structure of the example's.

    Attributes:
        label: What it is called in reports: "call 3".
        args: The positional inputs.
        kwargs: The keyword inputs.
    """

    label: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Calls:
    """Calls that were recorded (`opbridge.record`): tried beside fresh inputs and other sizes, not in their place.

    Attributes:
        calls: The calls.
    """

    calls: tuple[Call, ...]


def input_sets(inputs: Any, samples: int) -> Iterator[tuple[str, Any]]:
    """The sets of inputs that the user gives, each with its label: "inputs 1", or the name of its file.

    Args:
        inputs: What the user gave.
        samples: How many times a function is called.

    Raises:
        UsageError: It is of another kind, a file cannot be read, or the function raises.
    """
    if isinstance(inputs, Calls):
        yield from ((each.label, each) for each in inputs.calls)
        return
    if isinstance(inputs, (str, os.PathLike)):
        inputs = [inputs]
    if isinstance(inputs, (torch.Tensor, np.ndarray, Mapping)) or not (
        callable(inputs) or isinstance(inputs, (list, tuple))
    ):
        raise UsageError(f"inputs= is a {type(inputs).__name__}. {_FORMS}")
    if callable(inputs):
        for number in range(1, samples + 1):
            yield f"inputs {number}", _called(inputs, number)
        return
    if not inputs:
        raise UsageError(f"inputs= is empty. {_FORMS}")
    for number, each in enumerate(inputs, 1):
        if isinstance(each, (str, os.PathLike)):
            yield Path(each).name, _read(Path(each))
        else:
            yield f"inputs {number}", each


def _called(function: Callable[[int], Any], number: int) -> Any:
    try:
        return function(number)
    except Exception as error:  # the user's function raises anything
        raise UsageError(f"The function given as inputs= failed for run {number}: {explain(error)}.") from error


def _read(path: Path) -> tuple[Any, ...] | dict[str, Any]:
    """The inputs in a file.

    Raises:
        UsageError: It does not exist, or is none of NumPy's files.
    """
    if path.suffix not in (".npz", ".npy"):
        raise UsageError(
            f"{path} is not a file of inputs. Save them with numpy.savez as .npz, or a single array as .npy."
        )
    if why := files.problem(path, _LARGEST_BYTES):
        raise UsageError(f"The inputs in {path} cannot be read: {why}.")
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return (content,)
        with content:
            arrays = {name: content[name] for name in content.files}
    except Exception as error:  # a damaged file raises anything
        reason = "it does not exist" if not path.exists() else str(error)
        raise UsageError(f"The inputs in {path} cannot be read: {reason}.") from error
    numbers = [_POSITIONAL.fullmatch(name) for name in arrays]
    if all(numbers):
        return tuple(arrays[name] for name in sorted(arrays, key=lambda name: int(name.removeprefix("arr_"))))
    return arrays


def example_from_file(path: str | os.PathLike[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs in a file as example inputs: `args`, and `kwargs` for named arrays.

    Raises:
        UsageError: The file cannot be read.
    """
    content = _read(Path(path))
    if isinstance(content, dict):
        return (), {name: _tensor(array, None) for name, array in content.items()}
    return tuple(_tensor(array, None) for array in content), {}


def fitted(
    given: Any, label: str, matching: Correspondence, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A set of inputs in the structure of the example inputs.

    Args:
        given: The set.
        label: What it is called in errors.
        matching: The inputs of the file.
        args: The example's positional inputs.
        kwargs: The example's keyword inputs.

    Raises:
        UsageError: It has other inputs than the file, or ones of another dtype or shape.
    """
    if isinstance(given, Call):
        given = (given.args, {name: given.kwargs.get(name) for name in kwargs})
        leaves, structure = pytree.tree_flatten(caches.of_all_tokens(given))
        if structure != pytree.tree_structure((args, dict(kwargs))):
            raise UsageError(f"{label} does not have the same inputs as the example. {_expected(matching)}")
        given = tuple(leaves[position] for position in matching.positions)
    register_containers(given)
    values = _named(given, label, matching, args, kwargs) if isinstance(given, Mapping) else None
    if values is None:
        values = _in_order(given, label, matching, args, kwargs)
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    for number, (position, value) in enumerate(zip(matching.positions, values, strict=True)):
        leaf = _like(value, leaves[position])
        if leaf is None:
            raise UsageError(
                f"{label}: input '{matching.names[number]}' is a {type(value).__name__}; expected a tensor or "
                f"an array. {_expected(matching)}"
            )
        matching.check_given(number, as_tensor(leaf), label)
        if position in matching.fixed and not torch.equal(as_tensor(leaf), as_tensor(leaves[position])):
            raise UsageError(
                f"{label}: the model converts the values of '{matching.names[number]}' to Python numbers, so the "
                "file is valid only for the values of the example. Give these values."
            )
        leaves[position] = leaf
    return pytree.tree_unflatten(leaves, structure)


def _named(
    given: Mapping[str, Any], label: str, matching: Correspondence, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Any] | None:
    """The values for the file's inputs, in their order; None where the names are those of keyword inputs."""
    if set(given) == set(matching.names):
        return [given[name] for name in matching.names]
    if kwargs and not args and set(given) == set(kwargs):
        return None
    missing = [name for name in matching.names if name not in given]
    unknown = [repr(name) for name in given if name not in matching.names]
    said = [f"lacks {listed(missing, 6)}"] if missing else []
    said += [f"has the unknown inputs {listed(unknown, 6)}"] if unknown else []
    raise UsageError(f"{label} {' and '.join(said)}. {_expected(matching)}")


def _in_order(
    given: Any, label: str, matching: Correspondence, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The values for the file's inputs from a tuple, one tensor, or a dict of all keyword inputs."""
    if isinstance(given, Mapping):
        whole: Any = ((), {name: given[name] for name in kwargs})
    elif _is_of_both_kinds(given, args, kwargs):
        whole = (given[0], {name: given[1][name] for name in kwargs})
    elif isinstance(given, (tuple, list)):
        whole = (tuple(given), {})
    else:
        whole = ((given,), {})
    leaves, structure = pytree.tree_flatten(caches.of_all_tokens(whole))
    if structure == pytree.tree_structure((args, dict(kwargs))):
        return [leaves[position] for position in matching.positions]
    tensors = [leaf for leaf in leaves if leaf is not None and not isinstance(leaf, (str, bool))]
    if len(tensors) != len(matching.names):
        raise UsageError(f"{label} has {counted(len(tensors), 'input')}. {_expected(matching)}")
    return tensors


def _is_of_both_kinds(given: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a set consists of the positional inputs and the keyword inputs, as many as the example has."""
    if not (kwargs and isinstance(given, tuple) and len(given) == 2):
        return False
    positional, named = given
    return (
        isinstance(positional, tuple)
        and isinstance(named, Mapping)
        and len(positional) == len(args)
        and set(named) == set(kwargs)
    )


def _expected(matching: Correspondence) -> str:
    inputs: Sequence[str] = matching.described()
    return f"The file has {counted(len(inputs), 'input')}: {listed(inputs, 8)}."


def _like(value: Any, example: Any) -> Any:
    """A value as the example has it: a tensor on its device, or a number; None where it is none."""
    if isinstance(example, torch.Tensor):
        return _tensor(value, example)
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        return value.item() if np.prod(value.shape) == 1 else None
    return value if isinstance(value, (int, float)) else None


def _tensor(value: Any, example: torch.Tensor | None) -> torch.Tensor | None:
    """A tensor or an array as a tensor on the example's device; bfloat16 may come as float32, which NumPy has."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "V" and value.dtype.itemsize == 2:  # how NumPy stores bfloat16
            value = torch.from_numpy(np.ascontiguousarray(value).view(np.int16)).view(torch.bfloat16)
        elif value.dtype.kind not in "biufc":
            return None
        else:
            value = torch.from_numpy(np.ascontiguousarray(value).reshape(value.shape))
            if example is not None and example.dtype == torch.bfloat16 and value.dtype == torch.float32:
                value = value.to(torch.bfloat16)
    if not isinstance(value, torch.Tensor):
        return None
    return value if example is None else value.to(example.device)
