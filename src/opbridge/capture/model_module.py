"""The module to export: the model itself, the module inside of a wrapper, or a wrapper around a callable."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

import torch

from opbridge.base.torch_private import torch_tracing
from opbridge.errors import UsageError

__all__ = ["as_module"]


def as_module(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    """The module to export: the model, the module inside of `torch.compile`, or a wrapper around a callable.

    The wrapper has the callable's signature, and holds the modules that the callable uses under their own names, so
    that their parameters are parameters of the graph.

    Raises:
        UsageError: The model is a class, a path, a TorchScript object or anything else that cannot be exported.
    """
    if isinstance(model, type):
        raise UsageError(f"The model is the class {model.__name__}, not an instance. Pass {model.__name__}(...).")
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        raise UsageError(
            "The model is a TorchScript object, which torch.export does not take. Pass the model it was made from."
        )
    if isinstance(model, torch.nn.Module):
        module = torch_tracing.original_module(model)
        if any(isinstance(each, torch.nn.parameter.UninitializedParameter) for each in module.parameters()):
            raise UsageError("The model has lazy layers without weights yet. Run it once on the example inputs.")
        return module
    if not callable(model):
        raise UsageError(
            f"The model is of type {type(model).__name__}. Pass a torch.nn.Module, a function or an ExportedProgram."
        )
    return _wrapper(model, args, kwargs)


def _wrapper(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    class Function(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    kind = inspect.Parameter
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have none
        parameters = [kind(f"input_{index}", kind.POSITIONAL_ONLY) for index in range(len(args))]
        parameters += [kind(name, kind.KEYWORD_ONLY) for name in kwargs]
    forward: Any = Function.forward
    forward.__signature__ = inspect.Signature([kind("_module", kind.POSITIONAL_ONLY), *parameters])
    wrapper = Function()
    wrapper.training = False
    for name, module in _modules_of(function):
        if not hasattr(wrapper, name):
            wrapper.add_module(name, module)
    return wrapper


def _modules_of(function: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that a callable holds or refers to, with a name for each."""
    found: dict[str, Any] = {}
    if isinstance(function, functools.partial):
        yield from _modules_of(function.func)
        found = {f"argument_{index}": value for index, value in enumerate(function.args)} | function.keywords
    elif isinstance(function, MethodType):
        yield from _modules_of(function.__func__)
        owner = function.__self__
        found = {"module": owner} if isinstance(owner, torch.nn.Module) else getattr(owner, "__dict__", {})
    elif inspect.isfunction(function):
        scope = inspect.getclosurevars(function)
        found = {**scope.globals, **scope.nonlocals}
    else:
        found = getattr(function, "__dict__", {})
    for name, value in found.items():
        if isinstance(value, torch.nn.Module):
            yield name, value
