"""What is known of the packages that a model uses, applied while the model is captured."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch

from opbridge.base.attributes import replacing
from opbridge.model_support.entries import CaptureContext, CodeReplacement, Entry, FunctionReplacement
from opbridge.model_support.fingerprints import fingerprint
from opbridge.model_support.holders import Place, holding, in_modules, in_objects
from opbridge.model_support.model_modules import functions_of, modules_of
from opbridge.model_support.registry import leave_out, supports

__all__ = [
    "applied",
    "applied_to_sizes_in_python",
    "noting",
    "replaced",
    "replacement_of",
    "replacement_of_method",
    "static_attribute",
]

_Kind = TypeVar("_Kind", bound=Entry)

_notes: contextvars.ContextVar[dict[str, None] | None] = contextvars.ContextVar("notes", default=None)


@contextlib.contextmanager
def noting() -> Iterator[Collection[str]]:
    """Gives what is to be said of the replacements that are computed within this context, once each, in order."""
    notes: dict[str, None] = {}
    token = _notes.set(notes)
    try:
        yield notes.keys()
    finally:
        _notes.reset(token)


@contextlib.contextmanager
def applied(model: torch.nn.Module) -> Iterator[None]:
    """Within this context, the functions that a model uses and that are known are replaced.

    In a module that has imported or defined such a function, the name that it has there stands for the replacement
    meanwhile, and so it does in a class of the model, for a method too, and in the model's own modules. A copy of a
    function is replaced in the modules and classes that the model's classes come from, by its name, and where it is the
    default of an argument of a function of a module that holds it. What holds a function otherwise, such as a list, a
    `functools.partial` or a closure, keeps it. A module that is imported meanwhile has the functions themselves
    afterwards.
    """
    with contextlib.ExitStack() as stack:
        _enter_contexts(stack, model, sizes_in_python=False)
        places = list(_places(model))  # all are found before the first one changes
        codes = [*_codes(model), *_defaults(places)]
        stack.enter_context(holding(places))
        stack.enter_context(replacing(*codes))
        yield


@contextlib.contextmanager
def applied_to_sizes_in_python(model: torch.nn.Module) -> Iterator[None]:
    """The same, of what is for captures alone in which all Python functions take symbolic sizes."""
    with contextlib.ExitStack() as stack:
        _enter_contexts(stack, model, sizes_in_python=True)
        yield


def _enter_contexts(stack: contextlib.ExitStack, model: torch.nn.Module, *, sizes_in_python: bool) -> None:
    """Enters the contexts of supports; a support whose context fails is left out."""
    for support in supports():
        contexts = [each for each in support.entries if isinstance(each, CaptureContext)]
        try:
            for each in contexts:
                if each.sizes_in_python == sizes_in_python:
                    stack.enter_context(each.context(model))
        except Exception as error:  # whatever the code of another distribution raises; of opbridge's own it is raised
            leave_out(support, error)


def replacement_of(function: Any) -> FunctionReplacement | None:
    """What is known of a function or method; None for one that is not known."""
    if type(function) is not types.FunctionType:
        return None
    return _known(function, _by_name(FunctionReplacement).get(function.__name__, ()))


def replacement_of_method(kind: type, name: str) -> FunctionReplacement | None:
    """What is known of a class's method, its own or inherited, with what it calls; None where it is not known."""
    return _known_method(kind, _by_name(FunctionReplacement).get(name, ()))


def _known(function: types.FunctionType, entries: tuple[FunctionReplacement, ...]) -> FunctionReplacement | None:
    plain = inspect.unwrap(function)
    found = next(_of_source(plain, entries), None)
    is_decorated = plain is not function
    return found if found is not None and is_decorated == bool(found.decorators) else None


def _known_method(kind: type, entries: tuple[FunctionReplacement, ...]) -> FunctionReplacement | None:
    function = static_attribute(kind, entries[0].name) if entries else None
    if function is None:
        return None
    others = getattr(function, "__globals__", {})
    for each in _of_source(function, [each for each in entries if each.calls]):
        called = {name: static_attribute(kind, name, others.get(name)) for name in each.calls}
        if all(fingerprint(called[name]) == known for name, known in each.calls.items()):
            return each
    return None


def _of_source(function: Any, entries: Iterable[FunctionReplacement]) -> Iterator[FunctionReplacement]:
    """Those of entries that know the source of a function, which is only read where a class has such a name."""
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    for each in entries:
        if owner.endswith(each.owner_suffix) and fingerprint(function) in each.sources:
            yield each


def static_attribute(kind: type, name: str, default: Any = None) -> Any:
    """An attribute of a class, its own or inherited, as the class holds it."""
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), default)


def _places(model: torch.nn.Module) -> Iterator[Place]:
    """The classes, modules and objects that have functions that are known."""
    by_name = _by_name(FunctionReplacement)
    if not by_name:
        return
    parts = list(model.modules())
    kinds = {type(each) for each in parts}
    classes = {each for kind in kinds for each in kind.__mro__}
    paths = {*(each.__module__ for each in classes), *_paths_of(itertools.chain.from_iterable(by_name.values()))}
    modules = filter(None, map(sys.modules.get, paths))
    known: dict[types.FunctionType, FunctionReplacement] = {}
    for place in (*classes, *modules):
        for name, entries in by_name.items():
            function = vars(place).get(name)
            if type(function) is types.FunctionType:
                found = _known(function, entries)
                if found is not None and not found.calls:
                    known[function] = found
                    yield place, name, replaced(function, found)
    for place, name, function in (*in_modules(known), *in_objects(known, (*classes, *parts))):
        value = replaced(function, known[function])
        yield place, name, staticmethod(value) if isinstance(vars(place)[name], staticmethod) else value
    # A class may override what an inherited method calls, so that the method is replaced in the model's own classes.
    for kind in kinds:
        for name, entries in by_name.items():
            found = _known_method(kind, entries)
            if found is not None:
                yield kind, name, replaced(getattr(kind, name), found)


def _paths_of(entries: Iterable[Entry]) -> Iterator[str]:
    """The paths of the modules that define functions, and of the packages around them, which may hold these as well."""
    for target in {target for entry in entries for target in entry.targets}:
        path, _, name = target.partition(":")
        if "." not in name:  # no method
            yield from itertools.accumulate(path.split("."), "{}.{}".format)


def _codes(model: torch.nn.Module) -> Iterator[Place]:
    """The functions of a model's modules whose code is replaced."""
    by_name = _by_name(CodeReplacement)
    functions = {each for place in modules_of(model) for each in _named(place, frozenset(by_name))}
    for function in functions:
        for entry in by_name[function.__name__]:
            is_near = not entry.variable or entry.variable in function.__code__.co_varnames
            code = entry.replacement(function) if is_near and fingerprint(function) in entry.sources else None
            if code is not None:
                yield function, "__code__", code


def _defaults(places: Iterable[Place]) -> Iterator[Place]:
    """The functions of modules that hold a function which is replaced, and that have it as a default argument too."""
    by_module: dict[types.ModuleType, dict[int, Any]] = {}
    for place, name, value in places:
        if isinstance(place, types.ModuleType):
            by_module.setdefault(place, {})[id(vars(place)[name])] = value
    for module, values in by_module.items():
        for function in functions_of(module):
            given = function.__defaults__ or ()
            if not values.keys().isdisjoint(map(id, given)):
                yield function, "__defaults__", tuple(values.get(id(each), each) for each in given)


@functools.cache
def _named(module: types.ModuleType, names: frozenset[str]) -> tuple[types.FunctionType, ...]:
    """The functions of these names that a module defines."""
    return tuple(each for each in functions_of(module) if each.__name__ in names)


@functools.cache
def replaced(original: Callable[..., Any], entry: FunctionReplacement) -> Callable[..., Any]:
    """A function that computes the replacement where it applies, and else the original."""
    plain = inspect.unwrap(original)
    signature = inspect.signature(plain)
    names = {entry.name, *entry.calls} if entry.calls else set()

    @functools.wraps(plain)
    def computed(*args: Any, **settings: Any) -> Any:
        given = signature.bind(*args, **settings)
        given.apply_defaults()
        arguments = {**given.arguments, **{name: plain.__globals__[name] for name in entry.uses}}
        is_overridden = bool(names) and not names.isdisjoint(vars(arguments["self"]))
        found = entry.replacement(arguments) if not is_overridden and entry.applies(arguments) else None
        if found is None:
            return plain(*args, **settings)
        if (note := entry.note(arguments)) and (notes := _notes.get()) is not None:
            notes[note] = None
        return found

    decorated: Callable[..., Any] = computed
    for name in entry.decorators:
        decorated = plain.__globals__[name](decorated)
    return decorated


def _entries(kind: type[_Kind]) -> tuple[_Kind, ...]:
    return tuple(each for support in supports() for each in support.entries if isinstance(each, kind))


def _by_name(kind: type[Any]) -> Mapping[str, tuple[Any, ...]]:
    """The replacements of a kind by the names of functions."""
    found: dict[str, tuple[Any, ...]] = {}
    for each in _entries(kind):
        found[each.name] = (*found.get(each.name, ()), each)
    return found
