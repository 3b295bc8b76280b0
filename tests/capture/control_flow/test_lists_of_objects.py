"""Lists of as many dicts and objects as inputs decide, which loops fill, read and change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from helpers.matching import assert_matches
from helpers.rows import one_in
from torch import Tensor

import opbridge
from opbridge.errors import CaptureError

GIVEN = torch.randn(7, 4), torch.tensor([2, 1, 4])
SHAPES = {"x": {0: "rows"}, "lengths": {0: "parts"}}


@dataclasses.dataclass
class Track:
    mean: Tensor
    score: Tensor
    label: str = "new"


class Instances:
    """As the containers of detectors: what is assigned goes into a dict, an index takes a part of each."""

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size
        self._fields: dict[str, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self._fields[name] = value

    def __getattr__(self, name: str) -> Any:
        if name == "_fields":
            raise AttributeError(name)
        return self._fields[name]

    def __getitem__(self, index: Any) -> Instances:
        found = Instances(self._size)
        for name, value in self._fields.items():
            setattr(found, name, value[index])
        return found


def _tracks(x: Tensor, lengths: Tensor) -> list[Track]:
    return [Track(part.mean(0), part.amax()) for part in x.split(lengths.tolist())]


def _dicts(x: Tensor, lengths: Tensor) -> list[dict[str, Tensor]]:
    return [{"mean": part.mean(0), "score": part.amax()} for part in x.split(lengths.tolist())]


def objects(x: Tensor, lengths: Tensor) -> Any:
    found = _tracks(x, lengths)
    return torch.stack([each.mean for each in found]), torch.stack([each.score for each in found])


def changed_objects(x: Tensor, lengths: Tensor) -> Any:
    found = _tracks(x, lengths)
    for each in found:
        each.mean = each.mean * 2
    for each in found:
        each.score += each.mean.sum()
    return torch.stack([each.mean for each in found]), torch.stack([each.score for each in found])


def instances(x: Tensor, lengths: Tensor) -> Any:
    found = []
    for part in x.split(lengths.tolist()):
        each = Instances((480, 640))
        each.boxes, each.scores = part * 2, part.sum(1)
        found.append(each[each.scores > 0])
    for each in found:
        each.boxes = each.boxes * each._size[1]
    return torch.cat([each.boxes for each in found]), torch.cat([each.scores for each in found])


def by_index(x: Tensor, lengths: Tensor) -> Any:
    found = _dicts(x, lengths)
    at = int(torch.stack([each["score"] for each in found]).argmax())
    return found[at]["mean"], found[0]["mean"], found[-1]["score"], torch.tensor(len(found))


def new_dicts(x: Tensor, lengths: Tensor) -> Any:
    found = _dicts(x, lengths)
    total = torch.stack([each["score"] for each in found]).sum()
    found = [{**each, "score": each["score"] / total} for each in found]
    return torch.stack([each["mean"] * each["score"] for each in found])


def changed_sometimes(x: Tensor, lengths: Tensor) -> Any:
    found = _dicts(x, lengths)
    for each in found:
        if each["score"] > 1:
            each["mean"] = each["mean"] * 2
    return torch.stack([each["mean"] for each in found])


def with_other_keys(x: Tensor, lengths: Tensor) -> Any:
    found = _dicts(x, lengths)
    for each in found:
        each["sum"] = each.pop("mean") + each["score"]
    return torch.stack([each["sum"] for each in found])


def changed_by_index(x: Tensor, lengths: Tensor) -> Any:
    parts, found = x.split(lengths.tolist()), []
    for part in parts:
        found.append({"rows": part[part[:, 0] > 0], "score": part.amax()})
    for at, (each, part) in enumerate(zip(found, parts, strict=True)):
        found[at]["rows"] = each["rows"] * part.abs().sum() + at
    return torch.cat([each["rows"] for each in found])


def changed_in_a_loop(x: Tensor, lengths: Tensor) -> Any:
    total = torch.zeros(4)
    for part in x.split(lengths.tolist()):
        found = [{"row": row * 2} for row in part]
        for each in found:
            each["row"] = each["row"].exp()
        total = total + torch.stack([each["row"] for each in found]).sum(0)
    return total


def nested(x: Tensor, lengths: Tensor) -> Any:
    parts = x.split(lengths.tolist())
    found = [{"box": (part.amin(0), part.amax(0)), "of": {"n": len(part), "rows": part}} for part in parts]
    return torch.stack([each["box"][1] - each["box"][0] for each in found]), torch.cat(
        [each["of"]["rows"] * each["of"]["n"] for each in found]
    )


def in_tuples(x: Tensor, lengths: Tensor) -> Any:
    found = [(part.amax(), {"mean": part.mean(0)}) for part in x.split(lengths.tolist())]
    for score, each in found:
        each["mean"] = each["mean"] * score
    return torch.stack([each["mean"] for _, each in found])


def of_lists(x: Tensor, lengths: Tensor) -> Any:
    found = [[part.mean(0), part.amax()] for part in x.split(lengths.tolist())]
    for each in found:
        each[0] = each[0] * each[1]
    return torch.stack([each[0] for each in found])


class Bag:
    def __init__(self) -> None:
        self.rows: list[Tensor] = []
        self.total: Tensor | None = None

    def add(self, row: Tensor) -> None:
        self.rows.append(row)


def list_in_an_object(x: Tensor, lengths: Tensor) -> Any:
    bag = Bag()
    for part in x.split(lengths.tolist()):
        bag.add(part.mean(0))
    bag.total = torch.stack(bag.rows).sum(0)
    return bag.total, torch.stack(bag.rows)


class Steps:
    def __init__(self) -> None:
        self.hidden, self.steps = torch.zeros(4), 0

    def update(self, x: Tensor) -> None:
        self.hidden = torch.tanh(self.hidden + x)
        self.steps += 1


class State(Steps):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0

    def update(self, x: Tensor) -> None:
        super().update(x * self.scale)
        self.scale = self.scale * 0.5


def numbers_in_an_object(x: Tensor, lengths: Tensor) -> Any:
    state = State()
    for part in x.split(lengths.tolist()):
        state.update(part.mean(0))
    return state.hidden, torch.tensor(state.steps), torch.tensor(state.scale)


def numbers_in_a_dict(x: Tensor, lengths: Tensor) -> Any:
    state: dict[str, Any] = {"rows": 0, "sum": torch.zeros(4)}
    for part in x.split(lengths.tolist()):
        if part.amax() > 0:
            state["sum"] = state["sum"] * 0.5 + part.mean(0) * state["rows"]
        state["rows"] += len(part)
    return state["sum"], torch.tensor(state["rows"])


def numbers_in_objects_of_a_list(x: Tensor, lengths: Tensor) -> Any:
    outer, found = Steps(), []
    for part in x.split(lengths.tolist()):
        state = Steps()
        for row in part:
            state.update(row)
            outer.steps += 1
        found.append(state)
    return torch.stack([each.hidden * each.steps for each in found]) + outer.steps


def one_object_by_two_names(x: Tensor, lengths: Tensor) -> Any:
    one = other = State()
    for part in x.split(lengths.tolist()):
        one.steps += 1
        other.steps += 2
        one.hidden = one.hidden + part.mean(0) * other.steps
    return one.hidden, torch.tensor(one.steps)


MODELS = [
    numbers_in_a_dict,
    numbers_in_an_object,
    numbers_in_objects_of_a_list,
    one_object_by_two_names,
    list_in_an_object,
    changed_sometimes,
    objects,
    instances,
    changed_objects,
    changed_by_index,
    by_index,
    new_dicts,
    with_other_keys,
    changed_in_a_loop,
    nested,
    of_lists,
    in_tuples,
]


@pytest.mark.slow
@pytest.mark.parametrize("model", one_in(2, MODELS), ids=lambda model: model.__name__)
def test_other_numbers_of_elements(model: Any) -> None:
    others = [
        (torch.randn(sum(lengths), 4), torch.tensor(lengths))
        for lengths in ([3, 1, 1, 3], [5], [1, 5, 2], [2, 2, 2, 2, 1, 1])
    ]
    assert_matches(model, *GIVEN, others=others, dynamic_shapes=SHAPES)


def changed_by_another_name(x: Tensor, lengths: Tensor) -> Any:
    found = []
    for part in x.split(lengths.tolist()):
        row = {"mean": part.mean(0)}
        found.append(row)
    row["mean"] = row["mean"] * 2
    return torch.stack([each["mean"] for each in found])


def one_row_again(x: Tensor, lengths: Tensor) -> Any:
    found, row = [], {"sum": torch.zeros(4)}
    for part in x.split(lengths.tolist()):
        row["sum"] = row["sum"] + part.mean(0)
        found.append(row)
    return torch.stack([each["sum"] for each in found])


def changed_in_iterations_before_a_break(x: Tensor, lengths: Tensor) -> Any:
    found = _dicts(x, lengths)
    for each in found:
        each["mean"] = each["mean"] * 2
        if each["score"] > 1:
            break
    return torch.stack([each["mean"] for each in found])


@pytest.mark.parametrize(
    "model", one_in(3, [changed_by_another_name, one_row_again, changed_in_iterations_before_a_break])
)
def test_a_change_that_is_not_followed_is_refused(model: Any) -> None:
    with pytest.raises(CaptureError, match="An element of a list that a loop has filled is changed after that"):
        opbridge.export(model, GIVEN, dynamic_shapes=SHAPES, verify=False)


def with_a_key_sometimes(x: Tensor, lengths: Tensor) -> Any:
    found = _dicts(x, lengths)
    for each in found:
        if each["score"] > 1:
            each["new"] = each["mean"] * 2
    return torch.stack([each.get("new", each["mean"]) for each in found])


def of_labels(x: Tensor, lengths: Tensor) -> Any:
    parts = x.split(lengths.tolist())
    found = [Track(part.mean(0), part.amax(), "big" if part.amax() > 1 else "small") for part in parts]
    return torch.stack([each.mean * (2 if each.label == "big" else 3) for each in found])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (with_a_key_sometimes, "and leave them with different keys or attributes"),
        (of_labels, "The model cannot be captured: its computation depends on the number of iterations"),
    ],
)
def test_elements_of_several_kinds_are_refused(model: Any, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        opbridge.export(model, GIVEN, dynamic_shapes=SHAPES, verify=False)
