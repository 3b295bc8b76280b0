"""The operators that a runtime has in addition to its own: plug-ins and custom operators of the user's."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Collection, Iterable, Sequence

from opbridge.errors import UsageError

__all__ = ["checked", "is_provided", "remedy", "unmatched"]

_ONNX = ("", "ai.onnx")
_FORM = 'a pattern has the form "DOMAIN::OPERATOR", such as "trt::MyTopK" or "trt::*"'


def checked(patterns: str | Iterable[str]) -> tuple[str, ...]:
    """The patterns of operators that the user's runtime provides, each once.

    Args:
        patterns: "trt::MyTopK", or "trt::*" for all operators of a domain; one, or several.

    Raises:
        UsageError: One is no pattern of operators, or is of ONNX's own domain.
    """
    given = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    for pattern in given:
        if not isinstance(pattern, str):
            raise UsageError(f"provides={pattern!r} is invalid: {_FORM}.")
        domain, separator, operator = pattern.partition("::")
        if separator and domain in _ONNX:
            raise UsageError(
                f"provides={pattern!r} is invalid: it names the domain of ONNX itself, whose operators the facts of "
                "the target describe. Use a domain of your own; for a finding that does not hold for your runtime, "
                "use opbridge lint --ignore."
            )
        if not domain or not separator or not operator or "::" in operator or domain.strip("*?") == "":
            raise UsageError(f"provides={pattern!r} is invalid: {_FORM}.")
    return tuple(dict.fromkeys(given))


def is_provided(domain: str, op_type: str, patterns: Collection[str]) -> bool:
    """Whether an operator fits one of the patterns. Upper and lower case differ, as in ONNX.

    Args:
        domain: The domain of the operator.
        op_type: Its type.
        patterns: The patterns, as `checked` gives them.
    """
    return domain not in _ONNX and any(fnmatch.fnmatchcase(f"{domain}::{op_type}", each) for each in patterns)


def unmatched(patterns: Sequence[str], operators: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """A sentence for each pattern that fits no operator of a model, with the operator that was perhaps meant.

    Args:
        patterns: The patterns, as `checked` gives them.
        operators: The operators of the model: (domain, type).
    """
    found = []
    custom = sorted(f"{domain}::{op_type}" for domain, op_type in operators if domain not in _ONNX)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(each, pattern) for each in custom):
            near = difflib.get_close_matches(pattern, custom, n=1)
            guess = f" Did you mean '{near[0]}'?" if near else ""
            found.append(f"provides={pattern!r} matches no operator of the model.{guess}")
    return tuple(found)


def remedy(operator: str) -> str:
    """What to do about an operator of another domain than ONNX's own that a target does not have.

    Args:
        operator: The operator: "trt::MyTopK".
    """
    return (
        f"If your runtime has it as a plug-in or custom operator, state so with --provides {operator} "
        f'(provides=["{operator}"]). Otherwise, use other operators.'
    )
