"""What is said of an error: one short line, and its class."""

from __future__ import annotations

import re

from opbridge.errors import OpbridgeError

__all__ = ["cause", "named", "short"]

_FOLDERS = re.compile(
    r"[^\s'\"(]*/(?:opbridge-models-[^\s/]+|opbridge-sweep-[^\s/]+/\d+(?=/(?!opbridge-models-))|site-packages"
    r"|src(?=/opbridge/))/"
)
"""Where packages and the sweep's own files are on this machine."""


def short(message: str, longest: int = 700) -> str:
    """A message on one line, without the folders of this machine, cut where it has more characters than `longest`."""
    text = _FOLDERS.sub("", " ".join(message.split()))
    return text if len(text) <= longest else f"{text[:longest].rstrip()} ..."


def named(error: BaseException) -> str:
    """What an error says: opbridge's own are sentences; of another exporter's, the error that it comes from."""
    if isinstance(error, OpbridgeError):
        return str(error)
    found = _root(error)
    said = f"{type(found).__name__}: {' '.join(str(found).split())}"
    return said if found is error else f"{said} (raised as {type(error).__name__})"


def cause(error: BaseException) -> str:
    """The class of an error and of what it comes from: "CaptureError: DynamicAttributeError"."""
    found = _root(error)
    return type(error).__name__ if found is error else f"{type(error).__name__}: {type(found).__name__}"


def _root(error: BaseException) -> BaseException:
    """The error that an error was raised from, and so on."""
    seen = {id(error)}
    while (below := error.__cause__) is not None and id(below) not in seen:
        seen.add(id(below))
        error = below
    return error
