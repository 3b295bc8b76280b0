"""What a capture computes in the place of a function of transformers', for tests that compare the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opbridge.model_support import applying

__all__ = ["computed"]


def computed(original: Callable[..., Any]) -> Callable[..., Any]:
    """What is computed in the place of a function; a test is skipped where the function is another one.

    The tests take the newest transformers, which may have changed it.
    """
    found = applying.replacement_of(original)
    if found is None:
        pytest.skip(f"this transformers has another {original.__qualname__}")  # transformers is not pinned
    return applying.replaced(original, found)
