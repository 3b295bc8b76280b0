"""Which errors of a capture are faults of opbridge."""

from __future__ import annotations

import pytest
import torch

from opbridge.base import own_faults
from opbridge.base.own_faults import raise_own_fault
from opbridge.base.wording import listed


def _raised(function) -> BaseException:
    with pytest.raises(Exception) as found:
        function()
    return found.value


@pytest.mark.parametrize("error", [AssertionError, AttributeError, KeyError, NameError])
def test_a_fault_in_a_line_of_opbridge_is_raised(error, monkeypatch):
    def broken(*args):
        raise error("broken")

    monkeypatch.setattr(own_faults, "_PACKAGE", __file__.rpartition("/")[0])
    with pytest.raises(error, match="broken"):
        raise_own_fault(_raised(broken))


def test_an_attribute_that_opbridge_misses_is_one():
    with pytest.raises(AttributeError):
        raise_own_fault(_raised(lambda: raise_own_fault(object())))


@pytest.mark.parametrize(
    "function",
    [
        lambda: {}["of the model's"],
        lambda: torch.zeros(3).no_such_attribute,
        lambda: torch.zeros(3) @ torch.zeros(4),
        lambda: listed(None, 3),  # a TypeError, which functions of torch's raise as well
    ],
)
def test_what_the_model_or_torch_raises_is_none(function):
    raise_own_fault(_raised(function))


def test_a_package_beside_opbridge_whose_name_begins_alike_is_another_one():
    space: dict[str, object] = {}
    exec(
        compile("def broken():\n    raise KeyError('theirs')", f"{own_faults._PACKAGE[:-1]}_extras/model.py", "exec"),
        space,
    )
    raise_own_fault(_raised(space["broken"]))


def test_an_error_that_was_never_raised_is_none():
    raise_own_fault(AssertionError("kept"))
