"""The built-in kernels in PyTorch: opbridge_ops."""

from __future__ import annotations

import functools
from pathlib import Path

from opbridge.kernels import gradients, library
from opbridge.kernels.load import Operators, load

__all__ = ["load_builtin", "sources"]


@functools.cache
def load_builtin() -> Operators:
    """The built-in operators, with their gradients, as attributes and in `torch.ops.opbridge_ops`.

    From the library that came with the wheel; in a source tree, which has none, they are built first.
    """
    found = library.builtin()
    operators = load(found[0].path) if found else load(*sources())
    gradients.register(operators)
    return operators


def sources() -> list[Path]:
    """The C++ files of the built-in kernels."""
    return sorted(file for file in Path(__file__).parent.glob("*.cpp") if not file.name.startswith("host"))
