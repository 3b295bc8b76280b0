"""Lists of dicts and objects, of which inputs decide the number, as detectors, trackers and data loaders have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from reported_models.lists import of_parts
from reported_models.report import Case, form, module


@dataclass
class Box:
    corners: Tensor
    score: Tensor

    @property
    def area(self) -> Tensor:
        return (self.corners[2:] - self.corners[:2]).clamp(min=0).prod()

    def scaled(self, factor: Tensor | float) -> Box:
        return replace(self, corners=self.corners * factor)


class Prediction(NamedTuple):
    mean: Tensor
    top: Tensor
    length: int


class State:
    def __init__(self, hidden: Tensor) -> None:
        self.hidden = hidden
        self.steps = 0

    def update(self, x: Tensor) -> None:
        self.hidden = torch.tanh(self.hidden + x)
        self.steps += 1


@dataclass
class Bag:
    rows: list[Tensor] = field(default_factory=list)
    total: Tensor | None = None


def _boxes(parts: Sequence[Tensor]) -> list[Box]:
    return [Box(part.amax(0), part.sum()) for part in parts]


def _dicts(parts: Sequence[Tensor]) -> list[dict[str, Any]]:
    return [{"rows": part, "mean": part.mean(0), "score": part.amax(), "n": len(part)} for part in parts]


@form("containers", "objects with methods and properties")
def methods() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        boxes = [box.scaled(2.0) for box in _boxes(parts)]
        return torch.stack([box.area for box in boxes]), torch.stack([box.corners for box in boxes])

    return of_parts(forward)


@form("containers", "dicts, collated key by key")
def collated() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = [{"mean": part.mean(0), "score": part.amax()} for part in parts]
        return {key: torch.stack([each[key] for each in found]) for key in found[0]}

    return of_parts(forward)


@form("containers", "the rows of dicts, padded, with their lengths")
def padded() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = _dicts(parts)
        lengths = torch.tensor([each["n"] for each in found])
        return pad_sequence([each["rows"] for each in found], batch_first=True), lengths

    return of_parts(forward)


@form("containers", "dicts, sorted by a length")
def sorted_dicts() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = sorted(_dicts(parts), key=lambda each: each["n"], reverse=True)
        return torch.stack([each["mean"] for each in found])

    return of_parts(forward)


@form("containers", "the longest of the dicts, by max with a key")
def longest() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        best = max(_dicts(parts), key=lambda each: each["n"])
        return best["mean"] * best["score"]

    return of_parts(forward)


@form("containers", "the dicts above a score, which may be none")
def above_a_score() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        kept = [each for each in _dicts(parts) if each["score"] > 1.0]
        if not kept:
            return torch.zeros(4)
        return sum(each["mean"] * each["score"] for each in kept)

    return of_parts(forward)


@form("containers", "a dict of two lists, appended to in a loop")
def dict_of_two_lists() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        out: dict[str, list[Tensor]] = {"means": [], "tops": []}
        for part in parts:
            out["means"].append(part.mean(0))
            out["tops"].append(part.amax(0))
        return {key: torch.stack(values) for key, values in out.items()}

    return of_parts(forward)


@form("containers", "scores of dicts, divided by their sum")
def normalised() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = _dicts(parts)
        total = sum(each["score"].exp() for each in found)
        for each in found:
            each["weight"] = each["score"].exp() / total
        return torch.stack([each["mean"] * each["weight"] for each in found])

    return of_parts(forward)


@form("containers", "the same, by an index")
def normalised_by_index() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = _dicts(parts)
        total = torch.stack([each["score"] for each in found]).exp().sum()
        for i in range(len(found)):
            found[i]["score"] = found[i]["score"].exp() / total
        return torch.stack([each["mean"] * each["score"] for each in found])

    return of_parts(forward)


@form("containers", "the dict with the best score, changed")
def best_changed() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = _dicts(parts)
        best = int(torch.stack([each["score"] for each in found]).argmax())
        found[best]["mean"] = found[best]["mean"] * 2
        return torch.stack([each["mean"] for each in found])

    return of_parts(forward)


@form("containers", "the dict with the best score, popped")
def best_popped() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = _dicts(parts)
        best = found.pop(int(torch.stack([each["score"] for each in found]).argmax()))
        rest = sum((each["mean"] for each in found), torch.zeros(4))
        return best["mean"], rest

    return of_parts(forward)


@form("containers", "the last track goes on, or a new one begins")
def tracks() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found: list[dict[str, Tensor]] = []
        for part in parts:
            if found and part.amax() < 1.0:
                found[-1]["sum"] = found[-1]["sum"] + part.sum(0)
            else:
                found.append({"sum": part.sum(0)})
        return torch.stack([each["sum"] for each in found])

    return of_parts(forward)


@form("containers", "detections of each image after non-maximum suppression, returned")
def suppressed() -> Case:
    from torchvision.ops import nms

    def forward(boxes: Tensor, scores: Tensor) -> Any:
        results = []
        for corners, score in zip(boxes, scores, strict=True):
            kept = nms(corners, score, 0.5)
            results.append({"boxes": corners[kept], "scores": score[kept]})
        return torch.cat([each["boxes"] for each in results]), torch.cat([each["scores"] for each in results])

    def inputs(batch: int, count: int) -> tuple[Tensor, Tensor]:
        begin = torch.rand(batch, count, 2)
        return torch.cat([begin, begin + torch.rand(batch, count, 2)], 2), torch.rand(batch, count)

    dynamic = {0: "batch", 1: "count"}
    return Case(module(forward), inputs, (2, 6), [(1, 9), (4, 3)], (dynamic, dynamic))


@form("containers", "named tuples with a length, of which some are replaced")
def named_tuples() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = [Prediction(part.mean(0), part.amax(), len(part)) for part in parts]
        found = [each._replace(mean=each.mean / each.length) for each in found]
        return torch.stack([each.mean for each in found]), torch.tensor([each.length for each in found])

    return of_parts(forward)


@form("containers", "a state for each part, updated by its rows")
def states() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = []
        for part in parts:
            state = State(torch.zeros(4))
            for row in part:
                state.update(row)
            found.append(state)
        return torch.stack([each.hidden for each in found])

    return of_parts(forward)


@form("containers", "one state, updated by a loop")
def one_state() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        state = State(torch.zeros(4))
        for part in parts:
            state.update(part.mean(0))
        return state.hidden, torch.tensor(state.steps)

    return of_parts(forward)


@form("containers", "a bag with a list in it, filled by a loop")
def bag() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = Bag()
        for part in parts:
            found.rows.append(part.mean(0))
        found.total = torch.stack(found.rows).sum(0)
        return found.total, torch.stack(found.rows)

    return of_parts(forward)


@form("containers", "two lists of dicts, joined pair by pair")
def joined() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        one = [{"mean": part.mean(0)} for part in parts]
        other = [{"score": part.amax()} for part in parts]
        both = [{**a, **b} for a, b in zip(one, other, strict=True)]
        return torch.stack([each["mean"] * each["score"] for each in both])

    return of_parts(forward)


@form("containers", "dicts from which a key is deleted, then all values are summed")
def deleted() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = [{"mean": part.mean(0), "top": part.amax(0), "rows": part} for part in parts]
        for each in found:
            del each["rows"]
        return torch.stack([sum(each.values()) for each in found])

    return of_parts(forward)


@form("containers", "an encoder's outputs as dicts, pooled by another layer")
def pooled() -> Case:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.pool = nn.Linear(4, 8), nn.Linear(8, 2)

        def outputs(self, parts: Sequence[Tensor]) -> list[dict[str, Tensor]]:
            return [{"hidden": self.encode(part), "mask": part[:, 0] > 0} for part in parts]

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            outputs = self.outputs(x.split(lengths.tolist()))
            for each in outputs:
                weights = each["hidden"].mean(1).masked_fill(~each["mask"], -1e4).softmax(0)
                each["pooled"] = self.pool((each["hidden"] * weights[:, None]).sum(0))
            return torch.stack([each["pooled"] for each in outputs])

    case = of_parts(lambda parts: parts)
    return Case(Encoder(), case.inputs, case.example, case.others, case.dynamic_shapes)


@form("containers", "the first dict is the reference of all others")
def reference() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = _dicts(parts)
        first, rest = found[0], found[1:]
        total = first["mean"]
        for each in rest:
            total = total + (each["mean"] - first["mean"]).abs() * each["n"]
        return total

    return of_parts(forward)


@form("containers", "dicts, flattened by a nested comprehension")
def flattened() -> Case:
    def forward(parts: Sequence[Tensor]) -> Any:
        found = _dicts(parts)
        return torch.stack([row * each["score"] for each in found for row in each["rows"]])

    return of_parts(forward)
