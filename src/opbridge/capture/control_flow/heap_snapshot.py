"""What the model's code may change besides its variables: attributes, globals, and what containers in them hold."""

from __future__ import annotations

import dis
import functools
import itertools
import operator
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

import torch

from opbridge.capture.control_flow.program_points import is_of_others, is_the_models

__all__ = ["HeapSnapshot", "settings"]

_ATTRIBUTES_OF_MODULES = frozenset(vars(torch.nn.Module()))
_STORING = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")
_CALLING_OTHERS = ("logging", "importlib", "_frozen_importlib", "_frozen_importlib_external")
_DESCRIPTORS = (staticmethod, classmethod)
_MISSING = object()
_NONE: dict[str, Any] = {}  # one, as contents are compared by identity
_MOST_CONTAINERS = 1 << 15


def settings() -> tuple[Any, ...]:
    """What torch is set to, and operators depend on."""
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        *((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")),
    )


class HeapSnapshot:
    """What the code of a model may reach, as it is before a run, and what the run has changed of it.

    Those are the attributes of the model's modules and of their classes, the global variables that the functions name
    which have run, and what is reached from these: containers, objects, and functions with their default values.

    Args:
        modules: The modules of the model, with their paths.

    Attributes:
        grown: Whether a list has only got further elements.
        stores: The names of the attributes, of the global variables and of those shared with inner functions that the
            functions write to which have run; None where they may write to any.
        compares_objects: Whether a function that has run asks whether two values are the same object.
    """

    def __init__(self, modules: Iterable[tuple[str, torch.nn.Module]]) -> None:
        self._modules = list(modules)
        self._own = {id(each) for _, each in self._modules}
        self._attributes = [(path, each, dict(vars(each))) for path, each in self._modules]
        self._held: dict[int, tuple[Any, dict[Any, Any]]] = {}
        self._globals: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
        self._noted: dict[int, CodeType] = {}
        self.grown = False
        self.compares_objects = False
        self.stores: set[str] | None = set()
        for _, each, before in self._attributes:
            self._take([value for name, value in before.items() if name not in _ATTRIBUTES_OF_MODULES])
            self._take(type(each).__mro__)

    def note(self, frame: FrameType) -> bool:
        """Looks at what a function names that begins to run.

        Returns:
            Whether it has been looked at, or needs not be: a function that writes a log now may be the model's later.
        """
        code = frame.f_code
        if id(code) in self._noted:
            return True
        if not is_the_models(frame) or _is_of_libraries(frame.f_globals.get("__name__")):
            return True
        if _is_for_others(frame):
            return False
        self._noted[id(code)] = code
        named, stored = _names(code)
        self.compares_objects = self.compares_objects or _compares_objects(code)
        if self.stores is not None:
            self.stores = None if "setattr" in named or "__dict__" in named else self.stores | stored
        for name in named:
            key = id(frame.f_globals), name
            if key not in self._globals:
                value = frame.f_globals.get(name, _MISSING)
                if _is_of_capture(value):  # it stands there while the model is captured, and not after it
                    continue
                self._globals[key] = frame.f_globals, value
                self._take([value])
        return True

    def changed(self) -> Iterator[tuple[str, dict[Any, Any]]]:
        """What has been changed so far, by what holds it; a list that has only grown is not among them."""
        for path, module, before in self._attributes:
            new = {
                name: value
                for name, value in vars(module).items()
                if name not in _ATTRIBUTES_OF_MODULES and (name not in before or before[name] is not value)
            }
            if new:
                yield path, new
        rebound = {
            name: now
            for (_, name), (variables, value) in self._globals.items()
            if (now := variables.get(name, _MISSING)) is not value
        }
        if rebound:
            yield "globals", rebound
        self.grown = False
        for held, before in self._held.values():
            now = _contents(held)
            if now is None or _is_same(before, now):
                continue
            if type(held) in (list, deque) and _is_same(before, dict(list(now.items())[: len(before)])):
                self.grown = True
            else:
                yield f"{type(held).__name__} {id(held)}", _difference(before, now)

    def restore(self) -> None:
        """Gives what the run has changed what it held before, but for the attributes of the model's modules."""
        for (_, name), (variables, value) in self._globals.items():
            if variables.get(name, _MISSING) is not value:
                _put(variables, name, value)
        for held, before in self._held.values():
            now = _contents(held)
            if now is not None and not _is_same(before, now):
                _restore(held, before, now)

    def _take(self, values: Iterable[Any]) -> None:
        waiting = list(values)
        while waiting and len(self._held) < _MOST_CONTAINERS:
            value = waiting.pop()
            if id(value) in self._held:
                continue
            contents = _contents(value)
            if contents is None:
                continue
            if id(value) not in self._own:
                self._held[id(value)] = value, contents
                waiting += contents.values()


def _is_of_capture(value: Any) -> bool:
    """Whether a value is opbridge's, which takes the place of the model's own while that is captured.

    A function that is wrapped around another one says that it is of the module of that; its globals are opbridge's.
    """
    module = value.__globals__.get("__name__") if type(value) is types.FunctionType else type(value).__module__
    return str(module).partition(".")[0] == "opbridge"


def _contents(value: Any) -> dict[Any, Any] | None:
    """What a container, an object, a function or a class of the model's holds; None for anything else."""
    if isinstance(value, (torch.Tensor, types.ModuleType, str, bytes, int, float)):
        return None
    if isinstance(value, dict) and "__builtins__" in value:  # the globals of a module, which a decorator may keep
        return None
    if isinstance(value, types.FunctionType):
        if _is_of_libraries(value.__module__):
            return None
        shared = {f"cell {index}": cell for index, cell in enumerate(value.__closure__ or ())}
        return {
            "defaults": value.__defaults__ or (),
            "keywords": value.__kwdefaults__ or _NONE,
            **vars(value),
            **shared,
        }
    if isinstance(value, types.CellType):
        try:
            return {"contents": value.cell_contents}
        except ValueError:
            return {}
    if isinstance(value, types.MethodType):
        return {"self": value.__self__, "function": value.__func__}
    if isinstance(value, _DESCRIPTORS):
        return {"function": value.__func__}
    if isinstance(value, type):
        return None if _is_of_libraries(value.__module__) else _public(vars(value))
    is_container = isinstance(value, (dict, list, tuple, deque, set, frozenset))
    if not is_container and not isinstance(value, torch.nn.Module) and _is_of_libraries(type(value).__module__):
        return None
    held = getattr(value, "__dict__", None)
    found: dict[Any, Any] = dict(held) if isinstance(held, dict) else {}
    if is_container:
        found = {(_MISSING, name): value for name, value in found.items()}
    if isinstance(value, dict):
        found.update(dict.items(value))
    elif isinstance(value, (list, tuple, deque)):
        found.update(enumerate(value))
    elif isinstance(value, (set, frozenset)):
        found.update((id(each), each) for each in value)
    return found if is_container or isinstance(held, dict) else None


def _put(variables: Any, name: Any, value: Any) -> None:
    """Binds a name again, or has it bound to nothing."""
    if value is _MISSING:
        variables.pop(name, None)
    else:
        variables[name] = value


def _restore(held: Any, before: Mapping[Any, Any], now: Mapping[Any, Any]) -> None:
    """Has a container, an object, a function or a class hold again what it held."""
    elements = {key: value for key, value in before.items() if type(key) is not tuple or key[:1] != (_MISSING,)}
    if isinstance(held, dict):
        dict.clear(held)
        dict.update(held, elements)
    elif isinstance(held, (list, deque, set)):
        held.clear()
        held.update(elements.values()) if isinstance(held, set) else held.extend(elements.values())
    elif isinstance(held, types.CellType):
        if "contents" in before:
            held.cell_contents = before["contents"]
    else:
        for name, value in _difference(before, now).items():
            old = before.get(name, _MISSING)
            if isinstance(held, type):
                delattr(held, name) if old is _MISSING else setattr(held, name, old)
            elif name in vars(held):
                _put(vars(held), name, old)
            elif value is _MISSING:
                vars(held)[name] = old


def _is_of_libraries(module: Any) -> bool:
    """Whether a module of Python's, given its name, is torch's, opbridge's or Python's own: those keep no state."""
    top = str(module).partition(".")[0]
    return top == "torch" or is_of_others(top) or top in sys.stdlib_module_names


def _is_for_others(frame: FrameType) -> bool:
    """Whether a function runs to write a log or to find a module, as handlers and finders of an application's do."""
    caller = frame.f_back
    while caller is not None:
        top = str(caller.f_globals.get("__name__")).partition(".")[0]
        if top in _CALLING_OTHERS:
            return True
        if top == "opbridge":
            return False
        caller = caller.f_back
    return False


def _public(held: Mapping[str, Any]) -> dict[str, Any]:
    """What a class holds, without what Python keeps of it, such as its abstract methods."""
    return {name: value for name, value in held.items() if not name.startswith(("__", "_abc_"))}


def _is_same(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    if one.keys() != other.keys():
        return False
    return all(map(operator.is_, one.values(), other.values())) or all(
        value is other[key] for key, value in one.items()
    )


def _difference(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> dict[Any, Any]:
    new = {key: value for key, value in now.items() if key not in before or before[key] is not value}
    return new | dict.fromkeys(before.keys() - now.keys(), _MISSING)


@functools.cache
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a function uses beside its variables, and those that it writes to."""
    stored = {each.argval for each in dis.get_instructions(code) if each.opname in _STORING}
    return frozenset(code.co_names), frozenset(stored)


@functools.cache
def _compares_objects(code: CodeType) -> bool:
    """Whether a function has an `is` between two values, or takes the identity of one."""
    found = list(dis.get_instructions(code))
    return "id" in code.co_names or any(
        each.opname == "IS_OP" and before.opname != "LOAD_CONST" for before, each in itertools.pairwise(found)
    )
