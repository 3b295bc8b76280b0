"""What packages have to say while they are imported for a sweep, which nobody asked for there."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

__all__ = ["quietly"]


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Within this context, warnings are ignored, and log records below errors."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
