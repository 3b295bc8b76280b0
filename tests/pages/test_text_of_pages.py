"""What becomes of text on its way into a page."""

from __future__ import annotations

import pytest

from opbridge.base.wording import duration
from opbridge.pages.rendering import plain_data


@pytest.mark.parametrize(
    "told", ["\x1b[31mError\x1b[0m", "\x1b[1;38;5;9mError\x1b[m\x1b[K", "\x1b]8;;https://x.y\x07Error\x1b]8;;\x1b\\"]
)
def test_what_is_for_terminals_is_left_out(told):
    """Results of sweeps that were kept before it was left out there have it still."""
    assert plain_data({"models": [{"message": told}]}) == {"models": [{"message": "Error"}]}


def test_text_that_looks_like_a_colour_stays():
    assert plain_data("float32 [3m, 4]") == "float32 [3m, 4]"


@pytest.mark.parametrize(
    "seconds, told", [(0.0004, "0 ms"), (0.034, "34 ms"), (0.2, "0.2 s"), (99.96, "100.0 s"), (210.0, "3.5 min")]
)
def test_durations(seconds, told):
    assert duration(seconds) == told
