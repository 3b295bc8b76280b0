"""Elements of lists that hold several values: what they hold, made again, and whether it has changed."""

from __future__ import annotations

import collections
import dataclasses
import enum
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from opbridge.capture.tracer.list_rows import NotedRows, RowKind, is_constant, parts_of

_ONE, _OTHER = torch.ones(2), torch.zeros(3)


class Named(NamedTuple):
    x: Tensor
    y: Tensor


@dataclasses.dataclass
class Fields:
    x: Tensor
    y: Tensor


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Tensor
    y: Tensor


@dataclasses.dataclass(slots=True)
class Slots:
    x: Tensor
    y: Tensor


class Plain:
    def __init__(self, y: Tensor, x: Any) -> None:
        self.x, self.y = x, y


class Guarded:
    """As the containers of detectors: what is assigned goes into a dict."""

    def __init__(self) -> None:
        super().__setattr__("fields", {})

    def __setattr__(self, name: str, value: Any) -> None:
        self.fields[name] = value

    def __getattr__(self, name: str) -> Any:
        if name == "fields":
            raise AttributeError(name)
        return self.fields[name]


ROWS = [
    (_ONE, _OTHER),
    [_ONE, _OTHER],
    {"x": _ONE, "y": _OTHER},
    collections.OrderedDict(x=_ONE, y=_OTHER),
    Named(_ONE, _OTHER),
    Fields(_ONE, _OTHER),
    Frozen(_ONE, _OTHER),
    Slots(_ONE, _OTHER),
    Plain(_OTHER, _ONE),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_is_made_again(row: Any) -> None:
    found = parts_of(row)
    assert found is not None
    kind, parts = found
    assert kind.width == 2
    assert parts[0] is _ONE and parts[1] is _OTHER
    made = kind.row([_OTHER, _ONE])
    assert type(made) is type(row)
    again = parts_of(made)
    assert again is not None and again[0] == kind
    assert again[1][0] is _OTHER and again[1][1] is _ONE


def test_an_object_with_its_own_assignment_is_made_again() -> None:
    guarded = Guarded()
    guarded.x = _ONE
    found = parts_of(guarded)
    assert found is not None and found[1] == [{"x": _ONE}]
    made = found[0].row([{"x": _OTHER}])
    assert made.x is _OTHER


@pytest.mark.parametrize(
    "value",
    [
        _ONE,
        3,
        "text",
        None,
        enum.Enum("Kind", "A").A,
        (),
        [],
        {},
        nn.Linear(2, 2),
        Plain,
        object(),
        torch.float32,
        range(3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_row(value: Any) -> None:
    assert parts_of(value) is None


def test_rows_of_other_keys_are_of_another_kind() -> None:
    rows: list[Any] = [{"x": 1}, {"y": 1}, {"x": 2}, [1], (1,)]
    kinds = [found[0] for found in map(parts_of, rows) if found is not None]
    assert kinds[0] == kinds[2]
    assert all(kinds[0] != each for each in (kinds[1], *kinds[3:])) and len(kinds) == len(rows)


@pytest.mark.parametrize("value", ["a", True, 0.5, None, enum.Enum("Kind", "A").A, torch.int64, torch.device("cpu")])
def test_constants(value: Any) -> None:
    assert is_constant(value)


@pytest.mark.parametrize("value", [1, _ONE, (1,)])
def test_what_may_be_computed_is_no_constant(value: Any) -> None:
    assert not is_constant(value)


def test_a_change_is_seen() -> None:
    rows = NotedRows()
    row, object_ = {"x": _ONE, "box": [_ONE, 1]}, Fields(_ONE, _OTHER)
    for each in (row, object_, _ONE, (_ONE,)):
        rows.note(each)
    assert rows.are_unchanged()
    row["x"] = _ONE.clone()
    assert not rows.is_unchanged(row) and rows.is_unchanged(object_)
    rows.note(row)  # which is noted already
    assert not rows.are_unchanged()
    rows.note_again(row)
    assert rows.are_unchanged()


def test_a_change_of_what_is_in_a_row_is_seen() -> None:
    rows, inner = NotedRows(), {"x": _ONE}
    outer = [inner, 3]
    rows.note(inner)
    rows.note(outer)
    inner["x"] = _OTHER
    assert not rows.is_unchanged(outer)
    rows.note_again(outer)
    assert rows.are_unchanged()
    outer.append(4)
    assert not rows.are_unchanged()


def test_a_change_of_what_is_in_a_tuple_is_seen() -> None:
    rows, inner = NotedRows(), {"x": _ONE}
    for each in ((3, inner), (3, 4)):
        rows.note(each)
    inner["x"] = _OTHER
    assert not rows.are_unchanged()


def test_a_row_that_holds_itself_is_looked_at_to_a_depth() -> None:
    rows, row = NotedRows(), Plain(_ONE, _OTHER)
    row.x = row
    rows.note(row)
    assert rows.are_unchanged()
    row.y = _OTHER
    assert not rows.are_unchanged()


def test_what_a_tuple_holds_does_not_change() -> None:
    assert not RowKind(tuple, 2).is_modifiable
    assert RowKind(list, 2).is_modifiable
