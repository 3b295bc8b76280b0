"""Calls the translation, or the symbolic function, of one node."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from opbridge.base.torch_private import torch_sizes
from opbridge.errors import TranslationError
from opbridge.graph.function_calls import call_of
from opbridge.graph.promotion import computation_dtype
from opbridge.graph.values import is_complex
from opbridge.onnx import onnxscript_private
from opbridge.onnx.tensor import Tensor
from opbridge.symbolics import calling
from opbridge.translate.values import Values
from opbridge.translations import signature
from opbridge.translations.registry import Translation

__all__ = ["call_symbolic", "call_translation"]

# Whose translations may have a parameter that is told the number of tensors in the result, or its sizes.
_OURS = frozenset({"opbridge", "kernel"})

# Beside complex tensors these stay what they are.
_KEEPING_THEIR_TYPE = frozenset({"condition", "mask", "indices"})


def call_translation(
    values: Values, node: Node, entry: Translation, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Calls the translation of a node, with its arguments promoted and in the form that translations take.

    Args:
        values: Converts the arguments.
        node: The node of the captured graph.
        entry: The translation.
        args: The node's positional arguments, with nodes replaced by what they stand for.
        kwargs: Its keyword arguments.

    Returns:
        What the translation returns.

    Raises:
        TranslationError: the translation does not take these arguments, or says that it cannot build them.
    """
    promoted = computation_dtype(node)
    minus_one_for_none = entry.origin == "torchlib"

    def convert(name: str, value: Any, argument: Any) -> Any:
        if value is None and name == "dtype" and minus_one_for_none:
            return -1
        if promoted is not None and promoted.is_complex:
            if isinstance(value, (list, tuple)) and isinstance(argument, (list, tuple)):
                return [convert(name, item, each) for item, each in zip(value, argument, strict=True)]
            if name in _KEEPING_THEIR_TYPE:
                return values.as_argument(value, None)
            if isinstance(value, (torch.Tensor, Tensor)):
                is_pair = isinstance(argument, Node) and is_complex(argument)
                return values.as_pair(values.as_tensor(value), promoted, is_pair)
        return values.as_argument(value, promoted)

    schema = getattr(node.target, "_schema", None)
    declared = [argument.name for argument in schema.arguments] if schema is not None else []
    unnamed = [""] * (len(args) - len(declared))
    positional = [
        convert(name, value, argument)
        for name, value, argument in zip([*declared[: len(args)], *unnamed], args, node.args, strict=True)
    ]
    keywords = {name: convert(name, value, node.kwargs[name]) for name, value in kwargs.items()}
    names, takes_more, takes_named = onnxscript_private.parameters(entry.function)
    results = node.meta.get("val")
    if entry.origin in _OURS and "result_count" in names and isinstance(results, (list, tuple)):
        keywords["result_count"] = sum(len(each) if isinstance(each, (list, tuple)) else 1 for each in results)
    if entry.origin in _OURS and "result_sizes" in names and isinstance(results, torch.Tensor):
        keywords["result_sizes"] = [
            size if isinstance(size, int) else None for size in map(torch_sizes.known_size, results.shape)
        ]
    if not takes_named:
        keywords = {
            name: value for name, value in keywords.items() if name in names or name not in signature.IGNORED_ARGUMENTS
        }
    if not takes_more and len(positional) > len(names):
        extra = [*declared, *unnamed][len(names) : len(positional)]
        if all(name in signature.IGNORED_ARGUMENTS for name in extra):
            positional = positional[: len(names)]
    try:
        return entry.function(*positional, **keywords)
    except TypeError:
        _refuse_unbound(entry, positional, keywords)
        raise


def _refuse_unbound(entry: Translation, positional: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Refuses arguments that the translation has no parameters for: it is for a simpler form of the operator."""
    try:
        onnxscript_private.call_signature(entry.function).bind(*positional, **keywords)
    except TypeError as error:
        raise TranslationError(f"the arguments do not match its signature: {error}.") from error


def call_symbolic(
    values: Values, node: Node, entry: Translation, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Calls the symbolic function of a node; the arguments are those of `call_translation`.

    Raises:
        TranslationError: the function raises, or what it builds does not fit the operator.
    """
    expected = node.meta.get("val")
    outputs = [values.described(value) for value in (expected if isinstance(expected, (list, tuple)) else [expected])]
    call = call_of(node)
    if call is not None:
        tensors = [values.for_symbolic(value) for value in args[0]]
        return calling.build_function(values.builder, call, tensors, args[1], outputs, _used(node))
    args, kwargs = torch.fx.node.map_aggregate((args, kwargs), values.for_symbolic)
    return calling.build_operator(values.builder, entry, node, args, kwargs, outputs, _used(node))


def _used(node: Node) -> list[bool]:
    """Which of a node's outputs are read."""
    expected = node.meta.get("val")
    if not isinstance(expected, (list, tuple)):
        return [True]
    picked = {user.args[1] for user in node.users if user.target is operator.getitem and user.users}
    whole = any(user.target is not operator.getitem for user in node.users)
    return [whole or index in picked for index in range(len(expected))]
