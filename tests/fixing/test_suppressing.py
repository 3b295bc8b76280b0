"""NonMaxSuppression for a target that lacks it, beside ONNX Runtime's kernel."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from helpers.repairs import kept, model, operators, repaired

from opbridge.runtimes.onnxruntime import open_session


def _model(boxes: str, scores: str, attributes: str = "", **numbers: float) -> onnx.ModelProto:
    given = {"most": np.int64([numbers.pop("most", 1 << 62)])}
    given |= {name: np.float32([value]) for name, value in numbers.items()}
    names = ", ".join(each if each in given else "" for each in ("most", "iou", "least"))
    call = f"NonMaxSuppression {attributes} (b, s, {names.rstrip(', ')})"
    return model(f"(float[{boxes}] b, float[{scores}] s) => (int64[k, 3] y) {{ y = {call} }}", **given)


def _boxes(batch: int, count: int, seed: int = 0) -> np.ndarray:
    """Boxes that overlap in long chains, some of them without an area, or with their corners in another order."""
    random = np.random.default_rng(seed)
    first = random.integers(0, 5, (batch, count, 2))
    boxes = np.concatenate([first, first + random.integers(-1, 7, (batch, count, 2))], axis=2)
    return boxes.astype(np.float32)


def _scores(*shape: int, seed: int = 1) -> np.ndarray:
    """Scores of which many are equal."""
    return (np.random.default_rng(seed).integers(0, 6, shape) / 5).astype(np.float32)


def _same(made: onnx.ModelProto, content: bytes, *feeds: np.ndarray) -> np.ndarray:
    sessions = (open_session(each) for each in (made.SerializeToString(), content))
    one, other = (each.run(None, dict(zip("bs", feeds, strict=True)))[0] for each in sessions)
    assert one.shape == other.shape and one.tolist() == other.tolist()
    return one


@pytest.mark.parametrize("iou", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize(
    "more",
    [{}, {"least": 0.3}, {"most": 2}, {"most": 3, "attributes": "<center_point_box = 1>"}],
    ids=["all", "scored", "few", "centers"],
)
@pytest.mark.parametrize("sizes", [(1, 1, 40), (2, 3, 20)])
def test_boxes_are_compared_in_pairs(lacking, sizes, more, iou):
    batch, classes, count = sizes
    made = _model(f"{batch}, {count}, 4", f"{batch}, {classes}, {count}", iou=iou, **more)
    fixed = repaired(made, lacking("NonMaxSuppression"))
    assert "NonMaxSuppression" not in operators(fixed)
    for seed in range(4):
        found = _same(made, fixed.content, _boxes(batch, count, seed), _scores(*sizes, seed=seed + 9))
        assert len(found) and (len(found) < np.prod(sizes) or iou == 1)


def test_as_many_boxes_as_there_are(lacking):
    made = _model("b, n, 4", "b, c, n", iou=0.4)
    fixed = repaired(made, lacking("NonMaxSuppression"))
    for sizes in ((1, 1, 0), (1, 1, 1), (1, 1, 50), (3, 2, 7), (2, 1, 0)):
        _same(made, fixed.content, _boxes(sizes[0], sizes[2]), _scores(*sizes))


def test_one_box_after_the_other_is_suppressed(lacking):
    made = _model("1, n, 4", "1, 1, n", iou=0.5)
    fixed = repaired(made, lacking("NonMaxSuppression"))
    start = np.arange(60, dtype=np.float32)
    boxes = np.stack([start * 0, start, start * 0 + 1, start + 3.5], axis=1)[None]
    found = _same(made, fixed.content, boxes, -start[None, None])
    assert found[:, 2].tolist() == list(range(0, 60, 2))


def test_without_a_number_of_boxes_none_is_kept(lacking):
    made = model("(float[1, 4, 4] b, float[1, 1, 4] s) => (int64[0, 3] y) { y = NonMaxSuppression (b, s) }")
    kept(made, lacking("NonMaxSuppression"), said="that keeps no box")


def test_boxes_that_the_cpu_suppresses_stay(lacking):
    fact = (
        '[[fact]]\nkind = "missing"\noperators = ["NonMaxSuppression"]\nseverity = "warning"\nsource = "published: x"\n'
    )
    kept(_model("1, 4, 4", "1, 1, 4"), lacking(facts=fact), said="that the CPU computes")
