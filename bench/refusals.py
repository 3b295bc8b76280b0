"""The errors of captures and verifications that the tests provoke, in one table to be read as a whole.

    python bench/refusals.py [TESTS ...]

Runs the tests that expect such an error, and prints each distinct message: its first sentence, which is to name the
cause with the model's line (or, for a size, the entry of `dynamic_shapes` that states it), and what follows, which is
to say what to do. A message that has neither a line nor an entry, or no second sentence, is counted at the end.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

import pytest

from opbridge.errors import CaptureError, VerificationError

TESTS = ("tests/capture", "tests/verification/test_uncovered_sizes.py")
_LINE = re.compile(r"\w+\.py:\d+")


class Collected:
    """A plug-in of pytest that keeps the errors that tests expect."""

    def __init__(self) -> None:
        self.messages: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        raises = pytest.RaisesExc.__exit__
        collected = self

        def leave(self: Any, kind: Any, error: Any, trace: Any) -> Any:
            if isinstance(error, (CaptureError, VerificationError)):
                said = _LINE.sub("model.py:1", re.sub(r"\S*/(?=\w+\.py:)", "", str(error)))
                collected.messages.setdefault(re.sub(r"\d+", "0", said), said)
            return raises(self, kind, error, trace)

        pytest.RaisesExc.__exit__ = leave  # type: ignore[method-assign]
        try:
            return (yield)
        finally:
            pytest.RaisesExc.__exit__ = raises  # type: ignore[method-assign]


def _sentences(message: str) -> tuple[str, str]:
    """The first sentence of a message, and the rest without the model's code."""
    paragraph = " ".join(line.strip() for line in message.splitlines() if not line.startswith("    "))
    first = re.match(r"(.*?[^.]\.)(?= [A-Z]|$)", paragraph)
    return (first[1], paragraph[first.end() :].strip()) if first else (paragraph, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="*", default=TESTS)
    collected = Collected()
    pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *parser.parse_args().tests], [collected])
    rows = sorted({_sentences(each) for each in collected.messages.values()})
    print("\n| cause | what to do |\n| --- | --- |")
    for cause, remedy in rows:
        print(f"| {cause.replace('|', '/')} | {remedy.replace('|', '/')} |")
    without_line = sum("model.py:1" not in cause and "dynamic_shapes" not in cause for cause, _ in rows)
    without_remedy = sum(not remedy for _, remedy in rows)
    print(f"\n{len(rows)} refusals: {without_line} with no line in the first sentence, {without_remedy} with no remedy")


if __name__ == "__main__":
    sys.exit(main())
