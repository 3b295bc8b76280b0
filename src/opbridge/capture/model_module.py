"""The module to export: the model itself, the module inside of a wrapper, or a wrapper around a callable."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

import torch

from opbridge.base.torch_private import torch_tracing, torchscript_running
from opbridge.errors import UsageError

__all__ = ["as_module", "name_of"]


def as_module(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    """The module to export: the model, the module inside of `torch.compile`, or a wrapper around a callable or script.

    The wrapper has the callable's signature, and holds the modules that the callable uses under their own names, so
    that their parameters are parameters of the graph.

    Raises:
        UsageError: The model is a class, a path or anything else that cannot be exported.
    """
    if isinstance(model, type):
        raise UsageError(f"The model is the class {model.__name__}, not an instance. Pass {model.__name__}(...).")
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        return _around_script(model)
    if isinstance(model, torch.nn.Module):
        module = torch_tracing.original_module(model)
        if any(isinstance(each, torch.nn.parameter.UninitializedParameter) for each in module.parameters()):
            raise UsageError(
                "The model has lazy modules with uninitialized parameters. Run it once on the example inputs."
            )
        return module
    if not callable(model):
        raise UsageError(
            f"The model is of type {type(model).__name__}. Pass a torch.nn.Module, a function or an ExportedProgram."
        )
    return _wrapper(model, args, kwargs)


def name_of(model: Any) -> str:
    """What a model is called where it has no file: the name of its class, or of the function."""
    return str(getattr(model, "__name__", "") or type(model).__name__)


def _wrapper(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    kind = inspect.Parameter
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have none
        parameters = [kind(f"input_{index}", kind.POSITIONAL_ONLY) for index in range(len(args))]
        parameters += [kind(name, kind.KEYWORD_ONLY) for name in kwargs]
    wrapper = _calling(function, parameters)
    for name, module in _modules_of(function):
        if not hasattr(wrapper, name):
            wrapper.add_module(name, module)
    return wrapper


def _calling(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> torch.nn.Module:
    """A module in evaluation mode that calls a function, and has its parameters in its signature."""

    class Function(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    Function.__module__ = getattr(function, "__module__", None) or Function.__module__  # where the model's code stands
    forward: Any = Function.forward
    own = inspect.Parameter("_module", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = inspect.Signature([own, *parameters])
    wrapper = Function()
    wrapper.training = False
    return wrapper


def _around_script(script: Any) -> torch.nn.Module:
    """A module around a module or function of TorchScript, with its parameters, buffers and submodules."""
    function = script.forward if isinstance(script, torch.jit.ScriptModule) else script
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default if has_default else inspect.Parameter.empty
        )
        for name, has_default, default in torchscript_running.signature_of(function)
    ]
    wrapper = _calling(script, parameters)
    if not isinstance(script, torch.jit.ScriptModule):
        return wrapper
    wrapper.training = script.training
    for name, parameter in script.named_parameters(recurse=False):
        wrapper.register_parameter(name, parameter)
    for name, buffer in script.named_buffers(recurse=False):
        wrapper.register_buffer(name, buffer)
    for name, module in script.named_children():
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
