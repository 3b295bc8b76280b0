"""Calls of Python's own types and functions in the code of a model, which would fix a dynamic size.

`int(n)` gives an int whatever `n` is, so that a symbolic size has to become a number there. Functions of the model that
call `int`, `float`, `range` and the like have another code object while the model is captured: the same, but for the
names of these calls, which are those of functions that keep a size symbolic. `int` that is not called, as in
`isinstance(n, int)` or `dtype=int`, stays what it is.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.capture.tracer.sized_sequences import Range, SizedSequence

__all__ = ["OTHER_PACKAGES", "following_calls"]

# These packages are no part of a model.
OTHER_PACKAGES = frozenset(
    {"torch", "opbridge", "builtins", "numpy", "sympy", "onnx", "onnx_ir", "onnxscript", "onnxruntime"}
)
_PREFIX = "__opbridge_"
# An instruction holds the place of a name in one byte, of which a bit says whether it is called.
_MOST_NAMES = 128


@contextlib.contextmanager
def following_calls(module: torch.nn.Module, everywhere: bool) -> Iterator[None]:
    """Within this context, calls of these functions in a model's code take symbolic sizes.

    Args:
        module: The model.
        everywhere: Whether the functions of all loaded Python modules of the model's packages are meant, and not those
            of the classes of its submodules alone. It takes longer.
    """
    changed: list[tuple[types.FunctionType, types.CodeType]] = []
    namespaces: dict[int, dict[str, Any]] = {}
    try:
        for function in _functions(module, everywhere):
            code = _rewritten(function.__code__)
            if code is not function.__code__:
                changed.append((function, function.__code__))
                function.__code__ = code
                namespaces[id(function.__globals__)] = function.__globals__
        for names in namespaces.values():
            names.update(_REPLACEMENTS)
        yield
    finally:
        for function, code in changed:
            function.__code__ = code
        for names in namespaces.values():
            for name in _REPLACEMENTS:
                names.pop(name, None)


def _functions(module: torch.nn.Module, everywhere: bool) -> Iterator[types.FunctionType]:
    """The functions of a model, each once."""
    seen: set[int] = set()
    kinds = {kind for each in module.modules() for kind in type(each).__mro__}
    own = [kind for kind in kinds if kind.__module__.partition(".")[0] not in OTHER_PACKAGES | {"opbridge"}]
    wrapped = [kind for kind in kinds if kind.__module__.startswith("opbridge.")]  # around a model that is a function
    for kind in (*own, *wrapped):
        for value in list(vars(kind).values()):
            yield from _within(value, seen)
    if not everywhere:
        return
    packages = {kind.__module__.partition(".")[0] for kind in own}
    for path, loaded in list(sys.modules.items()):
        if path.partition(".")[0] not in packages or not isinstance(loaded, types.ModuleType):
            continue
        for value in list(vars(loaded).values()):
            if getattr(value, "__module__", None) != path:
                continue
            if isinstance(value, type):
                for inner in list(vars(value).values()):
                    yield from _within(inner, seen)
            else:
                yield from _within(value, seen)


def _within(value: Any, seen: set[int]) -> Iterator[types.FunctionType]:
    """A function, and those that it is wrapped around, of the model."""
    if isinstance(value, (staticmethod, classmethod, functools.partial)):
        value = value.func if isinstance(value, functools.partial) else value.__func__
    elif isinstance(value, property):
        value = value.fget
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is not None and id(wrapped) not in seen:
        yield from _within(wrapped, seen)
    if not isinstance(value, types.FunctionType) or id(value) in seen:
        return
    seen.add(id(value))
    if str(value.__globals__.get("__name__", "")).partition(".")[0] not in OTHER_PACKAGES:
        yield value
    for cell in value.__closure__ or ():
        with contextlib.suppress(ValueError):  # a cell that is empty
            if isinstance(cell.cell_contents, (types.FunctionType, functools.partial)):
                yield from _within(cell.cell_contents, seen)


def _rewritten(code: types.CodeType) -> types.CodeType:
    """A code object with other names for the calls; the same one where it calls none of them."""
    constants = tuple(_rewritten(each) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    changed = any(one is not other for one, other in zip(constants, code.co_consts, strict=True))
    called = [name for name in code.co_names if name in _BY_NAME]
    if not called or len(code.co_names) + len(called) > _MOST_NAMES:
        return code.replace(co_consts=constants) if changed else code
    places = {code.co_names.index(name): len(code.co_names) + at for at, name in enumerate(called)}
    found = bytearray(code.co_code)
    for at in range(0, len(found), 2):
        if found[at] == _LOAD_GLOBAL and found[at + 1] & 1 and found[at + 1] >> 1 in places:
            if at == 0 or found[at - 2] != _EXTENDED_ARG:
                found[at + 1] = places[found[at + 1] >> 1] << 1 | 1
                changed = True
    if not changed:
        return code
    names = (*code.co_names, *(_PREFIX + name for name in called))
    return code.replace(co_code=bytes(found), co_names=names, co_consts=constants)


_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]


def _int(*args: Any, **settings: Any) -> Any:
    """`int`: a symbolic size is an int, and a symbolic float is cut off."""
    if len(args) == 1 and not settings:
        (value,) = args
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return torch.sym_int(value)
        if isinstance(value, torch.SymBool):
            return torch.sym_ite(value, 1, 0)
    return int(*args, **settings)


def _float(*args: Any) -> Any:
    """`float`: of a symbolic number."""
    if len(args) == 1 and isinstance(args[0], (torch.SymInt, torch.SymFloat)):
        return torch.sym_float(args[0])
    return float(*args)


def _range(*limits: Any) -> Any:
    """`range`: of symbolic sizes."""
    if any(isinstance(each, torch.SymInt) for each in limits):
        start, stop, step = (*limits, 1) if len(limits) == 2 else limits if len(limits) == 3 else (0, *limits, 1)
        if type(step) is int and step:
            return Range(start, stop, step)
    return range(*limits)


def _list(*args: Any) -> Any:
    """`list`: one of a symbolic length stays that."""
    return args[0] if len(args) == 1 and isinstance(args[0], SizedSequence) else list(*args)


def _tuple(*args: Any) -> Any:
    """`tuple`: one of a symbolic length stays that."""
    return args[0] if len(args) == 1 and isinstance(args[0], SizedSequence) else tuple(*args)


def _map(function: Any, *iterables: Any) -> Any:
    """`map`: of the functions that have another form here."""
    return map(_AS_VALUES.get(function, function) if isinstance(function, type) else function, *iterables)


def _isinstance(value: Any, kinds: Any) -> bool:
    """`isinstance`: a symbolic size is an int, a symbolic float a float."""
    plain = _PLAIN.get(type(value))
    return isinstance(value, kinds) or (plain is not None and isinstance(plain, kinds))


def _type(*args: Any, **settings: Any) -> Any:
    """`type`: of a symbolic size, int."""
    if len(args) == 1 and type(args[0]) in _PLAIN:
        return type(_PLAIN[type(args[0])])
    return type(*args, **settings)


_PLAIN: dict[type, Any] = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True, Range: []}
_AS_VALUES: dict[Any, Callable[..., Any]] = {int: _int, float: _float}
_BY_NAME: dict[str, Callable[..., Any]] = {
    "int": _int,
    "float": _float,
    "range": _range,
    "list": _list,
    "tuple": _tuple,
    "map": _map,
    "isinstance": _isinstance,
    "type": _type,
}
_REPLACEMENTS = {_PREFIX + name: function for name, function in _BY_NAME.items()}
