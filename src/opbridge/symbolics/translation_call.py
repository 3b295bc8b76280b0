"""One call of a translation as a symbolic function: converted arguments, explicit promotion, results with dtypes.

`opbridge.symbolics.bridging` says which steps these are, and chooses the translation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import torchscript_graph
from opbridge.errors import TranslationError
from opbridge.graph.promotion import promoted_dtype
from opbridge.onnx import onnxscript_private
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.symbolics.arguments import Constant, Misfit, RuntimeValue
from opbridge.symbolics.emitting import emit
from opbridge.translations import signature
from opbridge.translations.registry import Translation

__all__ = ["TranslationCall"]

# Constants with more elements than this are weights, whose values no translation needs.
_LARGEST_CONSTANT = 4096


class TranslationCall:
    """One call of a translation.

    Args:
        g: The `g` of the symbolic function.
        entry: The translation.
        target: The operator.
        schema: Its schema.
        outputs: The outputs of the node of the trace.
        attributes: The keyword arguments of the symbolic function.
    """

    def __init__(
        self,
        g: Any,
        entry: Translation,
        target: Any,
        schema: Any,
        outputs: Sequence[Any],
        attributes: Mapping[str, Any],
    ) -> None:
        self.g = g
        self.entry = entry
        self.target = target
        self.parameters = [each for each in schema.arguments if not each.is_out]
        self.outputs = outputs
        self.count = attributes.get("_outputs")
        self.builder = Builder(g.opset)
        self.known: dict[int, Any] = {}

    def run(self, arguments: Sequence[Any]) -> Any:
        """Calls the translation, and builds its nodes in the graph of `g`.

        Args:
            arguments: Python values, `Constant`s and `RuntimeValue`s, one for each parameter of the schema.

        Returns:
            The graph's value of the result, or a list of them.

        Raises:
            Misfit: The translation needs a size or a dtype that the trace does not have.
            TranslationError: It returned other values than the operator.
        """
        with self.builder.translating(), torch.no_grad():
            promoted = self._promoted_dtype(arguments)
            pairs = list(zip(self.parameters, arguments, strict=True))
            converted = [self._convert(each.name, value, promoted) for each, value in pairs]
            built = self._call(converted)
            values = list(built) if isinstance(built, (list, tuple)) else [built]
            expected = [_dtype_of(each) for each in self.outputs]
            # A list that is one value of the trace, as opposed to one that is unpacked immediately.
            is_list = isinstance(built, (list, tuple)) and _returns_list(self.target) and self.count is None
            if is_list:
                expected = [None] * len(values)
            if len(values) != len(expected):
                raise TranslationError(f"it returned {len(values)} values, but the node has {len(expected)}")
            results = [self._cast_result(value, dtype) for value, dtype in zip(values, expected, strict=True)]
        made = emit(self.g, self.builder, results, self.known)
        if is_list:
            return torchscript_graph.tensor_list(self.g, made)
        return made[0] if self.count is None and len(made) == 1 else made

    def _promoted_dtype(self, arguments: Sequence[Any]) -> torch.dtype | None:
        """The dtype that the tensors have to be converted to; None where they stay as they are."""
        result = _meta(_dtype_of(self.outputs[0]), 1)
        dtype = promoted_dtype(self.target, [_for_promotion(each) for each in arguments], result)
        wrapped = any(isinstance(each, Constant) and each.is_number for each in arguments)
        if dtype is not None and wrapped and isinstance(result, torch.Tensor):
            # A tensor without dimensions takes part in promotion, a Python number less; the trace has the right dtype.
            if dtype.is_floating_point and result.dtype.is_floating_point:
                return result.dtype
        return dtype

    def _call(self, converted: Sequence[Any]) -> Any:
        positional, keywords = [], {}
        names, takes_more, takes_named = onnxscript_private.parameters(self.entry.function)
        for parameter, value in zip(self.parameters, converted, strict=True):
            if parameter.kwarg_only:
                if takes_named or parameter.name in names or parameter.name not in signature.IGNORED_ARGUMENTS:
                    keywords[parameter.name] = value
            else:
                positional.append(value)
        if not takes_more and len(positional) > len(names):
            extra = self.parameters[len(names) : len(positional)]
            if all(parameter.name in signature.IGNORED_ARGUMENTS for parameter in extra):
                positional = positional[: len(names)]
        return self.entry.function(*positional, **keywords)

    def _convert(self, name: str, argument: Any, promoted: torch.dtype | None) -> Any:
        """An argument in the form in which translations receive it."""
        if argument is None and name == "dtype" and self.entry.origin == "torchlib":
            return -1
        if isinstance(argument, list):
            return [self._convert("", item, promoted) for item in argument]
        if isinstance(argument, torch.dtype):
            return int(onnx_dtype(argument))
        if isinstance(argument, Constant):
            return self._constant(argument, promoted)
        if isinstance(argument, RuntimeValue):
            if argument.rank == 1 and _wants_list(self.parameters, name):
                return self._items(argument)
            return self._cast(self._runtime_value(argument), promoted)
        return argument

    def _constant(self, argument: Constant, promoted: torch.dtype | None) -> Any:
        tensor = argument.tensor
        if promoted is None and argument.is_number and _is_pointwise(self.target):
            return tensor.item()
        if tensor.is_complex():
            raise Misfit("its input is complex")
        if self.target is torch.ops.aten.expand_as.default:
            tensor = _narrowed(tensor)
        if promoted is not None:
            tensor = tensor.to(promoted)
        elif tensor.numel() > _LARGEST_CONSTANT:
            return self._runtime_value(RuntimeValue(argument.value, tensor.dtype, tensor.dim(), tuple(tensor.shape)))
        return self.builder.constant(TorchTensor(tensor).numpy(), onnx_dtype(tensor.dtype))

    def _runtime_value(self, argument: RuntimeValue) -> Tensor:
        if argument.dtype is None or argument.rank is None:
            raise Misfit(f"the {'dtype' if argument.dtype is None else 'rank'} of an input is not known")
        if argument.dtype.is_complex:
            raise Misfit("its input is complex")
        sizes = argument.sizes if argument.sizes is not None else (None,) * argument.rank
        # Each unknown size gets a new name, since no two of them are known to be equal.
        shape = [self.builder.unique("size") if size is None else size for size in sizes]
        value = self.builder.value(self.builder.unique("input"), onnx_dtype(argument.dtype), shape)
        self.known[id(value)] = argument.value
        return value

    def _items(self, argument: RuntimeValue) -> list[Any]:
        """A list of sizes that is one tensor, as its elements."""
        sizes = argument.value.type().varyingSizes() if argument.value.type().kind() == "TensorType" else None
        if sizes is None or sizes[0] is None:
            raise Misfit("its input is a list of unknown length")
        whole = self._runtime_value(argument)
        parts = []
        for index in range(sizes[0]):
            part = self.builder.emit("Gather", (whole, self.builder.constant(index)))
            part.shape = ir.Shape([])
            parts.append(part)
        return parts

    def _cast(self, value: Tensor, dtype: torch.dtype | None) -> Tensor:
        if dtype is None:
            return value
        converted = self.builder.emit("Cast", (value,), {"to": onnx_dtype(dtype)})
        converted.shape = value.shape
        return converted

    def _cast_result(self, value: Any, dtype: torch.dtype | None) -> Tensor:
        """A result in the dtype that the trace has."""
        if not isinstance(value, ir.Value):
            if value is None or isinstance(value, (list, tuple, str)):
                raise TranslationError("it returned no tensor")
            value = self.builder.constant(value)
        if isinstance(value.type, ir.SequenceType):
            raise Misfit("it returns a sequence")
        wanted = None if dtype is None else onnx_dtype(dtype)
        if wanted is not None and value.dtype is not None and value.dtype != wanted:
            value = self.builder.emit("Cast", (value,), {"to": wanted})
        elif wanted is not None and value.dtype is None:
            value.type = ir.TensorType(wanted)
        return value


def _for_promotion(argument: Any) -> Any:
    """An argument in the form in which type promotion looks at it."""
    if isinstance(argument, Constant):
        return argument.tensor.item() if argument.is_number else _meta(argument.tensor.dtype, argument.tensor.dim())
    if isinstance(argument, RuntimeValue):
        return _meta(argument.dtype, argument.rank)
    return argument


def _meta(dtype: torch.dtype | None, rank: int | None) -> torch.Tensor | None:
    if dtype is None:
        return None
    return torch.empty((1,) * (1 if rank is None else rank), dtype=dtype, device="meta")


def _dtype_of(value: Any) -> torch.dtype | None:
    kind = value.type()
    return kind.dtype() if kind.kind() == "TensorType" else None


def _is_pointwise(target: Any) -> bool:
    return torch.Tag.pointwise in target.tags


def _returns_list(target: Any) -> bool:
    return any(str(each.type).startswith("List[") for each in target._schema.returns)


def _wants_list(parameters: Sequence[Any], name: str) -> bool:
    return any(each.name == name and "List[" in str(each.real_type) for each in parameters)


def _narrowed(tensor: torch.Tensor) -> torch.Tensor:
    """A constant with size 1 in place of the dimensions along which it repeats.

    A write to a part of a tensor leaves `expand_as` of what is written in a trace, which a constant has behind it: it
    has the sizes of the example's part.
    """
    for dim, size in enumerate(tensor.shape):
        if size > 1 and torch.equal(tensor.narrow(dim, 0, 1).expand_as(tensor), tensor):
            tensor = tensor.narrow(dim, 0, 1)
    return tensor
