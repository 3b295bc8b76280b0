"""Where in the user's code an operator comes from."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

__all__ = [
    "PACKAGE_FOLDER",
    "Source",
    "innermost",
    "note_sources",
    "noted_sources",
    "of_code",
    "of_function",
    "raised_at",
    "raised_in",
]

_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>[^\n]*)'
    r'(?:\n(?!\s*File ")(?P<code>[^\n]*))?'  # a frame without source text has no line of code
)


@dataclass(frozen=True)
class Source:
    """One line of Python.

    Attributes:
        file: The file in a short form: relative to the working directory or to site-packages.
        line: The line number, from 1.
        function: The function that the line stands in.
        code: The text of the line, stripped.
    """

    file: str
    line: int
    function: str = ""
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")


@functools.cache
def _readable(file: str) -> str:
    """A file's name without the parts that differ from machine to machine.

    A package may lie in another environment than the one that runs, which takes it by a `.pth` file.
    """
    if packages := _PACKAGES.match(file):
        return file[packages.end() :]
    here = os.path.join(os.getcwd(), "")
    return file[len(here) :] if file.startswith(here) else file


def _folder_of(package: str) -> str:
    module = sys.modules.get(package)
    return os.path.join(os.path.dirname(module.__file__), "") if module is not None and module.__file__ else "\0"


@functools.cache
def _torch_folder() -> str:
    return _folder_of("torch")


PACKAGE_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
"""Where opbridge's own files lie."""


@functools.cache
def _is_users(file: str) -> bool:
    # Nobody asks about a file of triton before it is loaded.
    return not file.startswith((_torch_folder(), _folder_of("triton"), PACKAGE_FOLDER, "<"))


@functools.lru_cache(maxsize=65536)
def innermost(stack_trace: str | None) -> tuple[Source, ...]:
    """The frames of a Python stack trace that lie outside torch, triton and opbridge, the innermost first.

    Args:
        stack_trace: Text in the form of `traceback.format_list`, the outermost frame first, as torch.fx keeps it in
            `node.meta["stack_trace"]`.
    """
    if not stack_trace:
        return ()
    frames = [
        Source(_readable(found["file"]), int(found["line"]), found["function"].strip(), (found["code"] or "").strip())
        for found in _FRAME.finditer(stack_trace)
        if _is_users(found["file"])
    ]
    return tuple(reversed(frames))


@functools.lru_cache(maxsize=65536)
def of_code(code: CodeType, line: int) -> Source | None:
    """One line of a function; None where it lies inside of torch, triton or opbridge."""
    file = code.co_filename
    if not _is_users(file):
        return None
    return Source(_readable(file), line, code.co_name, linecache.getline(file, line).strip())


def of_function(function: Callable[..., Any]) -> str:
    """A function's readable name, with the file and line of its definition: `gelu (ops.py:12)`."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    name = getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
    code = getattr(function, "__code__", None)
    return f"{name} ({_readable(code.co_filename)}:{code.co_firstlineno})" if code is not None else name


def raised_in(error: BaseException, *places: str) -> Source:
    """The innermost line that an exception passed through in some files or folders.

    Args:
        error: The exception, which was raised and caught.
        *places: Files, and folders with all that is in them. Where the exception passed through none of them, its
            innermost line is given, wherever that is.
    """
    frames = traceback.extract_tb(error.__traceback__)
    inside = [
        frame
        for frame in frames
        if any(frame.filename == place or frame.filename.startswith(os.path.join(place, "")) for place in places)
    ]
    last = (inside or frames)[-1]
    return Source(_readable(last.filename), last.lineno or 0, last.name, last.line or "")


_NOTED = "opbridge_sources"


def note_sources(error: BaseException, sources: tuple[Source, ...]) -> None:
    """Says of an exception which lines of the user's code it is about, where none of them is running.

    Args:
        error: The exception. What was said of it first stays.
        sources: The lines, the innermost first.
    """
    if sources and not noted_sources(error):
        setattr(error, _NOTED, sources)


def noted_sources(error: BaseException) -> tuple[Source, ...]:
    """What `note_sources` has said of an exception."""
    found: tuple[Source, ...] = getattr(error, _NOTED, ())
    return found


def raised_at(error: BaseException) -> Source | None:
    """The innermost line of the user's code that an exception passed through, or is about; None where there is none."""
    frames = [
        Source(_readable(frame.filename), frame.lineno or 0, frame.name, frame.line or "")
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_users(frame.filename)
    ]
    return frames[-1] if frames else next(iter(noted_sources(error)), None)
