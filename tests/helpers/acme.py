"""A package of models with a support of its own, as another distribution brings it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from helpers.distributions import Distribution
from opbridge.model_support import package_sources, registry
from opbridge.model_support.fingerprints import fingerprint_of_source

__all__ = ["Acme"]

_PACKAGE = """
import torch

def scale():
    return 2

def outside(x):
    return x * {factor}

class Base(torch.nn.Module):
    def called(self, x):
        return x + {added}

class Model(Base):
    def method(self, x):
        return self.called(x) * scale()

    def forward(self, x):
        return outside(self.method(x))
"""
_SUPPORT = """
import torch

from opbridge.model_support import FunctionReplacement, ModelSupport

SUPPORT = ModelSupport(
    package="acme",
    entries=(
        FunctionReplacement(
            targets=("acme.models:outside",),
            sources=("{outside}",),
            replacement=lambda arguments: arguments["x"] * 3,
            inputs=lambda owner: [((torch.ones(3),), {{}})],
        ),
        FunctionReplacement(
            targets=("acme.models:Model.method",),
            sources=("{method}",),
            replacement=lambda arguments: (arguments["x"] + 1) * 2,
            calls={{"called": "{called}", "scale": "{scale}"}},
            inputs=lambda owner: [((owner(), torch.ones(3)), {{}})],
        ),
        FunctionReplacement(
            targets=("acme.gone:outside",), sources=("0",), replacement=lambda arguments: None
        ),
    ),
)
"""


class Acme:
    """The package with its support, which was made for its first sources.

    Args:
        folder: Where it is installed; the folder is put on `sys.path`.
        monkeypatch: What takes it away again.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        registry.loaded.cache_clear()  # of the test before, which had the same entry point
        # Bytecode of sources of the same size, written in the same second, would be taken for that of the new ones.
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        self._made = Distribution(folder, monkeypatch, "acme-onnx")
        self._made.module("acme.__init__", "")
        self.write()
        marks = {name: self._fingerprint(name) for name in ("outside", "Model.method", "Base.called", "scale")}
        named = {name.rpartition(".")[2]: mark for name, mark in marks.items()}
        self._made.module("acme_support", _SUPPORT.format(**named))
        self._made.entry_points(registry.GROUP, acme="acme_support:SUPPORT")

    def write(self, factor: int = 3, added: int = 1) -> None:
        """Writes the package, as another release of it."""
        self._made.module("acme.models", _PACKAGE.format(factor=factor, added=added))
        package_sources.parsed.cache_clear()

    @staticmethod
    def _fingerprint(name: str) -> str:
        source = package_sources.source_of(f"acme.models:{name}")
        return fingerprint_of_source(source or "")
