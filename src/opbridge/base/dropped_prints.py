"""Drops what a model prints when it is executed again."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

__all__ = ["dropping_prints"]


class _Dropped(io.TextIOBase):
    """A text file that keeps nothing.

    Attributes:
        rich_proxied_file: Where rich, which draws the stages of an export meanwhile, writes instead.
    """

    def __init__(self, file: Any) -> None:
        self.rich_proxied_file = getattr(file, "rich_proxied_file", file)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


def dropping_prints(enabled: bool = True) -> contextlib.AbstractContextManager[Any]:
    """Within this context, what Python prints to the standard output is dropped.

    Args:
        enabled: False: it is printed.
    """
    return contextlib.redirect_stdout(_Dropped(sys.stdout)) if enabled else contextlib.nullcontext()
