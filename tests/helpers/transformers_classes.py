"""Classes of transformers, whichever release is installed."""

from __future__ import annotations

from typing import Any

import pytest
import transformers

__all__ = ["of_transformers"]


def of_transformers(name: str) -> Any:
    """A class by its name; a test is skipped where the installed release has none of that name."""
    found = getattr(transformers, name, None)
    if found is None:
        pytest.skip(f"transformers has no {name}")
    return found
