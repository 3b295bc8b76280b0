"""Registers opbridge's translations as symbolic functions with torch.onnx, and removes them again."""

from __future__ import annotations

import functools
from types import TracebackType

from opbridge.base.torch_private import torchscript_export, torchscript_registry
from opbridge.errors import UsageError
from opbridge.onnx import opsets
from opbridge.symbolics.bridging import as_symbolic, translations_by_base_name
from opbridge.translations.catalogue import default_registry

__all__ = ["Registered", "register_symbolics"]


class Registered:
    """A handle on the functions that `register_symbolics` registered. A context manager that removes them at its end.

    Attributes:
        names: The operators, as TorchScript names them.
    """

    def __init__(self, entries: list[tuple[str, int, object]]) -> None:
        self._entries = entries
        self.names = tuple(dict.fromkeys(name for name, _, _ in entries))

    def remove(self) -> None:
        """Removes the functions from torch's registry. Further calls do nothing."""
        entries, self._entries = self._entries, []
        torchscript_registry.unregister_functions(entries)

    def __enter__(self) -> Registered:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<{len(self.names)} operators registered with torch.onnx>" if self._entries else "<nothing registered>"


def register_symbolics(opset_version: int | None = None) -> Registered:
    """Registers opbridge's and the user's translations for `torch.onnx.export(dynamo=False)`.

    Where a translation needs the size of a tensor, which a trace does not have, torch's own symbolic function is called
    instead. Functions that a user has registered with `torch.onnx.register_custom_op_symbolic` keep precedence.

    Args:
        opset_version: The opset to register for; by default every one that the TorchScript exporter builds for.

    Returns:
        A handle, whose `remove()` restores torch's registry. It is a context manager too.

    Raises:
        UsageError: an opset that the TorchScript exporter does not build for.

    Example:
        >>> with opbridge.register_symbolics():
        ...     torch.onnx.export(model, args, "model.onnx", dynamo=False)
    """
    newest = torchscript_export.newest_opset()
    if opset_version is None:
        versions = range(opsets.OLDEST, newest + 1)
    elif type(opset_version) is int and opsets.OLDEST <= opset_version <= newest:
        versions = range(opset_version, opset_version + 1)
    else:
        raise UsageError(
            f"opset_version={opset_version!r} is not supported: with opbridge's translations, torch.onnx's "
            f"TorchScript exporter supports opset {opsets.OLDEST} to {newest}."
        )
    torchscript_registry.load_builtin_symbolics()
    functions = {}
    for name, entries in translations_by_base_name(default_registry()).items():
        builtin = functools.partial(torchscript_registry.builtin_symbolic, name)
        # torchlib's translations are used only where torch has no symbolic function.
        if builtin(newest) is None or any(entry.origin != "torchlib" for entry in entries):
            functions[name] = as_symbolic(entries, fallback=builtin)
    return Registered(torchscript_registry.register_functions(functions, versions))
