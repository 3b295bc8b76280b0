from __future__ import annotations

import onnx_ir as ir
import pytest
import torch
from helpers.handmade import onnx_model

from opbridge.capture import capture
from opbridge.errors import ModelFileError
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import session
from opbridge.verification.exchange import run
from opbridge.verification.runtime_failure import locate_failure


def model(text: str) -> ir.Model:
    taken = capture(lambda x: x.abs(), (torch.ones(3),))
    return onnx_model(text, taken, {"y": "abs_1"})


def test_a_node_that_raises_is_found_with_its_operator() -> None:
    failing = model("(float[n] x) => (float[m] y) <int64[1] i = {7}> { y = Gather(x, i) }")
    with pytest.raises(Exception, match="Gather") as error:
        run(session(serialize.to_bytes(failing)), {"x": torch.ones(3)})
    failure = locate_failure(str(error.value), failing)
    assert (failure.operator, failure.source, failure.onnx_node) == ("aten::abs", "net.py:7", "ONNX Gather 'node_y'")
    assert str(failure).startswith("aten::abs at net.py:7 (ONNX Gather 'node_y'): ")
    assert "\n" not in failure.message and "ONNXRuntimeError" not in failure.message


def test_a_node_that_does_not_load_is_found_too() -> None:
    failing = model("(float[n] x) => (float[m] y) { y = Reshape(x, x) }")
    with pytest.raises(ModelFileError) as error:
        session(serialize.to_bytes(failing))
    assert locate_failure(str(error.value), failing).operator == "aten::abs"


def test_without_the_model_the_message_still_names_the_node() -> None:
    text = "Non-zero status code returned while running Gather node. Name:'g' Status Message: out of bounds"
    assert locate_failure(text, None).onnx_node == "ONNX Gather 'g'"
    assert locate_failure(text.replace("'g'", "''"), None).onnx_node == "ONNX Gather"
    plain = locate_failure("something else", None)
    assert plain.onnx_node is None and str(plain) == "something else"
