"""NumPy arrays as they travel between processes: what a header says of one, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from opbridge.errors import UsageError
from opbridge.runtimes.messages import Read

__all__ = ["dtype_named", "from_message", "to_message"]

_OF_NUMBERS = "biufc"
_NAMED = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4")
}


def dtype_named(name: str) -> np.dtype:
    """A type by its name: "float32", "bfloat16".

    Raises:
        TypeError: There is none of this name.
    """
    return _NAMED.get(name) or np.dtype(name)


def to_message(value: Any) -> tuple[dict[str, Any], bytes | memoryview]:
    """What a header says of an array, and its bytes. Texts are in the header.

    Raises:
        UsageError: It is no array.
    """
    if not isinstance(value, (np.ndarray, np.generic)):
        raise UsageError(f"A runtime in a separate process supports only tensors, got {type(value)}.")
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    described: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape), "size": array.nbytes}
    if array.dtype.kind in _OF_NUMBERS or array.dtype.name in _NAMED:
        return described, array.reshape(-1).view(np.uint8).data if array.size else b""
    texts = [each if isinstance(each, str) else str(each) for each in array.reshape(-1).tolist()]
    return {**described, "dtype": "str", "size": 0, "texts": texts}, b""


def from_message(described: Mapping[str, Any], read: Read) -> np.ndarray:
    """An array of what `to_message` gave, whose bytes come by a function that reads so many.

    Raises:
        ValueError: The bytes are not as many as such an array has.
    """
    shape = [int(each) for each in described["shape"]]
    if described["dtype"] == "str":
        return np.array([str(each) for each in described["texts"]], object).reshape(shape)
    dtype = dtype_named(str(described["dtype"]))
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size != described["size"]:
        raise ValueError("the size of a tensor does not match its shape")
    return np.frombuffer(read(size) if size else b"", dtype).reshape(shape)
