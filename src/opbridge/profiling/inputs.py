"""The inputs that a file is profiled on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime

from opbridge.base.size_expressions import evaluate
from opbridge.errors import UsageError
from opbridge.rules.measured import Inputs, arrays_of
from opbridge.runtimes.arguments import NodeArgument
from opbridge.side_by_side import feeds_of_shapes

__all__ = ["DEFAULT_BATCH", "DEFAULT_SIZE", "as_value", "given_feeds", "random_feeds", "sizes_given", "sizes_of"]

DEFAULT_BATCH, DEFAULT_SIZE = 1, 64
"""What a dynamic dimension has that no size is given for: the first of an input, and any other."""

_SYMBOL = re.compile(r"[^\W\d]\w*")
_ITEM = re.compile(r"(?P<name>[^=]+)=(?P<size>\d+)")


def sizes_given(given: Mapping[str, int] | Sequence[str] | None) -> dict[str, int]:
    """The sizes of dynamic dimensions by their names.

    Args:
        given: {"n": 8}, or "n=8", several separated by commas. A dimension without a name is written as "x:0", the
            input and the axis.

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(given, Mapping):
        for name, size in given.items():
            if type(size) is not int or size < 0:
                raise UsageError(f"sizes={{{name!r}: {size!r}}} is invalid; expected a size, such as 8.")
        return {str(name): size for name, size in given.items()}
    found = {}
    for item in (each.strip() for text in given or () for each in text.split(",")):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise UsageError(f"Invalid value for --size: '{item}'. Expected NAME=SIZE, such as n=8.")
        found[match["name"].strip()] = int(match["size"])
    return found


def sizes_of(
    arguments: Sequence[NodeArgument], given: Mapping[str, int]
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """The shapes of the inputs, and the sizes of their dynamic dimensions.

    1. A dimension has the size that is given for its name, or for "x:0", the input and the axis.
    2. One whose name is an expression, such as "past + seq", has what the sizes of its symbols give.
    3. Any other has `DEFAULT_BATCH` where it is the first of an input, else `DEFAULT_SIZE`.

    Raises:
        UsageError: A size is given for something that is no dynamic dimension of the file.
    """
    chosen: dict[str, int] = {}
    used: set[str] = set()

    def size_of(key: str, name: str, axis: int) -> int:
        for each in (name, key):
            if each in given:
                used.add(each)
                return chosen.setdefault(each, given[each])
        symbols = _SYMBOL.findall(name)
        if name and symbols != [name]:
            inner = {each: size_of(each, each, 1) for each in symbols}
            try:
                return evaluate(name, inner)
            except ValueError:  # no expression of the names
                pass
        return chosen.setdefault(name or key, DEFAULT_SIZE if axis else DEFAULT_BATCH)

    shapes = {
        each.name: [
            size if isinstance(size, int) else size_of(f"{each.name}:{axis}", size or "", axis)
            for axis, size in enumerate(each.shape)
        ]
        for each in arguments
    }
    if unknown := given.keys() - used:
        known = ", ".join(chosen) or "none"
        raise UsageError(
            f"A size is given for '{min(unknown)}', which is no dynamic dimension of the file. Its dynamic dimensions "
            f"are: {known}."
        )
    return shapes, chosen


def random_feeds(arguments: Sequence[NodeArgument], shapes: Mapping[str, Sequence[int]]) -> list[dict[str, np.ndarray]]:
    """Random inputs: several that differ in the range of integers, the first of which that runs is taken.

    Raises:
        UsageError: An input is of a type for which there are no random values, or too large.
    """
    found = feeds_of_shapes(arguments, shapes)
    if isinstance(found, str):
        raise UsageError(f"{found} Give the inputs in an .npz file (--inputs), or the model that they are of (SPEC).")
    return found


def given_feeds(arguments: Sequence[NodeArgument], inputs: Inputs) -> dict[str, np.ndarray]:
    """The inputs that the user gives.

    Raises:
        UsageError: There are more or fewer arrays than inputs, or the file cannot be read.
    """
    return arrays_of([each.name for each in arguments], inputs)


def as_value(name: str, array: Any) -> Any:
    """An array as ONNX Runtime takes it.

    Raises:
        UsageError: It holds texts.
    """
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    if array.dtype == ml_dtypes.bfloat16:
        bits = array.view(np.uint16)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, int(onnx.TensorProto.BFLOAT16))
    if array.dtype.kind not in "biufc":
        raise UsageError(f"The input '{name}' holds texts. Only models with numeric inputs can be profiled.")
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)
