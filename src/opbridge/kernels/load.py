"""A library's operators in PyTorch, and their way to ONNX."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from opbridge.base.torch_private import torch_decisions, torch_operators
from opbridge.errors import CaptureError, KernelError, UsageError
from opbridge.kernels import library as libraries
from opbridge.kernels.build import build
from opbridge.kernels.library import Declared, Library
from opbridge.kernels.nodes import node_builder
from opbridge.kernels.shapes import infer
from opbridge.translations import registry

__all__ = ["Operator", "Operators", "load"]

_SOURCES = (".cpp", ".cc", ".cxx", ".cu")
_LIST = "Tensor[]"
_UNKNOWN_COUNT = (
    "The model cannot be captured: how many tensors {name} returns depends on data, and an ONNX node has a fixed "
    "number of outputs. Let the kernel return one tensor that holds all of them and another one with their sizes, and "
    "divide it in the model: tensor.split(sizes.tolist())."
)

_lock = threading.RLock()
_registered: dict[Path, Operators] = {}


class Operator:
    """An operator of a loaded library; calling it calls torch's operator.

    Attributes:
        name: Its name, `mylib::my_add`.
        schema: Its schema.
        op: torch's object for it, `torch.ops.mylib.my_add.default`.
    """

    def __init__(self, declared: Declared, op: torch._ops.OpOverload, part: torch.library.Library) -> None:
        self.name, self.schema, self.op = declared.name, declared.schema, op
        self._part = part  # what is registered with it goes when the library is replaced
        self.__name__ = declared.op_type

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<operator {self.schema}>"

    def register_autograd(
        self, backward: Callable[..., Any], *, setup_context: Callable[..., None] | None = None
    ) -> None:
        """Gives the operator a gradient.

        Args:
            backward: Called with `ctx` and a gradient for each output; returns one for each argument that is not
                keyword-only, None where there is none. It may call other kernels.
            setup_context: As torch.library.register_autograd takes it. None: `ctx.saved_tensors` are the operator's
                tensor arguments in order, and `ctx.<name>` every other argument.
        """
        context = setup_context or self._keep_arguments
        torch.library.register_autograd(self.name, backward, setup_context=context, lib=self._part)
        torch_operators.forget_dispatch(self.op)

    def _keep_arguments(
        self, ctx: Any, inputs: Sequence[Any], keyword_only_inputs: dict[str, Any] | None = None, output: Any = None
    ) -> None:
        arguments = self.op._schema.arguments
        given = dict(zip((each.name for each in arguments if not each.kwarg_only), inputs, strict=False))
        given.update(keyword_only_inputs or {})
        tensors: list[Any] = []
        for each in arguments:
            value = given.get(each.name, each.default_value)
            if isinstance(value, torch.Tensor) or (value is None and "Tensor" in str(each.type)):
                tensors.append(value)
            elif isinstance(value, (list, tuple)) and value and all(isinstance(item, torch.Tensor) for item in value):
                tensors.extend(value)
            else:
                setattr(ctx, each.name, value)
        ctx.save_for_backward(*tensors)


class Operators:
    """The operators of a library, as attributes: `ops.my_add(x, y)`.

    Attributes:
        path: The library's file, which `opbridge.session(..., kernels=[...])` takes.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._parts: list[Any] = []
        self._names: dict[str, Operator] = {}
        self.path = library.path

    def __getattr__(self, name: str) -> Operator:
        found = self.__dict__.get("_names", {}).get(name)
        if found is None:
            raise AttributeError(f"{self.path.name} has no operator '{name}', only {', '.join(self._names)}")
        return found

    def __iter__(self) -> Iterator[Operator]:
        return iter(self._names.values())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __repr__(self) -> str:
        return f"<operators of {self.path}: {', '.join(self._names)}>"


def load(*paths: str | os.PathLike[str], **options: Any) -> Operators:
    """Loads kernels into PyTorch, and registers their translations to ONNX.

    Args:
        *paths: One library that was built, or C++ files, which are built where they have changed.
        **options: What `opbridge.build` takes, for C++ files.

    Returns:
        The operators, as attributes; they are in `torch.ops` too, with fake implementations for torch.compile and
        torch.export. Loading a file that was changed replaces its operators.

    Raises:
        BuildError: a file does not compile.
        KernelError: the library is not one of kernels, registers none, or the name of an operator is already used.
        UsageError: there is no such file.
    """
    if not paths:
        raise UsageError("load() requires a C++ file or a library, such as load('my_add.cpp').")
    is_source = Path(paths[0]).suffix in _SOURCES
    if not is_source and (len(paths) > 1 or options):
        raise UsageError("load() accepts either one built library, or C++ files with build options.")
    with _lock:
        library = libraries.open_library(build(*paths, **options) if is_source else paths[0])
        if library.is_ours:
            libraries.refuse_empty(library, paths)
        known = _registered.get(library.path)
        return known if known is not None else _register(library)


def _register(library: Library) -> Operators:
    if not library.is_ours:
        raise KernelError(
            f"{library.path} is not a library of opbridge kernels, so it cannot be loaded into PyTorch. To run its "
            "kernels in ONNX Runtime, pass it to opbridge.session(..., kernels=[...])."
        )
    for path, other in list(_registered.items()):
        if other._library.names & library.names:
            _unregister(other)
            del _registered[path]
    loaded = Operators(library)
    _define(library)
    try:
        for index, declared in enumerate(library.operators):
            _add(loaded, index, declared)
    except BaseException:  # an interruption too leaves no half of a library
        _unregister(loaded)
        raise
    _registered[library.path] = loaded
    libraries.remember(library)
    return loaded


def _define(library: Library) -> None:
    """Defines the operators in libtorch, from the library itself."""
    define = library.native.opbridge_register_torch
    define.argtypes, define.restype = [ctypes.c_char_p], ctypes.c_int32
    if define(os.fsencode(torch_operators.library_path())):
        last = library.native.opbridge_last_error
        last.restype = ctypes.c_char_p
        said = last().decode(errors="replace").strip().partition("\n")[0]
        raise KernelError(f"{library.path.name} cannot be loaded into PyTorch: {said}")


def _add(loaded: Operators, index: int, declared: Declared) -> None:
    op = torch_operators.operator_object(declared.name)
    if op is None:
        raise KernelError(f"{declared.name} is not among torch's operators after it was defined. Please report this.")
    arguments, returns = torch_operators.declared(op)
    types = [each.type for each in arguments]
    library = loaded._library

    def fake(*args: Any, **kwargs: Any) -> Any:
        values = [
            args[place] if place < len(args) else kwargs.get(each.name, each.default)
            for place, each in enumerate(arguments)
        ]
        device = _device(values)
        returns_list = returns[-1].type == _LIST
        try:
            inferred = infer(library, index, declared.name, types, values)
        except Exception as error:
            if returns_list and torch_decisions.is_unanswered(error):
                raise CaptureError(_UNKNOWN_COUNT.format(name=declared.name)) from error
            raise
        made = [torch.empty(sizes, dtype=dtype, device=device) for dtype, sizes in inferred]
        if returns_list:  # the last one, as the header demands
            single = len(returns) - 1
            made = [*made[:single], made[single:]]
        return made[0] if len(returns) == 1 else tuple(made)

    part = torch.library.Library(declared.domain, "FRAGMENT")
    loaded._parts.append(part)
    torch.library.register_fake(declared.name, fake, lib=part)
    registry.add_kernel(declared.name, node_builder(op, declared.domain, declared.op_type))
    loaded._names[declared.op_type.replace(".", "_")] = Operator(declared, op, part)


def _device(values: Sequence[Any]) -> torch.device:
    for value in values:
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, torch.Tensor):
                return each.device
    return torch.device("cpu")


def _unregister(loaded: Operators) -> None:
    """Takes a library's operators out of PyTorch; its code stays, as somebody may be running it."""
    for part in loaded._parts:
        part._destroy()
    loaded._library.native.opbridge_unregister_torch()
    for declared in loaded._library.operators:
        torch_operators.forget_operator(declared.domain, declared.op_type.partition(".")[0])
