"""Translations as symbolic functions of torch.onnx's TorchScript exporter.

A symbolic function is called for one node of a trace. The one that `as_symbolic` makes of translations does this:

1. The arguments are read by the operator's schema, and the overload is chosen (`arguments`).
2. Tensors become values of a `Builder` at the exporter's opset. They have the dtype and rank of the trace. Sizes are
   known of weights, constants and the model's own inputs only: any other size in a trace is the example's, and a model
   in which it is a constant would be silently wrong.
3. Implicit type promotion is made explicit, as in `translate`.
4. The translation runs, and its nodes are built again with `g.op` (`emitting`), with the dtypes of the trace.
5. Where no overload fits or the translation needs a size that is not known, torch's own symbolic function is called
   instead; where there is none, the error has both reasons.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from opbridge.base.sources import PACKAGE_FOLDER, raised_in
from opbridge.base.torch_private import torch_operators, torchscript_export
from opbridge.errors import TranslationError
from opbridge.symbolics import squeezing
from opbridge.symbolics.arguments import Misfit, choose, read
from opbridge.symbolics.translation_call import TranslationCall
from opbridge.translations.registry import Registry, Translation

__all__ = ["TranslationOutcome", "as_symbolic", "translations_by_base_name"]

# torch.onnx rewrites in-place writes to a part of a tensor as these. The values are then in the order of the written
# elements, in a shape that the operator itself would not broadcast.
_REWRITTEN = frozenset({"aten::index_put", "aten::index_put_"})


class TranslationOutcome:
    """The outcome of one call.

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
    """The translations that the TorchScript exporter can use, by the base name that it looks them up by.

    Left out are those for complex inputs, which the TorchScript exporter does not support, and those of operators that
    only graphs of torch.export contain.
    """
    found: dict[str, list[Translation]] = {}
    for operator, entries in registry.all_entries().items():
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
    on_outcome: Callable[[TranslationOutcome], None] | None = None,
) -> Callable[..., Any]:
    """Translations of one operator, all its overloads together, as one symbolic function.

    Args:
        entries: The translations.
        fallback: Returns, for an opset, the symbolic function that is used where the translations cannot be.
        on_outcome: Called with the outcome of each call.
    """
    registry = Registry()
    for entry in entries:
        registry.add(entry)
    operators = list(registry.entries)

    def symbolic(g: Any, *arguments: Any, **attributes: Any) -> Any:
        outcome = TranslationOutcome()
        try:
            return _call(g, registry, operators, arguments, attributes, outcome)
        except Misfit as misfit:
            outcome.reason = str(misfit)
        except (TranslationError, NotImplementedError) as error:
            outcome.reason = _first_line(error)
        except (TypeError, ValueError, AttributeError, IndexError, KeyError) as error:
            # A graph of TorchScript's leaves out dtypes and shapes that a translation may rely on, so that this need
            # not be a fault of the translation. Where it failed is said, and torch.onnx's own function is used.
            place = raised_in(error, os.path.join(PACKAGE_FOLDER, "translations"))
            outcome.reason = f"it raises {type(error).__name__} at {place}: {_first_line(error)}"
        finally:
            if on_outcome is not None and not outcome.reason:
                on_outcome(outcome)
        outcome.translation = None
        other = fallback(g.opset)
        if on_outcome is not None:
            on_outcome(outcome)
        if other is None:
            raise torchscript_export.unsupported_error(
                f"{outcome.operator or operators[0]}: its translation cannot be used in a TorchScript graph, "
                f"because {outcome.reason}, and torch.onnx has no symbolic function for it at opset {g.opset}. "
                "Register one with torch.onnx.register_custom_op_symbolic."
            )
        return other(g, *arguments, **attributes)

    return symbolic


def _call(
    g: Any,
    registry: Registry,
    operators: Sequence[str],
    arguments: Sequence[Any],
    attributes: Mapping[str, Any],
    outcome: TranslationOutcome,
) -> Any:
    node = g.original_node
    if node.kind() in _REWRITTEN and any(_is_rewritten(each) for each in node.inputs()):
        raise Misfit("it is torch.onnx's internal operator for in-place writes")
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
    if squeezing.depends_on_sizes(operator, chosen):
        outcome.translation = entry
        return squeezing.squeezed(g, *chosen)
    call = TranslationCall(g, entry, dict(known)[operator], schema, list(node.outputs()), attributes)
    results = call.run(chosen)
    outcome.translation, outcome.functions = entry, dict(call.builder.functions)
    return results


def _is_rewritten(value: Any) -> bool:
    """Whether torch.onnx inserted a tensor of a trace: unlike those of the model, it has no sizes."""
    if value.node().kind() == "prim::ListConstruct":
        return any(_is_rewritten(each) for each in value.node().inputs())
    kind = value.type()
    return kind.kind() == "TensorType" and kind.dim() is None


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")
