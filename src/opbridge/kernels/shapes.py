"""The shapes of a kernel's outputs in a capture: its shape function, called with sizes that may be symbolic.

A symbolic size is a number to the library, and its arithmetic and comparisons come back here, where torch's own SymInt
does them: a comparison becomes a condition of the capture, as it would in Python. So the result holds for every size
that the capture admits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from opbridge.base.dtypes import onnx_dtype, torch_dtype
from opbridge.errors import UsageError
from opbridge.kernels.library import Library

__all__ = ["infer"]


class _Dim(ctypes.Structure):
    _fields_ = (("known", ctypes.c_int64), ("symbol", ctypes.c_int64))


class _Given(ctypes.Structure):
    pass


_Given._fields_ = (
    ("given", ctypes.c_int32),
    ("type", ctypes.c_int32),
    ("count", ctypes.c_int64),
    ("dims", ctypes.POINTER(_Dim)),
    ("numbers", ctypes.POINTER(ctypes.c_double)),
    ("text", ctypes.c_char_p),
    ("items", ctypes.POINTER(_Given)),
)

_DimPointer = ctypes.POINTER(_Dim)
_Apply = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, _DimPointer, _DimPointer, _DimPointer)


class _Symbols(ctypes.Structure):
    _fields_ = (("apply", _Apply), ("self", ctypes.c_void_p))


class _Inferred(ctypes.Structure):
    _fields_ = (
        ("outputs", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_int32)),
        ("ranks", ctypes.POINTER(ctypes.c_int64)),
        ("dims", ctypes.POINTER(_Dim)),
    )


# In the order of the header's `Operation`.
_OPERATIONS: tuple[Any, ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: torch.sym_min(a, b),
    lambda a, b: torch.sym_max(a, b),
    lambda a, b: int(bool(a == b)),
    lambda a, b: int(bool(a < b)),
    lambda a, b: int(a),
)


class _Call:
    """One call of a shape function: what the numbers in it stand for."""

    def __init__(self) -> None:
        self.sizes: list[Any] = []
        self.kept: list[Any] = []  # what the library reads has to live until it is done
        self.error: BaseException | None = None

    def dim(self, size: Any) -> _Dim:
        if isinstance(size, torch.SymInt):
            constant = size.node.maybe_as_int()
            if constant is not None:
                return _Dim(constant, 0)
            self.sizes.append(size)
            return _Dim(0, len(self.sizes))
        return _Dim(int(size), 0)

    def size(self, dim: _Dim) -> Any:
        return self.sizes[dim.symbol - 1] if dim.symbol else dim.known

    def dims(self, sizes: Sequence[Any]) -> Any:
        return self.array(_Dim, [self.dim(size) for size in sizes])

    def array(self, kind: Any, items: Sequence[Any]) -> Any:
        made = (kind * max(1, len(items)))(*items)
        self.kept.append(made)
        return ctypes.cast(made, ctypes.POINTER(kind))

    def given(self, type_: str, value: Any) -> _Given:
        """An argument in the header's form."""
        result = _Given()
        if value is None:
            return result
        result.given = 1
        kind = type_.rstrip("?")
        if kind == "Tensor":
            result.type, result.count, result.dims = _type_number(value.dtype), value.dim(), self.dims(value.shape)
        elif kind == "Tensor[]":
            result.count = len(value)
            result.items = self.array(_Given, [self.given("Tensor", item) for item in value])
        elif kind in ("int", "SymInt", "bool"):
            result.dims = self.dims([value])
        elif kind == "float":
            result.numbers = self.array(ctypes.c_double, [float(value)])
        elif kind == "str":
            encoded = value.encode()
            self.kept.append(encoded)
            result.count, result.text = len(encoded), encoded
        elif kind in ("int[]", "SymInt[]"):
            result.count, result.dims = len(value), self.dims(value)
        else:
            result.count = len(value)
            result.numbers = self.array(ctypes.c_double, [float(item) for item in value])
        return result

    def apply(self, _self: Any, operation: int, left: Any, right: Any, result: Any) -> int:
        """What the library asks of symbolic sizes."""
        try:
            found = self.dim(_OPERATIONS[operation](self.size(left[0]), self.size(right[0])))
            result[0].known, result[0].symbol = found.known, found.symbol
            return 0
        except BaseException as error:  # a ctypes callback cannot raise
            self.error = error
            return 1


def infer(
    library: Library, index: int, name: str, types: Sequence[str], values: Sequence[Any]
) -> list[tuple[torch.dtype, list[Any]]]:
    """The dtypes and shapes of an operator's outputs.

    Args:
        library: Its library.
        index: Its number in the library.
        name: Its name.
        types: The types of its arguments, as the schema writes them.
        values: The arguments: fake tensors, numbers, lists.

    Returns:
        For each output its dtype and sizes; a size that only the kernel can tell is new and unknown.

    Raises:
        RuntimeError: what the shape function throws, in its words.
    """
    call = _Call()
    given = (_Given * max(1, len(values)))(
        *(call.given(type_, value) for type_, value in zip(types, values, strict=True))
    )
    symbols = _Symbols(_Apply(call.apply), None)
    result = _Inferred()
    function = library.native.opbridge_infer
    function.restype = ctypes.c_int32
    failed = function(ctypes.c_int32(index), given, ctypes.byref(symbols), ctypes.byref(result))
    if call.error is not None:
        raise call.error
    if failed:
        last = library.native.opbridge_last_error
        last.restype = ctypes.c_char_p
        raise RuntimeError(f"{name}: {last().decode(errors='replace')}")
    new: dict[int, Any] = {}
    outputs = []
    place = 0
    for output in range(result.outputs):
        sizes = []
        for _ in range(result.ranks[output]):
            dim = result.dims[place]
            place += 1
            if dim.symbol < 0:
                if dim.symbol not in new:
                    new[dim.symbol] = torch.library.get_ctx().new_dynamic_size()
                sizes.append(new[dim.symbol])
            else:
                sizes.append(call.size(dim))
        outputs.append((torch_dtype(_data_type(result.types[output])), sizes))
    return outputs


def _type_number(dtype: torch.dtype) -> int:
    """ONNX's number of a dtype; 0 for those that no kernel takes."""
    try:
        return 0 if dtype.is_complex else int(onnx_dtype(dtype))
    except UsageError:
        return 0


def _data_type(number: int) -> Any:
    import onnx_ir as ir

    return ir.DataType(number)
