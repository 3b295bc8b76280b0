"""The kernel libraries that a session needs, registered with its options."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from typing import Any

import onnxruntime

from opbridge.base.wording import listed
from opbridge.errors import ModelFileError, UsageError
from opbridge.kernels import aten as aten_kernel
from opbridge.kernels import library
from opbridge.kernels.library import Library
from opbridge.kernels.shipped import shipped
from opbridge.runtimes.onnxruntime.kernel_table import has_schema
from opbridge.runtimes.onnxruntime.onnxruntime_private import ERRORS
from opbridge.runtimes.onnxruntime.refusals import RUNTIME, plain_message

__all__ = ["check_complete", "register", "register_aten", "select"]

# Entries of a session's options, which record what was registered.
_REGISTERED = "opbridge.kernels"
_WITH_ATEN = "opbridge.with_aten"

_registering = threading.Lock()
"""Held from the moment that a library is told which others it registers until it has done so."""


def _renew_lock() -> None:
    """A process that is forked while another thread holds the lock would wait for ever."""
    global _registering
    _registering = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def select(kernels: Any, required: Sequence[str], *, loaded: bool) -> list[Library]:
    """The libraries to register, each once: those that the user names, and others that have a required kernel.

    Args:
        kernels: The paths that the user names.
        required: The kernels that the model needs, as "mylib::foo".
        loaded: Whether the libraries that this process has loaded into PyTorch are searched, before the built-in ones.

    Raises:
        UsageError: A path is no library, or two libraries have the same kernel.
        KernelError: A library cannot be loaded.
    """
    if isinstance(kernels, (str, os.PathLike)):
        kernels = [kernels]
    found = {each.path: each for each in map(library.open_library, kernels)}
    available = {name for each in found.values() for name in each.names}
    others = library.loaded() if loaded else []
    for name in required:
        if name in available or name == aten_kernel.NAME or has_schema(*name.split("::", 1)):
            continue
        other = next((each for each in (*others, *library.builtin_for(name)) if name in each.names), None)
        if other is not None:
            found[other.path] = other
            available |= other.names
    owners: dict[str, Library] = {}
    for each in found.values():
        for name in each.names:
            if owners.setdefault(name, each) is not each:
                raise UsageError(
                    f"{owners[name].path} and {each.path} both contain the kernel {name}. Leave one of them out."
                )
    return list(found.values())


def check_complete(label: str, required: Sequence[str], libraries: Sequence[Library]) -> None:
    """Checks that every kernel that a model needs is in a library or in ONNX Runtime.

    Nothing is checked if a library was not built with opbridge's header, as its kernels are not known.

    Raises:
        ModelFileError: Kernels are missing.
    """
    available = {name for each in libraries for name in each.names}
    missing = [
        name
        for name in required
        if name not in available and name != aten_kernel.NAME and not has_schema(*name.split("::", 1))
    ]
    if missing and all(each.is_ours for each in libraries):
        raise ModelFileError(
            f"{label} requires kernels for {listed(missing, 10)}, which are neither in {RUNTIME} nor in a given "
            "library. Pass the libraries that contain them in kernels=[...]."
        )


def register(options: onnxruntime.SessionOptions, libraries: Sequence[Library]) -> None:
    """Registers libraries with session options. Options that are used for several sessions are left as they are.

    Raises:
        UsageError: ONNX Runtime refuses a library.
    """
    names = [str(each.path) for each in libraries]
    if not names or _entry(options, _REGISTERED) == ":".join(names):
        return
    ours = [each for each in libraries if each.is_ours]
    with _registering:
        if ours:
            # ONNX Runtime accepts a domain from one library only, so the first library registers the others' operators.
            ours[0].register_with(ours[1:])
        for each in [*ours[:1], *(other for other in libraries if not other.is_ours)]:
            try:
                options.register_custom_ops_library(str(each.path))
            except ERRORS as error:
                reason = plain_message(str(error))
                raise UsageError(f"{RUNTIME} cannot load the kernel library {each.path}: {reason}.") from error
    options.add_session_config_entry(_REGISTERED, ":".join(names))


def register_aten(options: onnxruntime.SessionOptions, label: str, patterns: Sequence[str]) -> None:
    """Registers the library that runs `aten` nodes in libtorch with session options.

    Options that are used for several sessions are left as they are.

    Args:
        options: The session options.
        label: The model's name in messages.
        patterns: Operators that PyTorch may run in addition to the default list, as "torchvision::*".

    Raises:
        ModelFileError: torch is not installed.
        UsageError: A pattern is malformed, or the options were used with other patterns.
    """
    patterns = [patterns] if isinstance(patterns, str) else patterns
    allowed = _patterns(patterns)
    if registered := _entry(options, _WITH_ATEN):
        if allowed and registered != f"for {allowed}":
            raise UsageError(
                f"These session options were already used {registered or 'before'}, but aten= allows "
                f"{allowed}. Create new session options."
            )
        return
    aten_kernel.load_torch(label, _entry(options, aten_kernel.LIBTORCH))
    all_allowed = _patterns([*_entry(options, aten_kernel.PATTERNS).split(","), *patterns])
    if all_allowed:
        options.add_session_config_entry(aten_kernel.PATTERNS, all_allowed)
    options.register_custom_ops_library(str(shipped(aten_kernel.LIBRARY)))
    options.add_session_config_entry(_WITH_ATEN, f"for {allowed}")


def _patterns(patterns: Sequence[str]) -> str:
    """Patterns in the form that the library reads: checked, and separated by commas.

    Raises:
        UsageError: A pattern is malformed.
    """
    found = [str(each).strip() for each in patterns]
    wrong = next((each for each in found if each and not re.fullmatch(r"[\w.*]+(::[\w.*]+)?", each)), None)
    if wrong is not None:
        raise UsageError(
            f"aten= names {wrong!r}, which is not the name of an operator. Use names such as 'torchvision::nms', "
            "or patterns such as 'torchvision::*'."
        )
    return ",".join(each for each in found if each)


def _entry(options: onnxruntime.SessionOptions, key: str) -> str:
    """An entry of session options; "" where it is not set."""
    try:
        return str(options.get_session_config_entry(key))
    except ERRORS:
        return ""
