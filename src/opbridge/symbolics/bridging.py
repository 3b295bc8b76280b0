"""The way back: our translations as symbolic functions of torch.onnx's TorchScript exporter.

A symbolic function is called for one node of a trace. What `as_symbolic` makes of translations does this:

1. The arguments are read by the operator's schema, and the overload is found (`arguments`).
2. Tensors become values of a `Builder` at the exporter's opset. They have the dtype and rank of the trace. Sizes are
   known of weights, constants and the model's own inputs only: any other size in a trace is the example's, and freezing
   it would be wrong without a word.
3. Implicit type promotion is made explicit, as in `translate`.
4. The translation runs, and its nodes are said again through `g.op` (`emitting`), with the dtypes of the trace.
5. Where no overload fits or the translation cannot do without a size, torch's own symbolic function is called instead;
   where there is none, the error says both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.base.torch_private import torch_operators, torchscript_export, torchscript_graph
from opbridge.errors import TranslationError
from opbridge.graph.promotion import promoted_dtype
from opbridge.onnx import onnxscript_private
from opbridge.onnx.builder import Builder
from opbridge.onnx.tensor import Tensor
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.symbolics.arguments import Constant, Live, Misfit, choose, read
from opbridge.symbolics.emitting import emit
from opbridge.translations import signature
from opbridge.translations.registry import Registry, Translation

__all__ = ["Bridged", "as_symbolic", "translations_by_base_name"]

_RAISED_BY_TRANSLATIONS = (
    TranslationError,
    NotImplementedError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    KeyError,
)

# Constants above this many elements are weights, which a translation has no need to look into.
_SMALL = 4096


# What torch.onnx makes of writes to a part of a tensor. Its values are then in the order of the elements written, in a
# shape that the operator would not broadcast.
_REWRITTEN = frozenset({"aten::index_put", "aten::index_put_"})


class Bridged:
    """What came of one call.

    Attributes:
        operator: The overload, "aten::add.Tensor".
        translation: The translation that was used; None where torch's own symbolic function was.
        reason: Why the translations were not used.
        functions: ONNX functions that the translation calls.
    """

    def __init__(self) -> None:
        self.operator = ""
        self.translation: Translation | None = None
        self.reason = ""
        self.functions: dict[Any, ir.Function] = {}


def translations_by_base_name(registry: Registry) -> dict[str, list[Translation]]:
    """The translations that TorchScript can have a use for, by the name that it looks them up by.

    Left out are those for complex numbers, which TorchScript's exporter does not do, and what only a graph of
    torch.export contains.
    """
    found: dict[str, list[Translation]] = {}
    for operator, entries in registry.entries.items():
        if operator.partition("::")[0] in ("_operator", "math", "builtins", "torch", "higher_order", "prims"):
            continue
        kept = [entry for entry in entries if not entry.complex and getattr(entry, "form", "translation") != "symbolic"]
        if kept:
            found.setdefault(operator.partition(".")[0], []).extend(kept)
    return found


def as_symbolic(
    entries: Sequence[Translation],
    *,
    fallback: Callable[[int], Callable[..., Any] | None] = lambda opset: None,
    told: Callable[[Bridged], None] | None = None,
) -> Callable[..., Any]:
    """Translations of one operator, all its overloads together, as one symbolic function.

    Args:
        entries: The translations.
        fallback: The symbolic function that takes their place where they cannot be used, by opset.
        told: Who is told what came of each call.
    """
    registry = Registry()
    for entry in entries:
        registry.add(entry)
    operators = list(registry.entries)

    def symbolic(g: Any, *arguments: Any, **attributes: Any) -> Any:
        outcome = Bridged()
        try:
            return _call(g, registry, operators, arguments, attributes, outcome)
        except Misfit as misfit:
            outcome.reason = str(misfit)
        except _RAISED_BY_TRANSLATIONS as error:
            outcome.reason = _first_line(error)
        finally:
            if told is not None and not outcome.reason:
                told(outcome)
        outcome.translation = None
        other = fallback(g.opset)
        if told is not None:
            told(outcome)
        if other is None:
            raise torchscript_export.unsupported_error(
                f"{outcome.operator or operators[0]}: its translation cannot be used in a TorchScript graph, as "
                f"{outcome.reason}, and torch.onnx has no symbolic function for it at opset {g.opset}. Register one "
                "with torch.onnx.register_custom_op_symbolic."
            )
        return other(g, *arguments, **attributes)

    return symbolic


def _call(
    g: Any,
    registry: Registry,
    operators: Sequence[str],
    arguments: Sequence[Any],
    attributes: Mapping[str, Any],
    outcome: Bridged,
) -> Any:
    node = g.original_node
    if node.kind() in _REWRITTEN and any(_is_rewritten(each) for each in node.inputs()):
        raise Misfit("it is torch.onnx's own way to write in place, in a form that no operator of torch has")
    originals = list(node.inputs())
    if len(originals) != len(arguments):
        originals = [None] * len(arguments)
    given = [read(g.graph, value, original) for value, original in zip(arguments, originals, strict=True)]
    known = [(name, target) for name in operators if (target := torch_operators.operator_object(name)) is not None]
    named = node.schema()
    usable = [(name, target._schema) for name, target in known if registry.find(name, g.opset) is not None]
    operator, schema, chosen = choose(usable, given, named)
    outcome.operator = operator
    entry = registry.find(operator, g.opset)
    assert entry is not None
    call = _Translated(g, entry, dict(known)[operator], schema, list(node.outputs()), attributes)
    results = call.run(chosen)
    outcome.translation, outcome.functions = entry, dict(call.builder.functions)
    return results


class _Translated:
    """One call of a translation."""

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
        with self.builder.translating(), torch.no_grad():
            promoted = self.promoted(arguments)
            pairs = list(zip(self.parameters, arguments, strict=True))
            converted = [self.convert(each.name, value, promoted) for each, value in pairs]
            built = self.called(converted)
            values = list(built) if isinstance(built, (list, tuple)) else [built]
            expected = [_dtype_of(each) for each in self.outputs]
            # A list that is one value of the trace, as opposed to one that is unpacked on the spot.
            is_list = isinstance(built, (list, tuple)) and _returns_list(self.target) and self.count is None
            if is_list:
                expected = [None] * len(values)
            if len(values) != len(expected):
                raise TranslationError(f"it gave {len(values)} values, and the node has {len(expected)}")
            results = [self.settled(value, dtype) for value, dtype in zip(values, expected, strict=True)]
        made = emit(self.g, self.builder, results, self.known)
        if is_list:
            return torchscript_graph.tensor_list(self.g, made)
        return made[0] if self.count is None and len(made) == 1 else made

    def promoted(self, arguments: Sequence[Any]) -> torch.dtype | None:
        """The dtype that the tensors have to be converted to; None where they stay as they are."""
        result = _meta(_dtype_of(self.outputs[0]), 1)
        dtype = promoted_dtype(self.target, [_stand_in(each) for each in arguments], result)
        wrapped = any(isinstance(each, Constant) and each.is_number for each in arguments)
        if dtype is not None and wrapped and isinstance(result, torch.Tensor):
            # A tensor without dimensions that is no Python number weighs more; the trace knows which it was.
            if dtype.is_floating_point and result.dtype.is_floating_point:
                return result.dtype
        return dtype

    def called(self, converted: Sequence[Any]) -> Any:
        positional, keywords = [], {}
        names, takes_more, takes_named = onnxscript_private.parameters(self.entry.function)
        for parameter, value in zip(self.parameters, converted, strict=True):
            if parameter.kwarg_only:
                if takes_named or parameter.name in names or parameter.name not in signature.HOLDING:
                    keywords[parameter.name] = value
            else:
                positional.append(value)
        if not takes_more and len(positional) > len(names):
            extra = self.parameters[len(names) : len(positional)]
            if all(parameter.name in signature.HOLDING for parameter in extra):
                positional = positional[: len(names)]
        return self.entry.function(*positional, **keywords)

    def convert(self, name: str, argument: Any, promoted: torch.dtype | None) -> Any:
        """An argument in the form that translations take it."""
        if argument is None and name == "dtype" and self.entry.origin == "torchlib":
            return -1
        if isinstance(argument, list):
            return [self.convert("", item, promoted) for item in argument]
        if isinstance(argument, torch.dtype):
            return int(onnx_dtype(argument))
        if isinstance(argument, Constant):
            return self.constant(argument, promoted)
        if isinstance(argument, Live):
            if argument.rank == 1 and _wants_list(self.parameters, name):
                return self.items(argument)
            return self.cast(self.live(argument), promoted)
        return argument

    def constant(self, argument: Constant, promoted: torch.dtype | None) -> Any:
        tensor = argument.tensor
        if promoted is None and argument.is_number and _is_pointwise(self.target):
            return tensor.item()
        if tensor.is_complex():
            raise Misfit("it is given complex numbers")
        if promoted is not None:
            tensor = tensor.to(promoted)
        elif tensor.numel() > _SMALL:
            return self.live(Live(argument.value, tensor.dtype, tensor.dim(), tuple(tensor.shape)))
        return self.builder.constant(TorchTensor(tensor).numpy(), onnx_dtype(tensor.dtype))

    def live(self, argument: Live) -> Tensor:
        if argument.dtype is None or argument.rank is None:
            raise Misfit(f"the {'dtype' if argument.dtype is None else 'rank'} of an input is not known")
        if argument.dtype.is_complex:
            raise Misfit("it is given complex numbers")
        sizes = argument.sizes if argument.sizes is not None else (None,) * argument.rank
        # Each unknown size by a name of its own: no two of them are known to be equal.
        shape = [self.builder.unique("size") if size is None else size for size in sizes]
        value = self.builder.value(self.builder.unique("input"), onnx_dtype(argument.dtype), shape)
        self.known[id(value)] = argument.value
        return value

    def items(self, argument: Live) -> list[Any]:
        """A list of sizes that is one tensor, as its elements."""
        sizes = argument.value.type().varyingSizes() if argument.value.type().kind() == "TensorType" else None
        if sizes is None or sizes[0] is None:
            raise Misfit("it is given a list of unknown length")
        whole = self.live(argument)
        parts = []
        for index in range(sizes[0]):
            part = self.builder.emit("Gather", (whole, self.builder.constant(index)))
            part.shape = ir.Shape([])
            parts.append(part)
        return parts

    def cast(self, value: Tensor, dtype: torch.dtype | None) -> Tensor:
        if dtype is None:
            return value
        converted = self.builder.emit("Cast", (value,), {"to": onnx_dtype(dtype)})
        converted.shape = value.shape
        return converted

    def settled(self, value: Any, dtype: torch.dtype | None) -> Tensor:
        """A result in the dtype that the trace has."""
        if not isinstance(value, ir.Value):
            if value is None or isinstance(value, (list, tuple, str)):
                raise TranslationError("it gave no tensor")
            value = self.builder.constant(value)
        if isinstance(value.type, ir.SequenceType):
            raise Misfit("it gives a sequence")
        wanted = None if dtype is None else onnx_dtype(dtype)
        if wanted is not None and value.dtype is not None and value.dtype != wanted:
            value = self.builder.emit("Cast", (value,), {"to": wanted})
        elif wanted is not None and value.dtype is None:
            value.type = ir.TensorType(wanted)
        return value


def _is_rewritten(value: Any) -> bool:
    """Whether a tensor of a trace is none that the model computed: those have sizes."""
    if value.node().kind() == "prim::ListConstruct":
        return any(_is_rewritten(each) for each in value.node().inputs())
    kind = value.type()
    return kind.kind() == "TensorType" and kind.dim() is None


def _stand_in(argument: Any) -> Any:
    """An argument as promotion looks at it."""
    if isinstance(argument, Constant):
        return argument.tensor.item() if argument.is_number else _meta(argument.tensor.dtype, argument.tensor.dim())
    if isinstance(argument, Live):
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


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")
