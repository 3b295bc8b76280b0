"""RoiAlign and NonZero for a target that lacks them, beside ONNX Runtime's kernels."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from helpers.repairs import kept, model, operators, repaired

from opbridge.runtimes.onnxruntime import open_session

_EDGES = np.float32(
    [[0, 0, 4, 5], [2, 1, 7.5, 6], [-1, -1, 20, 20], [3, 3, 3, 3], [-2, -3, -1, -1], [8, 7, 8.5, 7.5], [9, 8, 12, 12],
     [0, 0, 9, 8], [5, 5, 1, 1]]
)  # fmt: skip
"""Regions of an image of 8 rows and 9 columns: inside, across its border, without an extent, beyond it, reversed."""


def _same(made: onnx.ModelProto, content: bytes, feeds: dict[str, np.ndarray], tolerance: float = 0.0) -> None:
    one, other = (open_session(each).run(None, feeds)[0] for each in (made.SerializeToString(), content))
    assert one.shape == other.shape and one.dtype == other.dtype
    np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("sizes", ["2, 3, 8, 9", "b, c, h, w"])
def test_regions_at_the_borders(lacking, sizes, ratio, mode):
    call = (
        f"RoiAlign <output_height = 2, output_width = 3, sampling_ratio = {ratio}, spatial_scale = 0.5,"
        f' coordinate_transformation_mode = "{mode}"> (x, r, i)'
    )
    made = model(f"(float[{sizes}] x, float[n, 4] r, int64[n] i) => (float[n, k, 2, 3] y) {{ y = {call} }}")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    fixed = repaired(made, lacking("RoiAlign"))
    assert "RoiAlign" not in operators(fixed)
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype(np.float32)
    for regions in (_EDGES, _EDGES * 2, _EDGES[:1], _EDGES[:0]):
        feeds = {"x": x, "r": regions, "i": np.arange(len(regions)) % 2}
        _same(made, fixed.content, feeds, 1e-5)
    if sizes[0] == "b":
        _same(made, fixed.content, {"x": x[:1, :1, :1, :1], "r": _EDGES, "i": np.zeros(9, np.int64)}, 1e-5)


def test_the_largest_sample_is_kept(lacking):
    call = 'y = RoiAlign <mode = "max"> (x, r, i)'
    text = f"(float[1, 2, 4, 4] x, float[3, 4] r, int64[3] i) => (float[3, 2, 1, 1] y) {{ {call} }}"
    kept(model(text), lacking("RoiAlign"), said="with mode=max")


@pytest.mark.parametrize("dtype", ["bool", "float", "int32"])
@pytest.mark.parametrize("sizes", ["7", "3, 4", "2, 3, 4", "n", "b, 0, 2", "b, 3, n"])
def test_places_are_counted(lacking, sizes, dtype):
    made = model(f"({dtype}[{sizes}] x) => (int64[r, n] y) {{ y = NonZero (x) }}")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    fixed = repaired(made, lacking("NonZero"))
    random = np.random.default_rng(0)
    shape = [int(each) if each.isdigit() else 5 for each in sizes.split(", ")]
    kind = onnx.helper.tensor_dtype_to_np_dtype(made.graph.input[0].type.tensor_type.elem_type)
    for x in (random.integers(0, 2, shape), np.zeros(shape), np.ones(shape), np.full(shape, -1)):
        _same(made, fixed.content, {"x": x.astype(kind)})
    if sizes == "n":
        _same(made, fixed.content, {"x": np.zeros(0, kind)})


@pytest.mark.parametrize("sizes", ["7", "n", "b, n"])
def test_the_count_is_one_number_whatever_the_sizes_are(lacking, sizes):
    """TensorRT-RTX parses a Slice only if the inferred shape of its ends is that of its axes."""
    made = model(f"(bool[{sizes}] x) => (int64[r, n] y) {{ y = NonZero (x) }}")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(repaired(made, lacking("NonZero")).content)).graph
    shapes = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in graph.value_info}
    constants = {each.name for each in graph.initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    ends = [node.input[2] for node in graph.node if node.op_type == "Slice" and node.input[2] not in constants]
    assert ends and all(shapes[each] == [1] for each in ends)


def test_nan_is_a_place_and_minus_zero_is_none(lacking):
    made = model("(float[4] x) => (int64[1, n] y) { y = NonZero (x) }")
    fixed = repaired(made, lacking("NonZero"))
    found = open_session(fixed.content).run(None, {"x": np.float32([np.nan, -0.0, np.inf, 0])})
    assert found[0].tolist() == [[0, 2]]
