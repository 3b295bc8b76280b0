"""Operators that a target lacks, written with others: beside the original in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
import torchvision
from helpers.repairs import kept, model, operators, repaired

import opbridge
from opbridge import fixing
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import open_session
from opbridge.targets import find_target


@pytest.mark.parametrize(
    ("settings", "groups", "offset_groups", "masked", "biased"),
    [
        ("pads = [1, 1, 1, 1]", 1, 1, True, True),
        ("strides = [2, 1], pads = [0, 2, 0, 2]", 2, 2, False, True),
        ("dilations = [2, 1], pads = [2, 0, 2, 0]", 1, 2, True, False),
    ],
)
@pytest.mark.parametrize("sizes", ["2, 4, 7, 6", "n, 4, h, w"])
def test_deformable_convolution(lacking, settings, groups, offset_groups, masked, biased, sizes):
    rng = np.random.default_rng(0)
    stride, dilation = ([2, 1], [1, 1]) if "strides" in settings else ([1, 1], [2, 1] if "dil" in settings else [1, 1])
    pads = [2, 0] if "dil" in settings else [0, 2] if "strides" in settings else [1, 1]
    weight = rng.standard_normal((6, 4 // groups, 3, 2)).astype("f")
    rest = ("b" if biased else "") + (", m" if masked else "")
    places = "2, {0}, p, q" if sizes[0] == "2" else "n, {0}, p, q"
    made = model(
        f"(float[{sizes}] x, float[{places.format(12 * offset_groups)}] o"
        + (f", float[{places.format(6 * offset_groups)}] m" if masked else "")
        + f") => (float[] y) {{ y = DeformConv <{settings}, group = {groups}, offset_group = {offset_groups}>"
        f" (x, w, o, {rest}) }}",
        opset=19,
        ir_version=9,
        w=weight,
        b=rng.standard_normal(6).astype("f"),
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    changed = ir.from_proto(made)
    changes, _ = fixing.repaired(changed, [find_target(lacking("DeformConv"))])
    assert "missing-operator" in {each.finding.rule for each in changes}
    assert "DeformConv" not in {each.op_type for each in changed.graph}
    session = open_session(serialize.to_bytes(changed), False)
    for height, width in ((7, 6), (5, 9)) if sizes[0] == "n" else ((7, 6),):
        x = rng.standard_normal((2, 4, height, width)).astype("f")
        x[0, 0, 0, 0] = np.nan
        rows = (height + 2 * pads[0] - dilation[0] * 2 - 1) // stride[0] + 1
        columns = (width + 2 * pads[1] - dilation[1] - 1) // stride[1] + 1
        offset = 3 * rng.standard_normal((2, 12 * offset_groups, rows, columns)).astype("f")
        mask = rng.random((2, 6 * offset_groups, rows, columns)).astype("f")
        want = torchvision.ops.deform_conv2d(
            *map(torch.from_numpy, (x, offset, weight)),
            bias=torch.from_numpy(np.array(onnx.numpy_helper.to_array(made.graph.initializer[1]))) if biased else None,
            stride=stride,
            padding=pads,
            dilation=dilation,
            mask=torch.from_numpy(mask) if masked else None,
        )
        feeds = {"x": x, "o": offset, **({"m": mask} if masked else {})}
        np.testing.assert_allclose(session.run(None, feeds)[0], want.numpy(), rtol=1e-4, atol=1e-4)


def test_deformable_convolution_below_opset_11_is_kept(lacking):
    made = model(
        "(float[1, 2, 4, 4] x, float[1, 18, 4, 4] o) => (float[1, 3, 4, 4] y) { y = opbridge_ops.deform_conv2d <stride"
        " = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1, offset_groups = 1> (x, w, o) }",
        opset=10,
        w=np.zeros((3, 2, 3, 3), "f"),
    )
    made.opset_import.append(onnx.helper.make_opsetid("opbridge_ops", 1))
    changed = ir.from_proto(made)
    changes, left = fixing.repaired(changed, [find_target(lacking("opbridge_ops::deform_conv2d"))])
    assert not changes and "below opset 11" in left[0].remedy


@pytest.mark.slow
@pytest.mark.torchvision
def test_a_kernel_of_opbridge_is_written_with_operators_for_a_target_that_loads_none(tmp_path):
    class Deforming(torchvision.ops.DeformConv2d):
        def forward(self, x, offset):
            return super().forward(x, offset)

    args = (torch.randn(2, 3, 5, 6), torch.randn(2, 18, 5, 6))
    module = Deforming(3, 4, 3, padding=1).eval()
    program = opbridge.export(module, args, tmp_path / "m.onnx", opset_version=15, target="web", dynamic_shapes="batch")
    assert program.verification.ok and not {each.domain for each in program.model.graph} - {""}


def test_functions_are_inlined_where_the_target_takes_none(lacking):
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "mine": 1]> g (float[n, 4] x) => (float[n, 4] y) '
        "{ a = mine.Outer <alpha = 0.5> (x) y = mine.Outer <alpha = 2.0> (a) }"
        '<domain: "mine", opset_import: ["" : 18, "mine": 1]> Outer <alpha> (x) => (y) '
        "{ a = LeakyRelu <alpha : float = @alpha> (x) y = mine.Inner (a) }"
        '<domain: "mine", opset_import: ["" : 18]> Inner (x) => (y) { y = Neg (x) }'
    )
    for node in made.graph.node:
        node.metadata_props.add(key="opbridge.source", value="net.py:7")
    fixed = repaired(made, lacking(facts='[[fact]]\nkind = "functions"\nsource = "published: x"\n'), "local-function")
    assert operators(fixed) == {"LeakyRelu", "Neg"} and not fixed.model.functions


def test_functions_that_call_themselves_are_kept(lacking):
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "mine": 1]> g (float[4] x) => (float[4] y) { y = mine.F (x) }'
        '<domain: "mine", opset_import: ["" : 18, "mine": 1]> F (x) => (y) { y = mine.F (x) }'
    )
    target = lacking(facts='[[fact]]\nkind = "functions"\nsource = "published: x"\n')
    kept(made, target, "local-function", "that calls itself")
