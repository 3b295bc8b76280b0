"""Which functions that are known have another source in the release that is installed.

What is known of a function holds for the sources that it was compared with. A release that changes one leaves the
function as it is in a capture, and what is known of it has to be compared again.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from opbridge.model_support import package_sources, registry
from opbridge.model_support.applying import replacement_of_method, static_attribute
from opbridge.model_support.entries import CaptureContext, CodeReplacement, Entry, FunctionReplacement, ModelSupport
from opbridge.model_support.fingerprints import fingerprint, fingerprint_of_source
from opbridge.model_support.model_modules import functions_of, modules_of

__all__ = ["PackageSources", "TargetSource", "notes", "package_sources_known"]

State = Literal["known", "changed", "absent"]
_KINDS = {FunctionReplacement: "function", CodeReplacement: "code", CaptureContext: "context"}


@dataclass(frozen=True)
class TargetSource:
    """The source of a function in the installed release.

    Attributes:
        target: The function: "module:qualname".
        kind: What is known of it: "function", "code" or "context".
        state: "known"; "changed", where its source is another one, or its module has no such function; "absent", where
            the release has no such module.
        fingerprint: That of its source; "" where there is none.
        changed_calls: The functions that it calls whose sources are no longer known.
    """

    target: str
    kind: str
    state: State
    fingerprint: str
    changed_calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class PackageSources:
    """The sources of a package.

    Attributes:
        package: The package.
        release: Its release; None where it is not installed.
        brought_by: The distribution that has brought the entries: "opbridge", or another one with its version.
        fault: Why its support cannot be loaded; "" where it can be.
        targets: Those of all entries.
        support: The support; None where it is not installed or cannot be loaded.
    """

    package: str
    release: str | None
    brought_by: str
    fault: str
    targets: tuple[TargetSource, ...]
    support: ModelSupport | None = None

    @property
    def changed(self) -> tuple[TargetSource, ...]:
        """Those whose source is no longer known."""
        return tuple(each for each in self.targets if each.state == "changed")

    def replacements(self) -> dict[str, FunctionReplacement | CodeReplacement]:
        """The entries that have a function and its replacement, by target, where the release has the function."""
        there = {each.target for each in self.targets if each.fingerprint}
        entries = () if self.support is None else self.support.entries
        replacing = [each for each in entries if isinstance(each, FunctionReplacement | CodeReplacement)]
        return {target: each for each in replacing for target in each.targets if target in there}


def package_sources_known(package: str | None = None) -> list[PackageSources]:
    """The sources of all functions that are known, of one package or of all; the packages are not imported."""
    return [_of_package(each) for each in registry.declared() if package in (None, each.name)]


def _of_package(entry_point: importlib.metadata.EntryPoint) -> PackageSources:
    package = entry_point.name
    brought_by = registry.distribution_of(entry_point)
    if not package_sources.is_installed(package):
        return PackageSources(package, None, brought_by, "", ())
    found = registry.loaded(entry_point)
    if not isinstance(found, ModelSupport):
        return PackageSources(package, _release(package), brought_by, found.error, ())
    targets = tuple(_of_target(each, target) for each in found.entries for target in each.targets)
    return PackageSources(package, _release(package), brought_by, "", targets, found)


def _of_target(entry: Entry, target: str) -> TargetSource:
    kind = _KINDS[type(entry)]
    module = target.partition(":")[0]
    if not package_sources.has_module(module):
        return TargetSource(target, kind, "absent", "")
    mark = fingerprint_of_source(package_sources.source_of(target) or "")
    calls = entry.calls if isinstance(entry, FunctionReplacement) else {}
    owner = target.rpartition(".")[0]
    changed = []
    for name, known in calls.items():
        source = package_sources.source_of(f"{owner}.{name}") or package_sources.source_of(f"{module}:{name}")
        if fingerprint_of_source(source or "") != known:
            changed.append(name)
    is_known = mark in entry.sources and not changed
    return TargetSource(target, kind, "known" if is_known else "changed", mark, tuple(changed))


def _release(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def notes(model: torch.nn.Module) -> tuple[str, ...]:
    """What to say of a model's packages: supports that cannot be loaded, and its functions that have changed."""
    return (*map(str, registry.faults()), *map(_told, sorted(set(_changed_in(model)))))


def _told(target: str) -> str:
    package = target.partition(".")[0]
    release = _release(package)
    installed = f"{package} {release}" if release else package
    return (
        f"{target} has a source in {installed} that opbridge does not know; it is captured as it is, and not replaced "
        "as for the releases that are known"
    )


def _changed_in(model: torch.nn.Module) -> Iterator[str]:
    """The targets in a model's classes and modules whose source is not known."""
    by_target = {
        target: entry
        for support in registry.supports()
        for entry in support.entries
        if not isinstance(entry, CaptureContext)
        for target in entry.targets
    }
    if not by_target:
        return
    names = {target.rpartition(":")[2].rpartition(".")[2] for target in by_target}
    kinds = {type(each) for each in model.modules()}
    classes = {each for kind in kinds for each in kind.__mro__}
    modules = {module for each in classes if (module := sys.modules.get(each.__module__)) is not None}
    named = {each for module in modules for each in vars(module).values() if isinstance(each, types.ModuleType)}
    held = [vars(place).get(name) for place in (*classes, *modules, *named) for name in names]
    held += [each for place in modules_of(model) for each in functions_of(place) if each.__name__ in names]
    for each in held:
        function = inspect.unwrap(each) if isinstance(each, types.FunctionType) else each
        target = _target(function)
        if target in by_target and fingerprint(function) not in by_target[target].sources:
            yield target
    for kind in kinds:
        for name in names:
            function = static_attribute(kind, name)
            target = _target(function)
            entry = by_target.get(target)
            if isinstance(entry, FunctionReplacement) and entry.calls and _calls_have_changed(kind, function, entry):
                yield target


def _calls_have_changed(kind: type, function: Any, entry: FunctionReplacement) -> bool:
    """Whether a method calls others of its own module that are not known, and that no other class has overridden."""
    if replacement_of_method(kind, entry.name) is not None:
        return False
    others = getattr(function, "__globals__", {})
    for name, mark in entry.calls.items():
        called = static_attribute(kind, name, others.get(name))
        if fingerprint(called) != mark:
            owner = getattr(getattr(called, "__func__", called), "__module__", function.__module__)
            return bool(owner == function.__module__)
    return False


def _target(function: Any) -> str:
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
