"""Lists of as many tensors as inputs decide, which a model returns."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from helpers.rows import one_in
from torch.utils import _pytree as pytree

import opbridge
from opbridge.graph.open_lists import METADATA, OpenList, OpenRows, as_lists, open_lists, with_open_lists
from opbridge.graph.open_lists import ROWS as ROWS_FORM


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return self.function(x, lengths)


@pytest.mark.slow
def test_parts_of_lengths_that_data_decide(tmp_path: Path) -> None:
    def split(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return {"sum": x.sum(), "parts": list(x.split(lengths.tolist())), "twice": x * 2}

    program = exported(split, tmp_path, verify=True)
    assert [each.name for each in program.session().get_outputs()] == ["sum", "parts", "parts.sizes", "twice"]
    assert any("'parts'" in note and "'parts.sizes'" in note for note in program.plan.notes)
    for lengths in ([4, 0, 3, 2], [5]):
        x = torch.randn(sum(lengths), 4)
        total, parts, sizes, _ = run(program, x, lengths)
        assert_parts(split(x, torch.tensor(lengths))["parts"], parts, sizes, 0)
        torch.testing.assert_close(total, x.sum())


@pytest.mark.slow
def test_parts_along_another_dimension(tmp_path: Path) -> None:
    def split(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return [each.split(lengths.tolist(), 1) for each in (x.T, 2 * x.T)]

    program = exported(split, tmp_path)
    names = [each.name for each in program.session().get_outputs()]
    assert names == ["output_0", "output_0.sizes", "output_1", "output_1.sizes"]
    x, lengths = torch.randn(7, 4), [2, 5]
    first, sizes, second, _ = run(program, x, lengths)
    wanted = split(x, torch.tensor(lengths))
    assert_parts(wanted[0], first, sizes, 1)
    assert_parts(wanted[1], second, sizes, 1)


@pytest.mark.slow
def test_a_list_that_a_comprehension_makes(tmp_path: Path) -> None:
    def parts_of(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        parts = [part.reshape(-1, 2).tanh() for part in x.split(lengths.tolist())]
        return parts, torch.cat(parts).sum(0)

    program = exported(parts_of, tmp_path)
    for lengths in ([4, 1, 3, 2], [5]):
        x = torch.randn(sum(lengths), 4)
        parts, sizes, total = run(program, x, lengths)
        wanted, wanted_total = parts_of(x, torch.tensor(lengths))
        assert_parts(wanted, parts, sizes, 0)
        torch.testing.assert_close(total, wanted_total)


@pytest.mark.slow
def test_a_list_with_elements_before_and_after_a_loop(tmp_path: Path) -> None:
    def parts_of(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        parts = [x[:1]]
        for part in x.split(lengths.tolist()):
            parts.append(part.cumsum(0))
        parts.append(x[:2] * 3)
        return parts

    program = exported(parts_of, tmp_path)
    for lengths in ([4, 1, 3, 2], [5]):
        x = torch.randn(sum(lengths), 4)
        parts, sizes = run(program, x, lengths)
        assert_parts(parts_of(x, torch.tensor(lengths)), parts, sizes, 0)


@pytest.mark.slow
def test_a_list_of_rows_is_one_output(tmp_path: Path) -> None:
    def rows_of(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return [row.cumsum(0) for row in x], lengths + 1

    program = exported(rows_of, tmp_path)
    assert [each.name for each in program.session().get_outputs()] == ["output_0", "output_1"]
    for count in (1, 9):
        x = torch.randn(count, 4)
        rows, _ = run(program, x, [1])
        torch.testing.assert_close(rows, torch.stack(rows_of(x, torch.tensor([1]))[0]))


@pytest.mark.slow
def test_a_list_of_numbers_is_one_output(tmp_path: Path) -> None:
    program = exported(lambda x, lengths: (x * 2, lengths.tolist()), tmp_path)
    _, numbers = run(program, torch.randn(2, 4), [3, 1, 4, 1])
    assert numbers.dtype == torch.int64
    assert numbers.tolist() == [3, 1, 4, 1]


@pytest.mark.slow
def test_the_file_alone_is_verified_with_other_lists(tmp_path: Path) -> None:
    def parts_of(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return list((x * 2).split(lengths.tolist()))

    exported(parts_of, tmp_path)
    x = torch.randn(6, 4), torch.tensor([2, 4])
    assert opbridge.verify(tmp_path / "model.onnx", Module(parts_of), x).ok
    other = Module(lambda x, lengths: list((x * 2).split(lengths.flip(0).tolist())))
    assert not opbridge.verify(tmp_path / "model.onnx", other, x).ok
    assert not opbridge.verify(tmp_path / "model.onnx", Module(lambda x, lengths: list(x.split(2))), x).ok


@pytest.mark.slow
def test_tensors_that_differ_in_two_dimensions_are_refused(tmp_path: Path) -> None:
    def outer(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return [part @ part.T for part in x.split(lengths.tolist())]

    with pytest.raises(opbridge.CaptureError):
        exported(outer, tmp_path)


@dataclasses.dataclass
class Detection:
    boxes: torch.Tensor
    scores: torch.Tensor


def detections(x: torch.Tensor, lengths: torch.Tensor) -> Any:
    found = []
    for part in x.split(lengths.tolist()):
        kept = part[part[:, 0] > -1]
        found.append({"boxes": kept * 2, "score": part.amax(), "count": len(part), "ends": (part[0], part[-1])})
    return {"results": found, "sum": x.sum()}


ROWS = {
    "detections": detections,
    "tuples": lambda x, lengths: [(part.mean(0), part) for part in x.split(lengths.tolist())],
    "objects": lambda x, lengths: [Detection(part, part.sum(1)) for part in x.split(lengths.tolist())],
    "pairs": lambda x, lengths: list(zip(x.split(lengths.tolist()), lengths.tolist(), strict=True)),
    "numbered": lambda x, lengths: (list(enumerate([part.mean(0) for part in x.split(lengths.tolist())])), x * 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(2, ROWS))
def test_a_list_of_containers_is_an_output_for_each_key(name: str, tmp_path: Path) -> None:
    model = ROWS[name]
    program = exported(model, tmp_path, verify=True)
    lists = json.loads(program.session().get_modelmeta().custom_metadata_map[METADATA])
    for lengths in ([4, 1, 3, 2], [5], [1, 2]):
        x = torch.randn(sum(lengths), 4)
        wanted = pytree.tree_leaves(with_open_lists(model(x, torch.tensor(lengths)), lists))
        for one, other in zip(run(program, x, lengths), wanted, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.slow
def test_names_and_notes_of_a_list_of_containers(tmp_path: Path) -> None:
    program = exported(detections, tmp_path)
    places = ["boxes", "boxes.sizes", "score", "count", "ends.0", "ends.1"]
    names = [f"results.{each}" for each in places]
    assert [each.name for each in program.session().get_outputs()] == [*names, "sum"]
    assert any("the output 'results' is a list of containers" in note for note in program.plan.notes)


@pytest.mark.slow
def test_the_file_alone_is_verified_with_other_containers(tmp_path: Path) -> None:
    exported(detections, tmp_path)
    x = torch.randn(6, 4), torch.tensor([2, 4])
    assert opbridge.verify(tmp_path / "model.onnx", Module(detections), x).ok

    def reversed_results(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        found = detections(x, lengths)
        return {**found, "results": found["results"][::-1]}

    def other_keys(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        found = detections(x, lengths)
        return {**found, "results": [{**each, "new": each["score"]} for each in found["results"]]}

    assert not opbridge.verify(tmp_path / "model.onnx", Module(reversed_results), x).ok
    with pytest.raises(opbridge.UsageError, match="tensors for which no output is known: 'results.new'"):
        opbridge.verify(tmp_path / "model.onnx", Module(other_keys), x)


@pytest.mark.slow
def test_a_list_without_a_form_is_refused(tmp_path: Path) -> None:
    def of_other_lengths(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        means = [part.mean(0) for part in x.split(lengths.tolist())]
        return list(zip(means, [each for each in means if each.sum() > 0], strict=False))

    with pytest.raises(opbridge.CaptureError, match="The model returns a list whose length depends on the inputs"):
        exported(of_other_lengths, tmp_path)


def test_rows_again() -> None:
    rows = [{"x": torch.ones(2), "of": (torch.ones(at, 3), 4)} for at in range(1, 4)]
    lists: dict[str, Any] = {"output": ROWS_FORM, "x": None, "of.0": 0, "of.1": None}
    form = with_open_lists(rows, lists)
    assert isinstance(form, OpenRows)
    assert [each.shape for each in pytree.tree_leaves(form)] == [(3, 2), (6, 3), (3,), (3,)]
    assert open_lists(pytree.tree_structure(form)) == lists
    for one, other in zip(as_lists(form), rows, strict=True):
        torch.testing.assert_close(one["of"][0], other["of"][0])
        torch.testing.assert_close(one["x"], other["x"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "an empty list"),
        ([{"x": torch.ones(2)}, {"y": torch.ones(2)}], "differ in what they hold"),
        ([{"x": torch.ones(2), "y": torch.ones(2)}] * 2, "tensors for which no output is known: 'y'"),
        ([{"x": torch.ones(2), "y": "a"}, {"x": torch.ones(2), "y": "b"}], "values that differ: 'y'"),
    ],
)
def test_rows_without_this_form(rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_open_lists(rows, {"output": ROWS_FORM, "x": None})


class Named(NamedTuple):
    output: Any
    others: Any


def test_lists_are_found_by_the_names_of_outputs() -> None:
    parts = [torch.ones(1, 2), torch.ones(3, 2)]
    returned = with_open_lists(Named(parts, [parts, {"a": parts}]), {"output": 0, "others.1.a": 0})
    assert isinstance(returned.output, OpenList)
    assert returned.others[0] is parts
    assert open_lists(pytree.tree_structure(returned)) == {"output": 0, "others.1.a": 0}
    assert returned.output.sizes.tolist() == [1, 3]


@pytest.mark.parametrize("values", [[], [torch.ones(1, 2), torch.ones(1, 3)], [torch.ones(2), torch.ones(1, 2)]])
def test_a_list_without_such_a_form(values: list[torch.Tensor]) -> None:
    with pytest.raises(ValueError, match="the model returns"):
        with_open_lists([values], {"output_0": 0})


def exported(function: Callable[..., Any], folder: Path, *, verify: bool = False) -> opbridge.Program:
    x = torch.randn(6, 4), torch.tensor([1, 2, 3])
    shapes = {"x": {0: "rows"}, "lengths": {0: "count"}}
    return opbridge.export(Module(function), x, folder / "model.onnx", dynamic_shapes=shapes, verify=verify)


def run(program: opbridge.Program, x: torch.Tensor, lengths: Sequence[int]) -> list[torch.Tensor]:
    found = program.session().run(None, {"x": x.numpy(), "lengths": np.array(lengths, np.int64)})
    return [torch.from_numpy(np.asarray(each)) for each in found]


def assert_parts(wanted: Sequence[torch.Tensor], joined: torch.Tensor, sizes: torch.Tensor, dim: int) -> None:
    assert sizes.tolist() == [each.shape[dim] for each in wanted]
    for one, other in zip(joined.split(sizes.tolist(), dim), wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.slow
def test_an_output_of_transformers_keeps_the_order_in_which_it_was_filled(tmp_path: Path) -> None:
    from dataclasses import dataclass

    from transformers.utils import ModelOutput

    @dataclass
    class Features(ModelOutput):
        last: torch.Tensor | None = None
        parts: Any = None
        hidden: Any = None

    def features(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        found = Features(last=x.exp() if x.sum() > 0 else x.sin())
        found["hidden"] = (x * 3, None)
        found["parts"] = x.split(lengths.tolist())  # an attribute is no item in transformers before 5
        return found

    program = exported(features, tmp_path)
    assert [each.name for each in program.session().get_outputs()] == ["last", "hidden.0", "parts", "parts.sizes"]
    fixed = opbridge.export(Module(features), (torch.randn(6, 4), torch.tensor([2, 4])), tmp_path / "fixed.onnx")
    assert [each.name for each in fixed.session().get_outputs()] == ["last", "hidden.0", "parts.0", "parts.1"]
    assert opbridge.verify(tmp_path / "fixed.onnx", Module(features), (torch.randn(6, 4), torch.tensor([2, 4]))).ok


class Scores(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


@pytest.mark.slow
def test_a_part_gives_its_list_to_the_next_one(tmp_path: Path) -> None:
    def run(parts: Any, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return {"scores": [parts.scores(part) for part in parts.split(x, lengths)["parts"]]}

    def split(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return {"parts": list((x * 2).split(lengths.tolist()))}

    given = torch.randn(6, 4), torch.tensor([2, 4])
    parts = opbridge.Parts(
        {
            "split": (Module(split), given, {"dynamic_shapes": {"x": {0: "rows"}, "lengths": {0: "count"}}}),
            "scores": (Scores().eval(), given[:1], {"dynamic_shapes": {"x": {0: "rows"}}}),
        },
        run=run,
        args=given,
        inputs=[(torch.randn(7, 4), torch.tensor([1, 2, 4]))],
    )
    done = parts.export(tmp_path / "parts")
    assert done.verification is not None and done.verification.ok
    assert parts.verify(tmp_path / "parts").ok
