"""The symbolic functions that users registered: in torch's registry, or with `@opbridge.symbolic`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from opbridge.base.sources import of_function
from opbridge.errors import UsageError
from opbridge.translations import registry as translations
from opbridge.translations.catalogue import default_registry
from opbridge.translations.registry import Registry, Translation, operator_called

__all__ = ["PYTHON_OPERATOR", "functions", "override", "symbolic", "with_registered"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

PYTHON_OPERATOR = "prim::PythonOp"
"""The operator that stands for every torch.autograd.Function without a symbolic function of its own."""

_SPELLINGS = {"aten::prim_PythonOp": PYTHON_OPERATOR, "::prim_PythonOp": PYTHON_OPERATOR}

_NOT_THE_USERS = ("torchvision.ops.", "opbridge.")

_functions: dict[tuple[str, int], Callable[..., Any]] = {}


def symbolic(operator: str, *, opset: int = 9) -> Callable[[_Function], _Function]:
    """Registers a symbolic function for an operator; what torch.onnx.register_custom_op_symbolic does, as a decorator.

    The function is called as `function(g, *arguments)`: the operator's arguments in the order of its schema, tensors
    and everything else as values of `g`'s graph, as `torch.onnx.symbolic_helper` expects them.

    Args:
        operator: `namespace::name`, which stands for all overloads, or "prim::PythonOp" for every
            torch.autograd.Function without a `symbolic` of its own.
        opset: The first opset that it can be used with. Of several, the newest one not above the requested opset is
            used.

    Raises:
        UsageError: The name of no operator, or another function is registered for the operator and opset.

    Example:
        >>> @opbridge.symbolic("mylib::foo", opset=13)
        ... def foo(g, x, alpha):
        ...     return g.op("Mul", x, alpha)
    """
    name = _SPELLINGS.get(operator, operator_called(operator))

    def register(function: _Function) -> _Function:
        known = _functions.get((name, opset))
        if known is not None and not _is_same(known, function):
            raise UsageError(_conflict_message(name, opset, known, function))
        _functions[name, opset] = function
        return function

    return register


def functions() -> Mapping[tuple[str, int], Callable[..., Any]]:
    """The functions registered with `@opbridge.symbolic`, by operator and opset."""
    return dict(_functions)


@contextlib.contextmanager
def override() -> Iterator[Registry]:
    """A scope whose registrations end with it: `@opbridge.translation`, `@opbridge.symbolic`, and the nodes of kernels.

    Yields:
        The registry of translations; what is changed in its `entries` is undone too.

    Example:
        >>> with opbridge.override():
        ...     opbridge.translation("aten::relu")(my_relu)
        ...     opbridge.export(model, args, "model.onnx")
    """
    # opbridge's own translations register when they are first imported: in the scope, they would end with it.
    default_registry()
    before = dict(_functions)
    try:
        with translations.override() as registry:
            yield registry
    finally:
        _functions.clear()
        _functions.update(before)


def with_registered(registry: Registry) -> Registry:
    """A registry with every symbolic function that users registered, which has precedence over opbridge's translations.

    Raises:
        UsageError: Two different functions are registered for one operator and opset, or one for an operator that torch
            does not have.
    """
    found = dict(_functions)
    for name, opset, function in _in_torch():
        known = found.setdefault((name, opset), function)
        if not _is_same(known, function):
            raise UsageError(_conflict_message(name, opset, known, function))
    if not found:
        return registry
    merged = registry.copy()
    for (name, opset), function in found.items():
        if name != PYTHON_OPERATOR and not _exists(name):
            raise UsageError(
                f"A symbolic function is registered for the unknown operator {name}: {of_function(function)}. "
                "Import or load the library that defines the operator first, or correct the name."
            )
        merged.add(Translation(name, function, opset, "user", form="symbolic"))
    return merged


def _in_torch() -> Iterator[tuple[str, int, Callable[..., Any]]]:
    import sys

    if "torch.onnx" not in sys.modules:  # so nothing can be registered there
        return
    from opbridge.base.torch_private import torchscript_registry

    for name, opset, function in torchscript_registry.registered_by_users():
        # torchvision registers some when it is imported, without being asked; opbridge's cover the same operators.
        if not getattr(function, "__module__", "").startswith(_NOT_THE_USERS):
            yield _SPELLINGS.get(name, name), opset, function


def _exists(name: str) -> bool:
    from opbridge.base.torch_private import torch_operators

    return torch_operators.has_operator(name)


def _is_same(known: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Whether a function is the known one, or its redefinition: a notebook cell was run again, a module reloaded."""
    return known is function or (
        getattr(known, "__module__", None) == getattr(function, "__module__", None)
        and getattr(known, "__qualname__", "") == getattr(function, "__qualname__", " ")
        and "<lambda>" not in getattr(function, "__qualname__", "")
        and of_function(known) == of_function(function)
    )


def _conflict_message(name: str, opset: int, known: Callable[..., Any], function: Callable[..., Any]) -> str:
    return (
        f"{name} has two symbolic functions for opset {opset}: {of_function(known)} and {of_function(function)}. "
        "Remove one of them (with torch.onnx.unregister_custom_op_symbolic for torch's registry), or register one "
        "for another opset."
    )
