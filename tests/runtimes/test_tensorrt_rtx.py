"""TensorRT-RTX, which parses and builds without a GPU: its wheel is an extra."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import opbridge
from opbridge.errors import UsageError
from opbridge.runtimes import known, tensorrt_rtx
from opbridge.runtimes.arguments import NodeArgument
from opbridge.runtimes.tensorrt_rtx.profile import DEFAULT, Range, parsed, sizes_of
from opbridge.runtimes.tensorrt_rtx.refusals import Complaint, explained, reason

INSTALLED = pytest.mark.skipif(
    not tensorrt_rtx.version(), reason=f"tensorrt-rtx is not installed: {tensorrt_rtx.INSTALL}"
)

ADD = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 3] x, float[3] b) => (float[n, 3] y) { y = Add (x, b) }"""

NON_ZERO = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 3] x) => (int64[2, k] y) {
  z = Relu (x)
  [where] y = NonZero (z)
}"""


def content(text: str) -> bytes:
    return onnx.parser.parse_model(text).SerializeToString()


def with_line(text: str) -> bytes:
    """A model whose last node has the line that it comes from, as exported files have it."""
    model = onnx.parser.parse_model(text)
    for key, value in (("opbridge.source", "net.py:12"), ("opbridge.operator", "aten::nonzero")):
        model.graph.node[-1].metadata_props.add(key=key, value=value)
    return model.SerializeToString()


def test_a_profile_is_given_as_ranges_or_sizes():
    assert parsed(["n=1:8:32, k=4"]) == {"n": Range(1, 8, 32), "k": Range(4, 4, 4)}
    assert parsed({"n": (1, 2, 3), "k": 5}) == {"n": Range(1, 2, 3), "k": Range(5, 5, 5)}


@pytest.mark.parametrize("given", [["n"], ["n=1:8"], ["n=8:1:2"], {"n": "1:8:32"}, {"n": (1, 2)}])
def test_what_is_no_range_is_refused(given):
    with pytest.raises(UsageError, match="expected|Expected"):
        parsed(given)


def test_dimensions_have_their_ranges_by_name_by_place_and_by_expression():
    inputs = [NodeArgument("x", "tensor(float)", ["n", 3, None]), NodeArgument("m", "tensor(float)", ["past + n"])]
    found = sizes_of(inputs, parsed("n=1:2:4,past=0:3:5,x:2=7"))
    assert found == {"x": ([1, 3, 7], [2, 3, 7], [4, 3, 7]), "m": ([1], [5], [9])}
    assert sizes_of(inputs[:1], {})["x"][2] == [DEFAULT.most, 3, DEFAULT.most]


def test_a_range_for_nothing_is_refused():
    with pytest.raises(UsageError, match="range for 'k'.*: n, x:0, x"):
        sizes_of([NodeArgument("x", "tensor(float)", ["n"])], parsed("k=1"))


@pytest.mark.parametrize(
    ("said", "operator", "expected"),
    [
        ("false", "Det", "the operator Det is not supported"),
        (
            "Assertion failed: creator && getPluginCreatorVersion(creator) == CreatorVersion::kV3ONE: NonZero plugin "
            "creator version 1 was not found in plugin registry.",
            "NonZero",
            "the operator NonZero is not supported",
        ),
        (
            '(antialias == 0) && "Antialiasing is not supported currently."',
            "Resize",
            "Antialiasing is not supported currently",
        ),
        (
            '(a == "x" || a == "y") && "TensorRT only supports x and " "y!"',
            "Resize",
            "TensorRT only supports x and y",
        ),
        (
            "Invalid Node - node_of_y\nITensor::getDimensions: Error Code 4: Shape Error (squeeze axis is not a "
            "constant In makeAxesMask at /_src/a.cpp:3553)\n[checkMacros.cpp::catchCudaError::250] Error Code 1: "
            "Cuda Runtime (cudaError 35: CUDA driver version is insufficient)",
            "Squeeze",
            "squeeze axis is not a constant",
        ),
        (
            "IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([myelin_graph.h:1295: attach] "
            "MyelinCheckException: a.cpp:59: CHECK(op->is_decomposable()) failed. Attention operation was not "
            "supported by a dedicated kernel. (See https://docs for shapes.) In addition)",
            "",
            "Attention operation was not supported by a dedicated kernel",
        ),
    ],
)
def test_a_refusal_is_said_without_places_in_its_code(said, operator, expected):
    assert reason(Complaint(said, 0, "", operator)) == expected


def test_a_refusal_names_the_node_and_the_line():
    told = explained([Complaint("false", 1, "where", "NonZero")], with_line(NON_ZERO))
    assert told == "aten::nonzero at net.py:12 (ONNX NonZero 'where'): the operator NonZero is not supported"
    # At build it is a layer's name that is said, with more behind the node's.
    built = [Complaint("Internal Error (where_2 has no runners that implement it In f at /a.cpp:48)")]
    assert explained(built, with_line(NON_ZERO)).startswith(
        "aten::nonzero at net.py:12 (ONNX NonZero 'where'): where_2"
    )
    assert explained([Complaint("Internal Error (z In f at /a.cpp:48)")], b"no model") == "z"


@INSTALLED
@pytest.mark.slow
def test_a_model_is_built_and_says_why_it_does_not_run(tmp_path):
    with opbridge.session(content(ADD), runtime="tensorrt-rtx", profile={"n": (1, 2, 4)}) as session:
        x, b = np.ones((2, 3), np.float32), np.ones(3, np.float32)
        if known.obstacle("tensorrt-rtx"):
            with pytest.raises(opbridge.RunError, match="was built and cannot run"):
                session.run(None, {"x": x, "b": b})
        else:
            np.testing.assert_allclose(session.run(None, {"x": x, "b": b})[0], x + b)


@INSTALLED
@pytest.mark.slow
def test_what_it_refuses_names_the_line():
    with pytest.raises(opbridge.ModelFileError, match=r"cannot parse the model: aten::nonzero at net.py:12"):
        opbridge.session(with_line(NON_ZERO), runtime="tensorrt-rtx")
