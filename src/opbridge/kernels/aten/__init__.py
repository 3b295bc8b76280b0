"""The library that runs `aten` nodes in ONNX Runtime: where its source is, and where it is. Needs no torch.

It is a library of its own, beside the built-in kernels, as it is of use only where libtorch is.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
from pathlib import Path

from opbridge.errors import BuildError, ModelFileError
from opbridge.kernels import build, compiler, library

__all__ = [
    "DOMAIN",
    "LIBTORCH",
    "NAME",
    "OLDER_FORM",
    "PATTERNS",
    "find",
    "is_at_hand",
    "is_refused",
    "load_torch",
    "refusal",
    "sources",
]

DOMAIN = "org.pytorch.aten"
NAME = f"{DOMAIN}::ATen"

PATTERNS = "opbridge.aten"
"""The entry of a session's options that names operators beside those of the default list."""

LIBTORCH = "opbridge.libtorch"
"""The entry of a session's options that names libtorch's path."""

OLDER_FORM = "in the form of older exporters"
"""What the library says of a node that `opbridge.aten_older` rewrites."""

_FOLDER = Path(__file__).parent


def sources() -> list[Path]:
    """The C++ files of the library, the one that gives it its name first."""
    return sorted(_FOLDER.glob("*.cpp"), key=lambda file: (file.stem != "aten", file.name))


@functools.cache
def find() -> Path:
    """The library: the one that came with the wheel, else one that is built now, or was before.

    Raises:
        BuildError: there is none, and no compiler that builds it.
    """
    return _prebuilt() or build.build(*sources(), host=False)


def _prebuilt() -> Path | None:
    found = [path for path in sorted(_FOLDER.parent.glob("_aten*")) if path.suffix in library.SUFFIXES]
    return found[0] if found else None


@functools.cache
def is_at_hand() -> bool:
    """Whether there is a library, or a compiler to build it with."""
    try:
        return _prebuilt() is not None or bool(compiler.find_compiler())
    except BuildError:
        return False


def refusal(schema: str) -> str:
    """Why an operator with this schema runs only where a session names it; "" where it runs anyway."""
    asked = ctypes.CDLL(str(find())).opbridge_aten_refusal
    asked.restype, asked.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
    return asked(schema.encode()).decode()


def is_refused(operator: str) -> bool:
    """Whether an operator ("aten::topk") runs only where a session names it, as far as the torch here has it."""
    from opbridge import _torch

    found = _torch.operator_object(operator)
    return found is not None and refusal(str(found._schema)) != ""


def load_torch(label: str, path: str = "") -> None:
    """Brings libtorch into the process, unless its path is given.

    Args:
        label: The model that needs it, for the message.
        path: What the session's options name.

    Raises:
        ModelFileError: torch is not installed.
    """
    if path or os.environ.get("OPBRIDGE_LIBTORCH") or "torch" in sys.modules:
        return
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise ModelFileError(
            f"{label} has operators that PyTorch itself runs, and torch cannot be imported here ({error}). Install it "
            "(pip install 'opbridge[torch]'), or name the path of libtorch_cpu.so in the environment's "
            "OPBRIDGE_LIBTORCH."
        ) from None
