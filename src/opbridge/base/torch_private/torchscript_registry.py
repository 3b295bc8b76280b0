"""torch.onnx's registry of symbolic functions: what is in it, and registering functions of opbridge's for a time.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.onnx._internal.torchscript_exporter import registration

from opbridge.base.locks import process_state

__all__ = [
    "builtin_symbolic",
    "load_builtin_symbolics",
    "register_functions",
    "registered_by_users",
    "unregister_functions",
    "user_symbolic",
]


def load_builtin_symbolics() -> None:
    """Fills torch's registry with torch's own symbolic functions, as its exporter does before each export."""
    from torch.onnx._internal.torchscript_exporter import utils

    utils._trigger_symbolic_function_registration()


def registered_by_users() -> Iterator[tuple[str, int, Callable[..., Any]]]:
    """What users registered with `torch.onnx.register_custom_op_symbolic`: name, opset and function."""
    for name, group in registration.registry._registry.items():
        if name.startswith("::") and name != "::prim_PythonOp":
            continue  # the exporter's own entry for a torch.autograd.Function, which it does not remove
        for opset, function in group._functions._overrides.items():
            if not any(function is each for each in _registered_by_opbridge.get((name, opset), ())):
                yield name, opset, function


def builtin_symbolic(name: str, opset: int) -> Callable[..., Any] | None:
    """torch's own symbolic function for an operator."""
    group = registration.registry._registry.get(name)
    if group is None:
        return None
    versions = [version for version in group._functions._base if version <= opset]
    return group._functions._base[max(versions)] if versions else None


def user_symbolic(name: str, opset: int) -> Callable[..., Any] | None:
    """What a user registered with torch for an operator."""
    group = registration.registry._registry.get(name)
    if group is None:
        return None
    versions = [
        version
        for version, function in group._functions._overrides.items()
        if version <= opset and not any(function is each for each in _registered_by_opbridge.get((name, version), ()))
    ]
    return group._functions._overrides[max(versions)] if versions else None


# For each name and opset, opbridge's functions that are registered; the last one is in force.
_registered_by_opbridge: dict[tuple[str, int], list[Callable[..., Any]]] = {}


def register_functions(functions: dict[str, Callable[..., Any]], opsets: Sequence[int]) -> list[tuple[str, int, Any]]:
    """Registers symbolic functions of opbridge's with torch, except where a user has registered one.

    Returns:
        What was registered, for `unregister_functions`.
    """
    done: list[tuple[str, int, Any]] = []
    with process_state:
        try:
            for name, function in functions.items():
                for opset in opsets:
                    if user_symbolic(name, opset) is None:
                        _registered_by_opbridge.setdefault((name, opset), []).append(function)
                        done.append((name, opset, function))
                        registration.registry.register(name, opset, function, custom=True)
        except BaseException:
            unregister_functions(done)
            raise
    return done


def unregister_functions(registered: Sequence[tuple[str, int, Any]]) -> None:
    """Undoes `register_functions`; what others have registered or removed in the meantime is left as it is."""
    with process_state:
        registry = registration.registry._registry
        for name, opset, function in registered:
            ours = _registered_by_opbridge.get((name, opset), [])
            if not any(function is each for each in ours):
                continue
            _registered_by_opbridge[name, opset] = left = [each for each in ours if each is not function]
            group = registry.get(name)
            functions = group._functions if group is not None else None
            if functions is not None and functions._overrides.get(opset) is function:
                if left:
                    functions.override(opset, left[-1])
                else:
                    functions.remove_override(opset)
            if not left:
                del _registered_by_opbridge[name, opset]
            if functions is not None and not functions:
                del registry[name]
