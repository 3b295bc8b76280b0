"""The catalogue of all translations: opbridge's, torchlib's, and those that users have registered."""

from __future__ import annotations

import fnmatch
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from opbridge import translations
from opbridge.base.torch_private import torch_operators
from opbridge.onnx import onnxscript_private
from opbridge.translations.registry import ORDER, Registry, Translation, registered
from opbridge.translations.signature import IGNORED_ARGUMENTS

__all__ = ["catalogue", "default_registry", "translation_table"]


@functools.cache
def _load_families() -> None:
    """Imports every module of opbridge.translations, whose decorators fill the registry."""
    for module in pkgutil.walk_packages(translations.__path__, f"{translations.__name__}."):
        importlib.import_module(module.name)


def default_registry() -> Registry:
    """The registry of all translations. The first call loads opbridge's families, which imports torch."""
    _load_families()
    return _merged(registered()[1])


@functools.lru_cache(maxsize=1)
def _merged(generation: int) -> Registry:
    """The registered translations, and torchlib's; `generation` identifies the state of the former."""
    merged = registered()[0].copy()
    merged.torchlib = _of_torchlib
    return merged


@functools.cache
def _of_torchlib() -> Mapping[str, Sequence[Translation]]:
    found: dict[str, list[Translation]] = {}
    for operator, function, opset, is_complex in onnxscript_private.torchlib_entries():
        entries = found.setdefault(operator, [])
        # torchlib registers a few operators twice; torch.onnx uses the first one.
        if not any((other.opset, other.complex) == (opset, is_complex) for other in entries):
            entries.append(Translation(operator, function, opset, "torchlib", is_complex))
    return found


def translation_table() -> dict[Any, Callable[..., Any]]:
    """opbridge's and the user's translations in the form of torch.onnx.export's `custom_translation_table`.

    For each operator, the newest translation for opset 18, the version that torch.onnx builds for. Translations for
    complex inputs are left out, since the table cannot hold them.
    """
    _load_families()
    known, _ = registered()
    table: dict[Any, Callable[..., Any]] = {}
    for operator in known.entries:
        entry = known.find(operator, 18)
        target = torch_operators.operator_object(operator)
        # Only opbridge's translator builds the nodes of kernels.
        if entry is not None and target is not None and entry.route != "kernel":
            table[target] = _accepting_ignored_arguments(entry.function)
    return table


def _accepting_ignored_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for a caller that passes device, layout and the other ignored arguments to every translation."""
    names, _, takes_named = onnxscript_private.parameters(function)
    dropped = IGNORED_ARGUMENTS.difference(names)
    if takes_named or not dropped:
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{name: value for name, value in kwargs.items() if name not in dropped})

    return called


def catalogue(pattern: str = "*") -> list[Translation]:
    """Every translation whose operator fits a shell pattern, by operator, in the order in which they are preferred.

    A pattern without "::" is matched against the name alone, so that "deform*" finds torchvision::deform_conv2d; where
    it fits none, against the namespace.
    """
    known = default_registry().all_entries()
    fitting = [name for name in known if _fits(name, pattern)]
    if not fitting and "::" not in pattern:
        fitting = [name for name in known if _fits(name, f"{pattern}::*")]
    rows: Iterable[Translation] = (
        entry
        for name in sorted(fitting)
        for entry in sorted(known[name], key=lambda entry: (ORDER[entry.origin], -entry.opset))
    )
    return list(rows)


def _fits(operator: str, pattern: str) -> bool:
    name = operator if "::" in pattern else operator.partition("::")[2]
    return any(fnmatch.fnmatchcase(candidate, pattern) for candidate in (name, name.partition(".")[0]))
