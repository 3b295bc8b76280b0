"""Small pieces of text for reports and errors."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["counted", "duration", "listed", "sentence", "within"]


def counted(count: int, what: str) -> str:
    """ "1 run", "3 runs" """
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def duration(seconds: float) -> str:
    """ "34 ms", "2.1 s", "3.5 min" """
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def listed(names: Sequence[str], most: int) -> str:
    """ "a, b and 3 more" """
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def within(name: str) -> str:
    """A model's name within a sentence: "the model in memory"; names of files stay as they are."""
    return name.replace("The model in memory", "the model in memory")


def sentence(text: str) -> str:
    """A text that may begin a sentence; the names of files and inputs stay as they are."""
    return text[:1].upper() + text[1:] if text.startswith(("the ", "no ")) else text
