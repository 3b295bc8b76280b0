"""What tells the source of a function from others, so that one that a release has changed is not taken for known."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import io
import textwrap
import tokenize
import types
from typing import Any

__all__ = ["fingerprint", "fingerprint_of_source"]


def fingerprint(function: Any) -> str:
    """What tells the source of a function, or of a static method, from others.

    Comments, documentation and spaces do not count. It is "" where there is no source, for what decorators have put
    around a function, and for any other object.
    """
    if isinstance(function, staticmethod):
        function = function.__func__
    is_plain = type(function) is types.FunctionType and not hasattr(function, "__wrapped__")
    return _of_function(function) if is_plain else ""


@functools.cache
def _of_function(function: types.FunctionType) -> str:
    try:
        return fingerprint_of_source(inspect.getsource(function))
    except (OSError, TypeError):
        return ""


def fingerprint_of_source(source: str) -> str:
    """The fingerprint of a function with this source, with its decorators; "" where it is not one definition."""
    try:
        text = textwrap.dedent(source)
        (defined,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return ""
    documented: range = range(0)
    if isinstance(defined, ast.FunctionDef) and ast.get_docstring(defined) is not None:
        said = defined.body[0]
        documented = range(said.lineno, (said.end_lineno or said.lineno) + 1)
    code = "\n".join("" if number in documented else line for number, line in enumerate(text.splitlines(), 1))
    tokens = tokenize.generate_tokens(io.StringIO(code + "\n").readline)
    told = [_told(each) for each in tokens if each.type not in (tokenize.COMMENT, tokenize.NL)]
    return hashlib.sha256("".join(told).encode()).hexdigest()[:16]


def _told(token: tokenize.TokenInfo) -> str:
    named = {tokenize.NEWLINE: "\n", tokenize.INDENT: "\t", tokenize.DEDENT: "\r"}
    # Newer releases of Python tell the parts of an f-string one by one, without the spaces between them.
    return named.get(token.type, token.string.replace(" ", ""))
