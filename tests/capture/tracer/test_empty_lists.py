"""Errors that are raised because a list is empty, and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from opbridge.capture.tracer.contiguous_copies import ContiguousCopies, Copying
from opbridge.capture.tracer.empty_lists import is_of_empty_list
from opbridge.capture.tracer.python_functions import PythonFunctions


def raised(function: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as found, PythonFunctions(lambda given: None, ContiguousCopies(Copying())):
        function()
    return found.value


@pytest.mark.parametrize("function", [torch.cat, torch.stack, torch.hstack], ids=lambda each: each.__name__)
def test_a_function_that_is_called_with_an_empty_list(function: Callable[..., Any]) -> None:
    assert is_of_empty_list(raised(lambda: function([])))


def test_an_argument_with_a_name() -> None:
    assert is_of_empty_list(raised(lambda: torch.cat(tensors=[], dim=0)))


@pytest.mark.parametrize("read", [lambda each: each[-1], lambda each: each[2], lambda each: each.pop()])
def test_an_element_of_an_empty_list(read: Callable[[list[Any]], Any]) -> None:
    assert is_of_empty_list(raised(lambda: read([])))


def test_an_index_of_no_numbers() -> None:
    assert is_of_empty_list(raised(lambda: torch.ones(2, 2)[:, torch.tensor([])]))
    assert not is_of_empty_list(raised(lambda: torch.ones(2, 2)[:, torch.ones(1)]))


@pytest.mark.parametrize(
    "function",
    [
        lambda: torch.cat([torch.ones(2), torch.ones(2, 2)]),
        lambda: torch.ones(2).sum(3),
        lambda: torch.ones(2)[5],
        lambda: {}["missing"],
        lambda: int("non-empty"),
    ],
)
def test_other_errors(function: Callable[[], Any]) -> None:
    assert not is_of_empty_list(raised(function))
