"""A distribution in a folder on `sys.path`, with an importable package and entry points."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

__all__ = ["Distribution"]


class Distribution:
    """An installed distribution of a test's own.

    Args:
        folder: The folder, which is put on `sys.path`.
        monkeypatch: What takes it away again.
        name: The name of the distribution, of version 1.2.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch
        self._metadata = folder / f"{name.replace('-', '_')}-1.2.dist-info"
        self._metadata.mkdir(parents=True)
        (self._metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        monkeypatch.syspath_prepend(folder)

    def module(self, name: str, source: str) -> None:
        """Adds a module, which is forgotten again after the test."""
        path = self._folder / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        name = name.removesuffix(".__init__")
        if name not in sys.modules:
            self._monkeypatch.setitem(sys.modules, name, None)
            del sys.modules[name]

    def entry_points(self, group: str, **values: str) -> None:
        """Declares entry points."""
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in values.items())]
        (self._metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
