"""Classes and operators of transformers, whichever release is installed."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
import transformers

__all__ = ["grouped_product", "of_module", "of_transformers"]


def of_transformers(name: str) -> Any:
    """A class by its name; a test is skipped where the installed release has none of that name."""
    found = getattr(transformers, name, None)
    if found is None:
        pytest.skip(f"transformers has no {name}")
    return found


def of_module(module: str, name: str) -> Any:
    """A class or function of a module of transformers; a test is skipped where the installed release has none."""
    try:
        found = getattr(importlib.import_module(f"transformers.{module}"), name, None)
    except ImportError:
        found = None
    if found is None:
        pytest.skip(f"transformers has no {name} in {module}")
    return found


def grouped_product() -> Any:
    """The operator by which mixtures of experts go over their experts.

    A test is skipped where the installed release has none, and its Python loops over the experts that values choose.
    """
    pytest.importorskip("transformers.integrations.moe", reason="transformers has no integrations.moe")
    found = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    if found is None:
        pytest.skip("transformers has no grouped_mm_fallback")
    return found
