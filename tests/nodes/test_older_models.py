"""Files with aten nodes of older exporters run too."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch

import opbridge
from opbridge.nodes.aten_node.older_models import to_current_form

X = torch.randn(3, 3)

NODES = {
    "triu": ('y = org.pytorch.aten.ATen <operator="triu", overload_name=""> (x, one)', lambda x: x.triu(1)),
    "mul": ('y = org.pytorch.aten.ATen <operator="mul", overload_name="Tensor"> (x, one)', lambda x: x * 1),
    "add": ('y = org.pytorch.aten.ATen <operator="add", overload_name=""> (x, x, two)', lambda x: x + 2 * x),
    "attribute": ('y = org.pytorch.aten.ATen <operator="tril", diagonal=-1> (x)', lambda x: x.tril(-1)),
    "list": ('y = org.pytorch.aten.ATen <operator="permute"> (x, dims)', lambda x: x.permute(1, 0)),
    "several": (
        'y, i = org.pytorch.aten.ATen <operator="sort", overload_name=""> (x, one, one)',
        lambda x: x.sort(1, True)[0],
    ),
    "cannot be combined in one run": (
        'a = org.pytorch.aten.ATen <operator="cumsum"> (x, one, double)'
        "  b = Cast <to = 1> (a)"
        '  y = org.pytorch.aten.ATen <operator="triu"> (b, one)',
        lambda x: x.double().cumsum(1).float().triu(1),
    ),
    "a number of the model's": (
        's = Shape (x)  z = Constant <value_int = 0> ()  n = Gather (s, z)'
        '  y = org.pytorch.aten.ATen <operator="roll"> (x, dims, dims)  unread = Identity (n)',
        lambda x: x.roll((1, 0), (1, 0)),
    ),
}  # fmt: skip


def parsed(text: str) -> onnx.ModelProto:
    constants = (
        "one = Constant <value_int = 1> ()  two = Constant <value_int = 2> ()  double = Constant <value_int = 7> ()"
        "  dims = Constant <value_ints = [1, 0]> ()"
    )
    header = '<ir_version: 7, opset_import: ["": 13, "org.pytorch.aten": 1]>'
    return onnx.parser.parse_model(f"{header} g (float[3, 3] x) => (float[3, 3] y) {{ {constants} {text} }}")


@pytest.mark.parametrize("name", NODES)
def test_older_nodes_run(name, tmp_path):
    text, expected = NODES[name]
    content = parsed(text).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    for model in (content, path):
        (result,) = opbridge.session(model).run(["y"], {"x": X.numpy()})
        np.testing.assert_allclose(result, expected(X).numpy(), rtol=1e-6)


def test_the_list_of_operators_holds_for_them_too():
    content = parsed('y = org.pytorch.aten.ATen <operator="empty_like"> (x)').SerializeToString()
    with pytest.raises(opbridge.ModelFileError, match=r"aten=\('aten::empty_like',\)"):
        opbridge.session(content)
    opbridge.session(content, aten=("aten::empty_like",))


def test_what_cannot_be_rewritten_says_why():
    content = parsed('y = org.pytorch.aten.ATen <operator="triu_of_tomorrow"> (x)').SerializeToString()
    with pytest.raises(opbridge.ModelFileError, match="has no operator aten::triu_of_tomorrow"):
        opbridge.session(content)
    content = parsed('a = mine.Own (x)  b = org.pytorch.aten.ATen <operator="triu"> (a)  y = Relu (b)')
    content.opset_import.add(domain="mine", version=1)
    with pytest.raises(opbridge.ModelFileError, match="the type of its input 'a' is unknown"):
        to_current_form(ir.from_proto(content))
