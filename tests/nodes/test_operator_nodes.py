"""Operators as nodes of their own: what stands in them, and that the calls described are those of the model."""

from __future__ import annotations

import onnx_ir as ir
import pytest
import torch
from helpers.aten_nodes import assert_matches_as_aten_nodes
from helpers.matching import assert_same_results
from helpers.running import run

import opbridge
from opbridge.base.torch_private import capabilities
from opbridge.capture.device_errors import device_advice
from opbridge.nodes import aten_node


def only_node(program):
    (node,) = [node for node in program.model.graph if node.domain]
    return node


def attributes(node):
    return {name: attribute.value for name, attribute in node.attributes.items()}


def x(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)).mul(3).to(dtype)


# A number beside tensors decides the type of the result only where torch lets it.
NUMBERS = {
    "float tensor, int": (lambda t: t * 2, x(3)),
    "int tensor, float": (lambda t: t * 2.5, x(3, dtype=torch.int32)),
    "int tensor, int": (lambda t: t * 2, x(3, dtype=torch.int8)),
    "bool tensor, int": (lambda t: t + 1, x(3) > 0),
    "bool tensor, float": (lambda t: t * 0.5, x(3) > 0),
    "half tensor, float": (lambda t: t + 0.1, x(3, dtype=torch.float16)),
    "double tensor, float": (lambda t: t + 0.1, x(3, dtype=torch.float64)),
    "no dimensions, float": (lambda t: t * 2.5, torch.tensor(3, dtype=torch.int32)),
    "no dimensions, half and float": (lambda t: t * 2.5, torch.tensor(1.5, dtype=torch.float16)),
    "no dimensions, int": (lambda t: t * 2, torch.tensor(3, dtype=torch.uint8)),
    "comparison with a float": (lambda t: t > 0.5, x(3, dtype=torch.int64)),
    "a complex number": (lambda t: t * (1 - 2j), x(3)),
    "complex tensor, float": (lambda t: t * 0.5, torch.complex(x(3), x(3))),
    "complex without dimensions, int": (lambda t: t + 1, torch.tensor(1 + 2j)),
    "where": (lambda t: torch.where(t > 0, t, 0.0), x(3)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_in_the_place_of_tensors(name):
    model, value = NUMBERS[name]
    program = assert_matches_as_aten_nodes(model, value)
    assert {row.route for row in program.plan.rows} == {"aten"}


class Sizes(torch.nn.Module):
    def forward(self, t):
        size = t.shape[0]
        grown = torch.nn.functional.pad(t, (0, size)) * size
        return grown.reshape(-1, size), torch.full((size, 2), 0.1) + size, t / (size * 0.5)


@pytest.mark.slow
def test_sizes_known_only_at_run_time():
    export = {"dynamic_shapes": {"t": {0: "n"}}}
    assert_matches_as_aten_nodes(Sizes(), x(3, 4), others=[(x(5, 4),), (x(2, 4),)], **export)


def test_writes_in_place_and_views_are_calls_like_others():
    def model(t):
        y = t.clone()
        y.add_(1).relu_()
        y[0] = 7.0
        return y.view(-1).mul_(2), y.t()

    program = assert_matches_as_aten_nodes(model, x(3, 3))
    called = [node.attributes["operator"].as_string() for node in program.model.graph if node.domain]
    assert not any(name.endswith("_") for name in called)


def test_lists_of_tensors_in_and_out():
    def model(t, u):
        first, *others = torch.split(torch.cat([t, u]), [1, 2, 3])
        return first, torch.stack(torch.unbind(others[0])), torch.einsum("ij,kj->ik", t, u), u[:, torch.tensor([0, 2])]

    program = assert_matches_as_aten_nodes(model, x(2, 3), x(4, 3))
    assert {row.route for row in program.plan.rows if row.how != "evaluated at export"} == {"aten"}


def test_complex_tensors_are_pairs():
    program = assert_matches_as_aten_nodes(lambda t: torch.fft.rfft(t).abs(), x(8))
    calls = {call.operator: call for call in map(aten_node.decode, program.model.graph)}
    assert calls["aten::fft_rfft"].results == ("complex_tensor",)
    assert calls["aten::abs"].arguments == {"self": aten_node.Input("complex_tensor", 0)}
    (made,) = [
        node.outputs[0] for node in program.model.graph if node.attributes["operator"].as_string() != "aten::abs"
    ]
    assert (made.dtype, list(made.shape)) == (ir.DataType.FLOAT, [5, 2])


def test_weights_and_modules():
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.GELU()).eval()
    program = assert_matches_as_aten_nodes(model, x(1, 2, 5, 5))
    assert "0.weight" in program.model.graph.initializers
    node = program.model.graph[0]
    assert node.metadata_props["opbridge.operator"] == "aten::conv2d"
    assert node.metadata_props["opbridge.route"] == "aten"
    assert node.metadata_props["opbridge.module"] == "0"


def test_inside_of_control_flow():
    def model(t):
        return torch.cond(t.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (t,))

    class Model(torch.nn.Module):
        def forward(self, t):
            return model(t)

    assert_matches_as_aten_nodes(Model(), torch.ones(3), others=[(-torch.ones(3),)])


@torch.library.custom_op("nodetest::several", mutates_args=())
def several(
    t: torch.Tensor,
    others: list[torch.Tensor],
    mask: torch.Tensor | None,
    sizes: list[int],
    scale: float = 0.5,
    name: str = "plain",
    flags: list[bool] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    return t * scale, t.new_zeros(sizes)


@several.register_fake
def _(t, others, mask, sizes, scale=0.5, name="plain", flags=None, dtype=None, device=None):
    return torch.empty_like(t), t.new_zeros(sizes)


FALLTHROUGH = {"operator_export_type": "ONNX_FALLTHROUGH"}


@pytest.mark.slow
def test_what_stands_in_a_fallthrough_node():
    def model(t):
        op = torch.ops.nodetest.several
        return op(t, [t + 1, t - 1], None, [2, 3], flags=[True, False], dtype=torch.float16, device=torch.device("cpu"))

    program = opbridge.export(model, (x(3),), **FALLTHROUGH)
    node = only_node(program)
    assert (node.domain, node.op_type) == ("nodetest", "several")
    assert [value.name for value in node.inputs] == ["t", "add", "sub"]
    assert attributes(node) == {
        "others": 2,
        "sizes": (2, 3),
        "scale": 0.5,
        "name": "plain",
        "flags": (1, 0),
        "dtype": int(ir.DataType.FLOAT16),
        "device": "cpu",
    }
    assert [list(value.shape) for value in node.outputs] == [[3], [2, 3]]
    assert program.model.opset_imports["nodetest"] == 1
    assert program.plan.rows[-1].route == "fallthrough"
    assert program.kernels == ["nodetest::several"]


def test_a_tensor_that_is_left_out_is_an_empty_input():
    def model(t):
        return torch.ops.nodetest.several(t, [], None, [2])[0] + torch.ops.nodetest.several(t, [t], t, [2])[0]

    program = opbridge.export(model, (x(3),), custom_opsets={"nodetest": 4}, **FALLTHROUGH)
    first, second = (node for node in program.model.graph if node.domain)
    assert [value.name for value in first.inputs] == ["t"]
    assert [value.name for value in second.inputs] == ["t", "t", "t"]
    assert attributes(first)["others"] == 0
    assert program.model.opset_imports["nodetest"] == 4


def test_sizes_known_only_at_run_time_are_inputs_of_a_fallthrough_node():
    def model(t):
        return torch.ops.nodetest.several(t, [], t, [t.shape[0], 3])[1]

    class Model(torch.nn.Module):
        def forward(self, t):
            return model(t)

    program = opbridge.export(Model(), (x(3),), dynamic_shapes={"t": {0: "n"}}, **FALLTHROUGH)
    node = only_node(program)
    sizes = node.inputs[-1]
    assert (sizes.dtype, sizes.producer().op_type) == (ir.DataType.INT64, "Concat")
    assert "sizes" not in node.attributes


def test_overloads_and_other_arguments_of_a_fallthrough_node():
    def model(t):
        return torch.add(t, t, alpha=2), t.to(torch.complex64) * 1j, torch.clamp(t, 0.1), t.contiguous()

    program = opbridge.export(model, (x(3),), routes={"aten::*": "fallthrough"})
    nodes = {node.op_type: node for node in program.model.graph}
    assert attributes(nodes["add.Tensor"]) == {"alpha": 2}
    assert attributes(nodes["clamp"])["min"] == pytest.approx(0.1)
    assert "max" not in nodes["clamp"].attributes
    assert [list(value.shape) for value in nodes["mul.Tensor"].inputs] == [[3, 2], [2]]
    assert attributes(nodes["to.dtype"])["dtype"] == int(ir.DataType.COMPLEX64)


@pytest.mark.skipif(not capabilities.describes_mkldnn_tensors.present, reason="torch cannot describe an mkldnn tensor")
def test_what_cannot_be_a_node_is_told():
    plan = opbridge.check(lambda t: t.to_mkldnn().to_dense(), (x(3),), routes={"aten::to_mkldnn": "aten"})
    row = plan.missing[0]
    assert "pinned to the route 'aten', which is not available for it" in row.reason
    assert "_mkldnn tensor" in row.reason
    assert row.permissions == ()
    # A pattern leaves alone what its route cannot carry.
    row = opbridge.check(lambda t: t.to_mkldnn().to_dense(), (x(3),), operator_export_type="ONNX_ATEN").missing[0]
    assert "pinned" not in row.reason


def sorted_values(t):
    return torch.sort(t, -1)[0]


def last_part(t):
    return torch.split(t, 2)[1]


def mode_positions(t):
    return torch.mode(t, -1).indices


@pytest.mark.parametrize(
    ("model", "results"),
    [
        (sorted_values, "Tensor=tensor Tensor=none"),
        (mode_positions, "Tensor=none Tensor=tensor"),
        (last_part, "Tensor[]=[none,tensor]"),
    ],
)
def test_what_nothing_reads_is_no_output(model, results):
    program = assert_matches_as_aten_nodes(model, x(4, 5))
    (node,) = [node for node in program.model.graph if node.domain]
    assert attributes(node)["results"] == results and len(node.outputs) == 1
    assert_same_results(run(program, (x(4, 5),)), model, (x(4, 5),), equal_nan=False)


@pytest.fixture
def on_cuda_alone():
    """An operator whose only kernel is for CUDA devices, and which is captured by its fake."""
    library = torch.library.Library("cudaonly", "DEF")
    library.define("scaled(Tensor x, float by) -> Tensor")
    library.impl("scaled", lambda x, by: x * by, "CUDA")
    torch.library.register_fake("cudaonly::scaled", lambda x, by: torch.empty_like(x), lib=library)
    yield torch.ops.cudaonly.scaled
    library._destroy()


def test_a_kernel_for_cuda_alone_is_not_run_by_libtorch(on_cuda_alone):
    def model(x):
        return on_cuda_alone(x, 2.0).relu()

    with pytest.raises(opbridge.MissingOperators) as caught:
        opbridge.export(model, (x(3),), allow=["aten"])
    assert "Or allow the route fallthrough" in str(caught.value)
    with pytest.raises(opbridge.MissingOperators, match="a kernel for CUDA devices only"):
        opbridge.export(model, (x(3),), routes={"cudaonly::scaled": "aten"})
    # What PyTorch raises for an operator that has no kernel for the CPU, which the advice is made from.
    with pytest.raises(NotImplementedError, match="cudaonly::scaled") as error:
        model(x(3))
    assert '@torch.library.register_fake("cudaonly::scaled")' in device_advice(error.value)
    program = opbridge.export(model, (x(3),), allow=["standard", "fallthrough"])
    assert only_node(program).op_type == "scaled"
    assert "no kernel for cudaonly::scaled" in program.unverified
