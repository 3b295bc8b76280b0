"""The classes of diffusers' models, found in its source: importing all of them takes seconds."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FOLDERS", "ModelClass", "model_classes"]

FOLDERS = ("unets", "transformers", "autoencoders", "controlnets")
_HOLDERS = ("MotionAdapter", "ControlNetXSAdapter")
"""Classes that hold weights for another model, and compute nothing themselves."""

_CLASS = re.compile(r"^class (\w+)\(([^)]*)\)", re.MULTILINE)


@dataclass(frozen=True)
class ModelClass:
    """A class of diffusers'.

    Attributes:
        module: The module that defines it.
        name: Its name.
        folder: The one of `FOLDERS` that the module is in.
    """

    module: str
    name: str
    folder: str

    def load(self) -> Any:
        """Imports it."""
        return getattr(importlib.import_module(self.module), self.name)


def model_classes() -> Iterator[ModelClass]:
    """Those that a configuration makes, and those that inherit from one of them, by folder, module and place.

    Without those that only hold weights for another.
    """
    known: set[str] = set()
    package = importlib.util.find_spec("diffusers")
    assert package is not None and package.submodule_search_locations
    root = Path(package.submodule_search_locations[0]) / "models"
    for folder in FOLDERS:
        for path in sorted((root / folder).glob("*.py")):
            for name, bases in _CLASS.findall(path.read_text(encoding="utf-8")):
                parents = {base.strip() for base in bases.split(",")}
                if ("ModelMixin" in bases and "ConfigMixin" in bases) or parents & known:
                    known.add(name)
                    if name not in _HOLDERS:
                        yield ModelClass(f"diffusers.models.{folder}.{path.stem}", name, folder)
