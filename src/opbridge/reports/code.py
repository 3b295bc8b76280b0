"""The lines of Python that operators come from, with the text around them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opbridge.base.sources import Source

__all__ = ["Code"]

_AROUND = 6
"""How many lines before and after one are shown."""

_LARGEST_BYTES = 4 << 20


class Code:
    """The frames of a report, each once, and the excerpts of the files that they lie in.

    Attributes:
        frames: [file, line, function, text of the line], for each frame.
    """

    def __init__(self) -> None:
        self.frames: list[list[Any]] = []
        self._numbers: dict[tuple[str, int, str], int] = {}

    def number(self, source: Source) -> int:
        """The place of a frame in `frames`, to which it is added."""
        key = (source.file, source.line, source.function)
        if key not in self._numbers:
            self._numbers[key] = len(self.frames)
            self.frames.append([source.file, source.line, source.function, source.code])
        return self._numbers[key]

    def numbers(self, sources: Sequence[Source]) -> list[int]:
        """The places of several frames, the innermost first."""
        return [self.number(each) for each in sources]

    def written(self, place: str) -> list[int]:
        """The place of a frame that a file names as "net.py:12"; none where it is of another form."""
        file, _, line = place.rpartition(":")
        return [self.number(Source(file, int(line)))] if file and line.isdecimal() else []

    def excerpts(self) -> dict[str, list[list[Any]]]:
        """By file, the stretches of lines around the frames: [number of the first line, lines]."""
        found = {}
        for file in dict.fromkeys(frame[0] for frame in self.frames):
            wanted = {frame[1] for frame in self.frames if frame[0] == file}
            lines = _lines(file)
            if lines and (stretches := _stretches(wanted, lines)):
                found[file] = stretches
        for frame in self.frames:
            if not frame[3]:
                frame[3] = _line(found.get(frame[0], ()), frame[1]).strip()
        return found


def _stretches(wanted: set[int], lines: Sequence[str]) -> list[list[Any]]:
    shown: set[int] = set()
    for line in wanted:
        if line <= len(lines):
            shown.update(range(max(1, line - _AROUND), min(len(lines), line + _AROUND) + 1))
    found: list[list[Any]] = []
    for line in sorted(shown):
        if not found or found[-1][0] + len(found[-1][1]) != line:
            found.append([line, []])
        found[-1][1].append(lines[line - 1])
    return found


def _line(stretches: Sequence[Sequence[Any]], line: int) -> str:
    for first, texts in stretches:
        if first <= line < first + len(texts):
            return str(texts[line - first])
    return ""


def _lines(file: str) -> list[str]:
    """The lines of a file that a frame names in its short form; none where it cannot be found or read."""
    for folder in ("", os.getcwd(), *sys.path):
        path = Path(folder, file)
        try:
            if path.suffix == ".py" and path.is_file() and path.stat().st_size <= _LARGEST_BYTES:
                return path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
    return []
