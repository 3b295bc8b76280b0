from __future__ import annotations

import pytest
import torch

import opbridge
from opbridge.base.size_expressions import evaluate
from opbridge.capture import capture
from opbridge.verification.dynamic_sizes import DynamicSizes, from_capture, from_shapes
from opbridge.verification.uncovered_sizes import is_small


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("n", 6),
        ("2*n + m", 15),
        ("(n//4)", 1),
        ("-m + 10", 7),
        ("Max(n, m, 4)", 6),
        ("Mod(n, 4)", 2),
        ("n**2", 36),
        ("n/2", 3),
        ("batch-size", 9),
        ("7", 7),
    ],
)
def test_expressions_of_sizes(expression: str, value: int) -> None:
    assert evaluate(expression, {"n": 6, "m": 3, "batch-size": 9}) == value


@pytest.mark.parametrize(
    "expression",
    [
        "k",
        "n +",
        "__import__('os')",
        "n.bit_length()",
        "[n]",
        "n//0",
        "n % 0",
        "m/2",
        "n**99",
        "'text'",
        "lambda: n",
        "",
    ],
)
def test_nothing_else_is_evaluated(expression: str) -> None:
    with pytest.raises(ValueError, match="."):
        evaluate(expression, {"n": 6, "m": 3})


def test_shapes_follow_their_symbols() -> None:
    sizes = from_shapes({0: ("n", 3), 2: ("2*n", "m", "n + m")}, [zeros(4, 3), "text", zeros(8, 5, 9)])
    assert sizes.example == {"n": 4, "m": 5}
    assert sizes.shapes({"n": 1, "m": 7}) == {0: (1, 3), 2: (2, 7, 8)}


def test_a_symbol_that_stands_in_an_expression_only_is_found() -> None:
    sizes = from_shapes({0: ("8*s",)}, [zeros(24)])
    assert sizes.example == {"s": 3} and sizes.shapes({"s": 5}) == {0: (40,)}


def test_what_cannot_be_told_stays() -> None:
    sizes = from_shapes({0: ("a*b", "n"), 1: ("n",)}, [zeros(6, 4), zeros(5)])
    # a*b is a name of its own, as neither is known; the two sizes called n contradict each other.
    assert sizes.example == {"n": 4, "a*b": 6}
    assert sizes.shapes({"n": 9, "a*b": 7}) == {0: (7, 9), 1: (5,)}


def test_numbers_that_are_inputs_vary_too() -> None:
    sizes = from_shapes({0: ("n",)}, [zeros(4), 9], numbers={1: "2*n + 1"})
    assert sizes.values({"n": 7}) == {1: 15}


def test_groups_begin_at_the_least_size_and_beside_the_example() -> None:
    sizes = DynamicSizes(example={"n": 4, "m": 6})
    least, larger = sizes.groups()
    assert least == [{"n": 1, "m": 1}, {"n": 2, "m": 2}, {"n": 1, "m": 6}, {"n": 4, "m": 1}]
    assert larger == [{"n": 5, "m": 8}, {"n": 8, "m": 12}, {"n": 5, "m": 6}, {"n": 4, "m": 8}]
    assert DynamicSizes().groups() == []


def test_ranges_and_conditions_are_kept() -> None:
    bounded = DynamicSizes(example={"n": 4}, ranges={"n": (3, 4)})
    assert bounded.groups() == [[{"n": 3}]]
    assert DynamicSizes(example={"n": 4}, ranges={"n": (4, 4)}).groups() == []
    even = DynamicSizes(example={"s1": 64}, conditions=("(s1 % 32) == 0", "s1 >= 32 and s1 != 96"), names={"s1": "h"})
    assert even.groups()[0][0] == {"s1": 32} and even.groups()[1][0] == {"s1": 128}
    assert even.broken_condition({"s1": 33}) == "(h % 32) == 0"
    assert even.broken_condition({"s1": 128}) is None
    assert even.label({"s1": 32}) == "h=32"
    assert DynamicSizes(conditions=("s1.is_integer", "not s2 > 1")).broken_condition({"s1": 1, "s2": 1}) is None


def test_a_capture_tells_dimensions_ranges_and_names() -> None:
    def model(x: torch.Tensor, y: torch.Tensor, k: int) -> torch.Tensor:
        return torch.cat([x, x]) * y * k

    batch = torch.export.Dim("batch", min=2, max=50)
    shapes = {"x": {0: batch}, "y": {0: 2 * batch}, "k": torch.export.Dim.DYNAMIC}
    taken = capture(model, (zeros(4, 3), zeros(8, 3), 5), dynamic_shapes=shapes)
    sizes = from_capture(taken, [*taken.args])
    assert sorted(sizes.example.values()) == [4, 5]
    symbol = next(symbol for symbol, size in sizes.example.items() if size == 4)
    assert sizes.ranges[symbol] == (2, 50) and sizes.names[symbol] == "batch"
    changed = {**sizes.example, symbol: 7}
    assert sizes.shapes(changed) == {0: (7, 3), 1: (14, 3)} and sizes.values(changed) == {2: 5}


def test_dimensions_of_one_name_change_together() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, y + 1

    taken = capture(model, (zeros(4, 3), zeros(4)), dynamic_shapes={"x": {0: "batch"}, "y": {0: "batch"}})
    sizes = from_capture(taken, [*taken.args])
    assert len(sizes.example) == 1 and sizes.label(sizes.example) == "batch=4"
    (symbol,) = sizes.example
    assert sizes.shapes({symbol: 6}) == {0: (6, 3), 1: (6,)}


@pytest.mark.usefixtures("one_branch")
def test_a_size_of_one_that_only_the_capture_excludes_is_tried() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 1 else x + x

    program = opbridge.export(model, (torch.randn(4, 3),), dynamic_shapes={"x": {0: "batch"}})
    found = program.verification
    assert found is not None and [run.label for run in found.runs][3:] == ["batch=1", "batch=5"]
    if "batch >= 2" in " ".join(program.plan.notes):
        assert "batch=1 was tried although the file is valid only for batch >= 2; the file agrees" in str(found)

    def other(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 1 else x + 1

    found = opbridge.export(other, (torch.randn(4, 3),), dynamic_shapes={"x": {0: "batch"}}).verification
    assert found is not None and found.ok and [run.label for run in found.runs][3:] == ["batch=1", "batch=2", "batch=5"]
    assert found.left_out[0].left_out == "the file is valid only for batch >= 2; here the two differ"

    # The user's own range is kept.
    shapes = {"x": {0: torch.export.Dim("batch", min=2)}}
    found = opbridge.export(model, (torch.randn(4, 3),), dynamic_shapes=shapes).verification
    assert found is not None and [run.label for run in found.runs][3:] == ["batch=2", "batch=5"]


def test_sizes_for_which_another_dimension_would_be_negative():
    derived = DynamicSizes({0: ("s1", "3*s1 - 12")}, example={"s1": 9}, names={"s1": "frames"})
    assert derived.exist({"s1": 4}) and not derived.exist({"s1": 3})
    assert derived.broken_condition({"s1": 3}) == "3*frames - 12 >= 0"
    assert derived.groups()[0][0] == {"s1": 4}
    assert is_small({"s1": 4}, derived) and not is_small({"s1": 1}, derived)
