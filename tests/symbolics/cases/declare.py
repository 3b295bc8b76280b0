"""How a case is declared: a symbolic function, what it is registered for, and a model that reaches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["CASES", "Case", "aten", "autograd", "define", "floats", "integers", "library"]

CASES: dict[str, Case] = {}
"""Every case by its name, in the order of declaration."""

_operators = torch.library.Library("opcases", "FRAGMENT")


@dataclass(frozen=True)
class Case:
    """One model and the symbolic functions that it needs.

    Attributes:
        name: The symbolic function's, or the autograd.Function's.
        model: What is exported.
        args: The example inputs.
        registered: The symbolic functions by the name that they are registered for.
        nodes: By opset, the operators that are expected in the graph, in canonical order without constants.
        custom_opsets: Versions of custom domains.
        verify: Whether ONNX Runtime can run the model.
        mode: An `operator_export_type` by name, where the case needs one.
        dynamic: The names of each input's dimensions that may vary.
    """

    name: str
    model: torch.nn.Module
    args: tuple[Any, ...]
    registered: Mapping[str, Callable[..., Any]]
    nodes: Mapping[int, str]
    custom_opsets: Mapping[str, int] = field(default_factory=dict)
    verify: bool = True
    mode: str | None = None
    dynamic: Sequence[Mapping[int, str] | None] = ()


class _Net(torch.nn.Module):
    """A function as a module, which is what the TorchScript exporter takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers of both signs, the same in every run."""
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def integers(*shape: int, high: int = 5, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Integers from 0 to below `high`, the same in every run."""
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randint(0, high, shape, generator=generator).to(dtype)


def _declare(
    name: str,
    model: Callable[..., Any],
    args: Sequence[Any],
    registered: Mapping[str, Callable[..., Any]],
    nodes: str | Mapping[int, str],
    **options: Any,
) -> None:
    assert name not in CASES, name
    module = model if isinstance(model, torch.nn.Module) else _Net(model)
    by_opset = {18: nodes} if isinstance(nodes, str) else nodes
    CASES[name] = Case(name, module.eval(), tuple(args), registered, by_opset, **options)


def define(name: str, schema: str, eager: Callable[..., Any]) -> Any:
    """Defines the operator `opcases::name`; what it computes is also how its outputs' shapes are found.

    Args:
        name: Its name.
        schema: Its schema without the name.
        eager: What it computes, with torch's operators.
    """
    _operators.define(f"{name}{schema}")
    _operators.impl(name, eager, "CPU")
    torch.library.register_fake(f"opcases::{name}", eager, lib=_operators)
    return getattr(torch.ops.opcases, name)


def library(
    schema: str,
    eager: Callable[..., Any],
    *given: Any,
    args: Sequence[Any] = (floats(2, 3, 4),),
    named: Mapping[str, Any] | None = None,
    model: Callable[[Any], Callable[..., Any]] | None = None,
    nodes: str | Mapping[int, str],
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares a library operator, named like the symbolic function, and a model that calls it once.

    Args:
        schema: Its schema without the name.
        eager: What it computes.
        *given: Its arguments after the model's inputs.
        args: The model's example inputs.
        named: Its keyword arguments.
        model: Makes the model from the operator; by default the model passes its inputs, `given` and `named` on.
        nodes: The operators expected; by opset, or for opset 18.
        **options: `custom_opsets`, `verify`, `mode` and `dynamic` of the case.
    """

    def declare(symbolic: Callable[..., Any]) -> Callable[..., Any]:
        name = symbolic.__name__
        operator = define(name, schema, eager)
        call = model(operator) if model else lambda *inputs: operator(*inputs, *given, **(named or {}))
        _declare(name, call, args, {f"opcases::{name}": symbolic}, nodes, **options)
        return symbolic

    return declare


def aten(
    operator: str,
    model: Callable[..., Any],
    *args: Any,
    nodes: str | Mapping[int, str],
    others: Mapping[str, Callable[..., Any]] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares a symbolic function for one of PyTorch's own operators.

    Args:
        operator: What it is registered for.
        model: A function or module that reaches the operator.
        *args: The model's example inputs.
        nodes: The operators expected; by opset, or for opset 18.
        others: Further symbolic functions that the model needs.
        **options: `custom_opsets`, `verify`, `mode` and `dynamic` of the case.
    """

    def declare(symbolic: Callable[..., Any]) -> Callable[..., Any]:
        _declare(symbolic.__name__, model, args, {operator: symbolic, **(others or {})}, nodes, **options)
        return symbolic

    return declare


def autograd(
    model: Callable[[Any], Callable[..., Any]],
    *args: Any,
    nodes: str | Mapping[int, str],
    registered: Mapping[str, Callable[..., Any]] | None = None,
    **options: Any,
) -> Callable[[type], type]:
    """Declares an autograd.Function with a `symbolic`, or one that a registration for prim::PythonOp covers.

    Args:
        model: Makes the model from the class.
        *args: The model's example inputs.
        nodes: The operators expected; by opset, or for opset 18.
        registered: Symbolic functions that the model needs beside the class's own.
        **options: `custom_opsets`, `verify`, `mode` and `dynamic` of the case.
    """

    def declare(function: type) -> type:
        _declare(function.__name__, model(function), args, registered or {}, nodes, **options)
        return function

    return declare
