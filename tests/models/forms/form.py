"""A form of model that an export must take: how to build it, its inputs, and which of their sizes vary."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["EXAMPLE", "FORMS", "OTHERS", "Form", "Input", "floats", "form", "integers", "lengths"]

EXAMPLE = {"batch": 3, "length": 5}
OTHERS = ({"batch": 1, "length": 4}, {"batch": 2, "length": 7}, {"batch": 6, "length": 3})


@dataclass(frozen=True)
class Input:
    """A tensor to draw.

    Attributes:
        shape: Its sizes; a name is a size that may vary.
        below: Integers from 0 up to this number, exclusive; None: normally distributed floats.
        dtype: The dtype of floats.
        total: Integers that add up to this size.
    """

    shape: tuple[int | str, ...]
    below: int | None = None
    dtype: torch.dtype = torch.float32
    total: str | None = None

    def draw(self, sizes: Mapping[str, int]) -> torch.Tensor:
        """A tensor with these sizes."""
        shape = [sizes[size] if isinstance(size, str) else size for size in self.shape]
        if self.total is not None:
            ends = torch.randint(sizes[self.total] + 1, shape).sort().values
            ends[-1:] = sizes[self.total]
            return ends.diff(prepend=torch.zeros(1, dtype=torch.int64))
        return torch.randn(shape).to(self.dtype) if self.below is None else torch.randint(self.below, shape)

    def dynamic_dims(self) -> dict[int, str]:
        """The dimensions that may vary, with their names."""
        return {dim: size for dim, size in enumerate(self.shape) if isinstance(size, str)}


def floats(*shape: int | str, dtype: torch.dtype = torch.float32) -> Input:
    """Normally distributed floats."""
    return Input(shape, dtype=dtype)


def integers(below: int, *shape: int | str) -> Input:
    """Integers from 0 up to a number, exclusive."""
    return Input(shape, below)


def lengths(count: str, total: str) -> Input:
    """Lengths of parts, some of which may be empty, that add up to a size."""
    return Input((count,), total=total)


@dataclass(frozen=True)
class Form:
    """A small model and what it is called with.

    Attributes:
        name: Its name in the tests.
        family: The name of the file that it stands in.
        build: Gives the model, with weights drawn from torch's generator.
        args: The positional inputs: `Input` or a constant at each leaf.
        kwargs: The keyword inputs, likewise.
        example: The example's sizes, by name.
        others: Other sizes, by name.
        multiples: What a size is a multiple of, by the name of the size.
        rtol: The relative tolerance.
        atol: The absolute tolerance.
        export: Further arguments of `opbridge.export`.
        refused: For a form that torch itself does not take: a pattern of what the error says.
        refused_dynamic: The same for a form that it takes with static sizes only.
    """

    name: str
    family: str
    build: Callable[[], Callable[..., Any]]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    example: Mapping[str, int] = field(default_factory=lambda: EXAMPLE)
    others: tuple[Mapping[str, int], ...] = OTHERS
    multiples: Mapping[str, int] = field(default_factory=dict)
    rtol: float = 1e-4
    atol: float = 1e-5
    export: dict[str, Any] = field(default_factory=dict)
    refused: str | None = None
    refused_dynamic: str | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether any size may vary."""
        return any(isinstance(leaf, Input) and leaf.dynamic_dims() for leaf in _leaves((self.args, self.kwargs)))

    def model(self) -> Callable[..., Any]:
        """The model: the same weights each time."""
        torch.default_generator.manual_seed(0)  # torch.manual_seed keeps the stack each time, for CUDA
        return self.build()

    def inputs(self, sizes: Mapping[str, int] | None = None, seed: int = 1) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and the keyword inputs, of the example's sizes by default: the same for the same seed."""
        torch.default_generator.manual_seed(seed)
        sizes = self.example if sizes is None else sizes
        return _map(lambda leaf: leaf.draw(sizes), (self.args, self.kwargs))

    def make(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """The model and its example inputs."""
        return (self.model(), *self.inputs())

    def dynamic_shapes(self, model: Callable[..., Any]) -> dict[str, Any]:
        """The dimensions that may vary, by the names of the model's parameters and in the structure of the inputs."""
        model = getattr(model, "_orig_mod", model)  # what torch.compile was given
        forward = model.forward if isinstance(model, torch.nn.Module) else model
        if isinstance(forward, torch.jit.ScriptFunction | torch._C.ScriptMethod):  # which have no signature
            names = [argument.name for argument in forward.schema.arguments if argument.name != "self"]
            given = dict(zip(names, self.args, strict=False)) | self.kwargs
        else:
            given = inspect.signature(forward).bind(*self.args, **self.kwargs).arguments
        return _as_given(_map(self._dynamic_dims, dict(given), constant=lambda leaf: None))

    def _dynamic_dims(self, leaf: Input) -> dict[int, Any]:
        multiples = {name: factor * torch.export.Dim(f"_{name}") for name, factor in self.multiples.items()}
        return {dim: multiples.get(name, name) for dim, name in leaf.dynamic_dims().items()}

    def at_other_sizes(self) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Fresh inputs of other sizes, among them a batch of 1."""
        return [self.inputs(sizes, seed) for seed, sizes in enumerate(self.others, 3)]


def _as_given(shapes: Any) -> Any:
    """Dynamic shapes with a list for each container of the user's own class, as torch.export takes them."""
    if isinstance(shapes, dict):
        of_items = {key: _as_given(value) for key, value in shapes.items()}
        return of_items if type(shapes) is dict else list(of_items.values())
    if isinstance(shapes, (list, tuple)) and not hasattr(shapes, "_fields"):
        of_elements = [_as_given(value) for value in shapes]
        return tuple(of_elements) if type(shapes) is tuple else of_elements
    return shapes


def _leaves(tree: Any) -> list[Any]:
    found: list[Any] = []
    _map(found.append, tree, found.append)
    return found


def _map(function: Callable[[Input], Any], tree: Any, constant: Callable[[Any], Any] = lambda leaf: leaf) -> Any:
    """The same structure, also of classes that pytree does not know, with other leaves."""
    if isinstance(tree, dict):
        made = type(tree)()
        made.update({key: _map(function, value, constant) for key, value in tree.items()})
        return made
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_map(function, value, constant) for value in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(_map(function, value, constant) for value in tree)
    return function(tree) if isinstance(tree, Input) else constant(tree)


FORMS: dict[str, Form] = {}
"""Every form, by its name."""


def form(*args: Any, kwargs: dict[str, Any] | None = None, builds: bool = False, **settings: Any) -> Any:
    """Adds a module class or a function to the forms, under its name.

    Args:
        *args: The positional inputs.
        kwargs: The keyword inputs.
        builds: Whether the function is called for the model; otherwise it is the model.
        **settings: Further fields of `Form`.
    """

    def add(subject: Any) -> Any:
        name = subject.__name__
        if name in FORMS:
            raise ValueError(f"There are two forms with the name {name}.")
        family = subject.__module__.rpartition(".")[2]
        if inspect.isclass(subject):
            FORMS[name] = Form(name, family, lambda: subject().eval(), args, kwargs or {}, **settings)
        else:
            FORMS[name] = Form(name, family, subject if builds else lambda: subject, args, kwargs or {}, **settings)
        return subject

    return add
