"""Relations between dynamic dimensions that the model requires and the example fulfils."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import opbridge
from opbridge.capture import capture
from opbridge.capture.dynamic_shapes import Axis, Shapes, resolve
from opbridge.capture.related_sizes import relation_of, restated


def shapes_of(**sizes):
    """Dynamic shapes of one dimension for each name."""
    named = enumerate(sizes.items())
    return Shapes(axes={(at, 0): Axis(f"x{at}.shape[0]", name, size) for at, (name, size) in named})


def text_of(condition, of_operators=False, **sizes):
    shapes = shapes_of(**sizes)
    found = relation_of([(condition, None)], {condition} if of_operators else set(), shapes)
    return found and (found.name, found.text)


@pytest.mark.parametrize(
    ("condition", "sizes", "expected"),
    [
        ("past + seq == total", {"past": 5, "seq": 3, "total": 8}, ("total", "past + seq")),
        ("past + seq <= total", {"total": 8, "seq": 3, "past": 5}, ("total", "past + seq")),
        ("total >= past + seq + 2", {"past": 5, "seq": 3, "total": 10}, ("total", "past + seq + 2")),
        ("h * 2 == w + v", {"h": 4, "w": 5, "v": 3}, ("v", "2*h - w")),
        ("3*h == w + 2*v", {"h": 3, "w": 5, "v": 2}, ("w", "3*h - 2*v")),
        ("past + seq <= total", {"past": 5, "seq": 3, "total": 9}, None),
        ("past * seq == total", {"past": 5, "seq": 3, "total": 15}, None),
        ("max(past, seq) + 1 <= total", {"past": 5, "seq": 3, "total": 6}, None),
        ("past + other == total", {"past": 5, "total": 8}, None),
        ("past + seq != total", {"past": 5, "seq": 3, "total": 8}, None),
        ("n <= 8", {"n": 8}, None),
    ],
)
def test_sums(condition, sizes, expected):
    assert text_of(condition, **sizes) == expected


def test_two_equal_sizes_count_where_an_operator_requires_it():
    assert text_of("a == b", of_operators=True, a=3, b=3) == ("b", "a")
    assert text_of("a == b", a=3, b=3) is None
    assert text_of("a <= b", of_operators=True, a=3, b=3) is None


def test_a_dimension_with_a_range_is_kept():
    shapes = shapes_of(past=5, seq=3, total=8)
    shapes.axes[2, 0] = Axis("x2.shape[0]", "total", 8, low=4, checked=True)
    found = relation_of([("past + seq == total", None)], (), shapes)
    assert found is not None and (found.name, found.text) == ("seq", "total - past")


def test_shapes_with_a_relation():
    shapes = shapes_of(past=5, seq=3, total=8)
    relation = relation_of([("past + seq == total", None)], (), shapes)
    axis = restated(shapes, relation).axes[2, 0]
    assert (axis.name, axis.terms, axis.derived.compute({"past": 7, "seq": 2})) == ("past + seq", ("past", "seq"), 9)


class Cached(torch.nn.Module):
    def forward(self, x, past, mask):
        values = torch.cat([past, x], 1)
        return (values * mask[:, :, None]).cumsum(1)


INPUTS = (torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.ones(2, 8))


@pytest.mark.parametrize("kind", [str, Dim])
def test_the_length_of_a_mask_over_a_cache(kind):
    batch, seq, past, total = map(kind, ("batch", "seq", "past", "total"))
    shapes = ({0: batch, 1: seq}, {0: batch, 1: past}, {0: batch, 1: total})
    program = opbridge.export(Cached(), INPUTS, dynamic_shapes=shapes)
    assert str(program.model.graph.inputs[2].shape) == "[batch,past + seq]"
    note = next(each for each in program.plan.notes if "'total'" in each)
    assert "'total' is past + seq" in note and "test_related_sizes.py:" in note and "strict=True" in note
    assert any("past=" in run.label and run.left_out is None for run in program.verification.runs)


@pytest.mark.parametrize("kind", [str, Dim])
def test_strict(kind):
    shapes = tuple({1: kind(name)} for name in ("seq", "past", "total"))
    with pytest.raises(opbridge.CaptureError, match=r'^State "mask": \{1: "past \+ seq"\} in dynamic_shapes: '):
        opbridge.export(Cached(), INPUTS, dynamic_shapes=shapes, strict=True)


@pytest.mark.slow
def test_a_square_image_is_no_relation():
    def model(x):
        return x.reshape(-1, 1) if x.shape[0] == x.shape[1] else x.sum(0, keepdim=True)

    program = opbridge.export(model, (torch.randn(4, 4),), dynamic_shapes={"x": {0: "h", 1: "w"}})
    assert str(program.model.graph.inputs[0].shape) == "[h,w]"


def test_a_multiple_of_a_size_that_no_input_has():
    shapes = resolve(torch.nn.Identity(), (torch.ones(16, 24),), {}, ({0: "8*h", 1: "8*w"},))
    assert [(axis.root, axis.derived.compute(3)) for axis in shapes.axes.values()] == [("h", 24), ("w", 24)]
    taken = capture(lambda x: x.reshape(x.shape[0] // 8, 8, -1), (torch.ones(16, 3),), dynamic_shapes=({0: "8*h"},))
    assert not taken.notes


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (
            ({0: "8*h"},),
            r"x\.shape\[0\] is 8\*h, but its size in the example inputs is 12, for which there is no integer h",
        ),
        (({0: "4*h", 1: "2*h"},), r"in the example inputs h is 3 for the first and 4 for the second"),
    ],
)
def test_multiples_that_the_example_does_not_fulfil(shapes, said):
    def model(x):
        return x

    with pytest.raises(opbridge.UsageError, match=said):
        capture(model, (torch.ones(12, 8),), dynamic_shapes=shapes)
