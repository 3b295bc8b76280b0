"""The supports of packages that are installed, found through entry points.

1. An entry point of the group `opbridge.model_support` is named after the package that it is for, and is a
   `ModelSupport`.
2. It is loaded when the package has been imported, which is when a model may use it. Until then nothing of it is.
3. opbridge's own are declared in the same group. They are found also where opbridge is not installed, as from a folder
   on `sys.path`, or was installed before there were any.
4. One that cannot be loaded, or fails in a capture, is left out, with a warning and a note in the plan.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
import warnings
from dataclasses import dataclass

from opbridge.model_support.entries import ModelSupport

__all__ = ["BUILTIN", "GROUP", "Fault", "declared", "distribution_of", "faults", "leave_out", "loaded", "supports"]

GROUP = "opbridge.model_support"
BUILTIN = {
    "transformers": "opbridge.model_support.transformers.support:SUPPORT",
    "einx": "opbridge.model_support.einx.support:SUPPORT",
    "neuralforecast": "opbridge.model_support.neuralforecast.support:SUPPORT",
    "torchaudio": "opbridge.model_support.torchaudio.support:SUPPORT",
    "torchmetrics": "opbridge.model_support.torchmetrics.support:SUPPORT",
    "torchvision": "opbridge.model_support.torchvision.support:SUPPORT",
}
"""opbridge's own, as pyproject.toml declares them."""


@dataclass(frozen=True)
class Fault:
    """A support that cannot be loaded.

    Attributes:
        package: The package that it is for.
        distribution: The distribution that declares it, with its version.
        value: What the entry point says: "module:attribute".
        error: The error.
        what: What has failed: "cannot be loaded", or "fails in a capture".
    """

    package: str
    distribution: str
    value: str
    error: str
    what: str = "cannot be loaded"

    def __str__(self) -> str:
        return (
            f"the model support for {self.package} that {self.distribution} brings ({self.value}) {self.what}, and is "
            f"not used: {self.error}"
        )


def supports() -> tuple[ModelSupport, ...]:
    """Those of packages that have been imported."""
    found = (_left_out.get(each) or loaded(each) for each in declared() if each.name in sys.modules)
    return tuple(each for each in found if isinstance(each, ModelSupport))


def faults() -> tuple[Fault, ...]:
    """Those of packages that have been imported that cannot be loaded, or have failed in a capture."""
    found = (_left_out.get(each) or loaded(each) for each in declared() if each.name in sys.modules)
    return tuple(each for each in found if isinstance(each, Fault))


def declared() -> tuple[importlib.metadata.EntryPoint, ...]:
    """All entry points of the group, opbridge's own first."""
    return _declared(tuple(sys.path))


@functools.cache
def _declared(path: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """The metadata of distributions is read once, and again where `sys.path` has changed."""
    own = [importlib.metadata.EntryPoint(name, value, GROUP) for name, value in BUILTIN.items()]
    by_distribution: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for distribution in importlib.metadata.distributions():
        if found := _of_distribution(distribution):
            by_distribution.setdefault(distribution.name, found)  # the first one on the path is what is imported
    others = [each for found in by_distribution.values() for each in found]
    return (*own, *sorted(others, key=lambda each: (each.name, each.value)))


def _of_distribution(distribution: importlib.metadata.Distribution) -> list[importlib.metadata.EntryPoint]:
    """Its entry points of the group."""
    text = distribution.read_text("entry_points.txt") or ""
    if GROUP not in text:  # which also leaves out those that other packages have written wrongly
        return []
    try:
        if distribution.name == "opbridge":  # which may be installed in another release than this one
            return []
        return [*distribution.entry_points.select(group=GROUP)]
    except (TypeError, ValueError) as error:
        name = f"{distribution.name} {distribution.version}"
        warnings.warn(f"opbridge: the entry points of {name} cannot be read: {error}", RuntimeWarning, stacklevel=2)
        return []


@functools.cache
def loaded(entry_point: importlib.metadata.EntryPoint) -> ModelSupport | Fault:
    """What an entry point stands for; a fault, and once a warning, where that is no `ModelSupport`."""
    try:
        found = entry_point.load()
        if not isinstance(found, ModelSupport):
            raise TypeError(f"it is of type {type(found).__name__}, and not a ModelSupport")
        if found.package != entry_point.name:
            raise ValueError(f"it is for the package {found.package}, and the entry point is named {entry_point.name}")
        return found
    except Exception as error:  # whatever the module of another distribution raises
        fault = Fault(entry_point.name, distribution_of(entry_point), entry_point.value, _said(error))
    warnings.warn(f"opbridge: {fault}", RuntimeWarning, stacklevel=2)
    return fault


_left_out: dict[importlib.metadata.EntryPoint, Fault] = {}


def leave_out(support: ModelSupport, error: Exception) -> None:
    """Leaves out from now on what another distribution brings and what has failed in a capture, with a warning.

    Raises:
        Exception: The error itself, where opbridge brings the support.
    """
    entry_point = next(each for each in declared() if loaded(each) is support)
    if entry_point.value in BUILTIN.values():
        raise error
    where = distribution_of(entry_point)
    fault = Fault(entry_point.name, where, entry_point.value, _said(error), "fails in a capture")
    _left_out[entry_point] = fault
    warnings.warn(f"opbridge: {fault}", RuntimeWarning, stacklevel=2)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def distribution_of(entry_point: importlib.metadata.EntryPoint) -> str:
    """The distribution that declares an entry point, with its version; "opbridge" for its own."""
    found = entry_point.dist
    return "opbridge" if found is None else f"{found.name} {found.version}"
