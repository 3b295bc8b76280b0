"""How much memory this process has taken."""

from __future__ import annotations

import sys

__all__ = ["peak_bytes"]


def peak_bytes() -> int:
    """The most memory that this process has held so far, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024
