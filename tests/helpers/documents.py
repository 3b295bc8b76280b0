"""The documents of the repository, and the modules that stand beside them."""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path

__all__ = ["DOCS", "PAGES", "ROOT", "load"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
"""All documents, in all languages."""


def load(file: Path) -> types.ModuleType:
    """A module that belongs to no package."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
