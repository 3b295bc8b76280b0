"""Kernels that the runtime does not have are told before a file is written."""

from __future__ import annotations

import json

import onnx_ir as ir
import onnxscript
import pytest
import torch
from onnxscript import opset18 as op
from onnxscript import values

import opbridge
from opbridge.fit import kernels_needed
from opbridge.fit.target import find_target

CUSTOM = values.Opset("kernelstest.custom", 1)


@torch.library.custom_op("kernelstest::cube", mutates_args=())
def cube(t: torch.Tensor) -> torch.Tensor:
    return t**3


@cube.register_fake
def _(t):
    return torch.empty_like(t)


class Model(torch.nn.Module):
    def forward(self, t):
        return torch.relu(torch.ops.kernelstest.cube(t) + 1)


def to_kernel(t):
    return values.Op(CUSTOM, "Cube", None)(t)


ARGS = (torch.randn(3),)
TABLE = {"custom_translation_table": {"kernelstest::cube": to_kernel}}
NAME = "kernelstest.custom::Cube"


def test_a_missing_kernel_is_an_error_before_the_file_is_written(tmp_path):
    with pytest.raises(opbridge.MissingOperators) as caught:
        opbridge.export(Model(), ARGS, tmp_path / "model.onnx", **TABLE)
    (row,) = caught.value.plan.missing
    assert row.operator == "kernelstest::cube"
    assert row.reason.startswith(f"Its translation builds {NAME}, for which onnxruntime ")
    assert row.reason.endswith("has no kernel.")
    for said in ("register_custom_ops_library", 'custom_opsets={"kernelstest.custom": 1}', "fallthrough", "route aten"):
        assert said in row.remedy
    assert row.permissions == ("aten", "fallthrough")
    assert str(row.sources[0]).endswith(f"test_kernels_needed.py:{Model.forward.__code__.co_firstlineno + 1}")
    assert not list(tmp_path.iterdir())
    assert opbridge.check(Model(), ARGS, **TABLE).missing == [row]


@pytest.mark.parametrize(
    "vouching",
    [{"custom_opsets": {"kernelstest.custom": 3}}, {"allow": ("standard", "kernel", "fallthrough")}],
    ids=["custom_opsets", "fallthrough"],
)
def test_a_kernel_that_somebody_vouches_for(tmp_path, vouching):
    plan = opbridge.check(Model(), ARGS, **TABLE, **vouching)
    program = opbridge.export(Model(), ARGS, tmp_path / "model.onnx", **TABLE, **vouching)
    for each in (plan, program.plan):
        assert each.ok
        assert [row.route for row in each.rows] == ["kernel", "standard", "standard"]
        assert each.rows[0].how == f"user translation, as {NAME}"
        assert f"not verified: {each.unverified}" in str(each)
        assert json.loads(json.dumps(each.to_json()))["kernels"] == [NAME]
    assert program.verification is None
    assert program.kernels == [NAME]
    assert program.unverified.endswith(f"has no kernel for {NAME}")
    assert "verify" not in program.timings
    assert ir.load(program.path).metadata_props["opbridge.kernels"] == NAME


def test_what_is_not_asked_to_be_verified_is_not_called_unverified():
    program = opbridge.export(Model(), ARGS, **TABLE, custom_opsets={"kernelstest.custom": 1}, verify=False)
    assert program.kernels == [NAME]
    assert program.unverified == ""


def test_what_needs_no_kernel_is_verified():
    program = opbridge.export(Model(), ARGS, custom_translation_table={"kernelstest::cube": lambda t: op.Pow(t, 3.0)})
    assert program.verification.ok
    assert (program.kernels, program.unverified) == ([], "")
    assert "opbridge.kernels" not in program.model.metadata_props


def test_another_route_is_taken_where_it_is_allowed():
    plan = opbridge.check(Model(), ARGS, **TABLE, allow=("standard", "function", "kernel", "aten"))
    assert plan.rows[0].route == "aten"
    assert plan.rows[0].how.startswith(f"run by libtorch: Its translation builds {NAME}, for which")


def test_the_route_kernel_has_to_be_allowed():
    vouched = {**TABLE, "custom_opsets": {"kernelstest.custom": 1}}
    (row,) = opbridge.check(Model(), ARGS, **vouched, allow=("standard",)).missing
    assert "Allow the route kernel" in row.remedy
    (row,) = opbridge.check(Model(), ARGS, **vouched, routes={"kernelstest::cube": "standard"}).missing
    assert "pinned to a route other than 'kernel'" in row.reason
    assert opbridge.check(Model(), ARGS, **vouched, routes={"kernelstest::cube": "kernel"}).rows[0].route == "kernel"
    (row,) = opbridge.check(Model(), ARGS, **vouched, routes={"aten::relu": "kernel"}).missing
    assert "pinned to the route 'kernel', but the nodes of its translation need no kernel" in row.reason


def test_a_pin_to_a_kernel_without_a_translation():
    (row,) = opbridge.check(Model(), ARGS, routes={"kernelstest::cube": "kernel"}).missing
    assert row.reason == "It is pinned to the route 'kernel' but has no translation."


def test_functions_are_looked_into():
    domain = values.Opset("kernelstest.functions", 1)

    @onnxscript.script(domain, default_opset=op)
    def Twice(x):
        return op.Add(x, x)

    target = find_target(None, None)
    program = opbridge.export(Model(), ARGS, custom_translation_table={"kernelstest::cube": Twice}, verify=False)
    assert program.kernels == []
    (function,) = program.model.functions.values()
    function[0].domain = "kernelstest.inside"
    (need,) = kernels_needed.needs(program.model, target)
    assert (need.name, need.built_for) == ("kernelstest.inside::Add", ["kernelstest::cube"])


def test_the_runtimes_own_operators_need_nothing():
    target = find_target(None, None)
    program = opbridge.export(Model(), ARGS, **TABLE, custom_opsets={"kernelstest.custom": 1})
    node = next(node for node in program.model.graph if node.domain)
    node.domain, node.op_type = "com.microsoft", "Gelu"
    assert kernels_needed.needs(program.model, target) == []
    node.op_type = "NoSuchOperator"
    assert [need.name for need in kernels_needed.needs(program.model, target)] == ["com.microsoft::NoSuchOperator"]


def test_nodes_of_the_other_routes_count_too_and_each_once(tmp_path):
    class Several(torch.nn.Module):
        def forward(self, t):
            return torch.ops.kernelstest.cube(torch.triu(torch.triu(t) * 2))

    routes = {"aten::triu": "aten", "aten::mul": "aten", "kernelstest::*": "fallthrough"}
    program = opbridge.export(Several(), (torch.randn(3, 3),), tmp_path / "model.onnx", routes=routes)
    assert program.kernels == ["org.pytorch.aten::ATen", "kernelstest::cube"]
    assert program.unverified.endswith("has no kernel for kernelstest::cube")
    with pytest.raises(opbridge.ModelFileError) as caught:
        opbridge.session(program.path)
    assert "requires kernels for kernelstest::cube" in str(caught.value)
    with pytest.raises(opbridge.ModelFileError, match="requires kernels for kernelstest::cube"):
        opbridge.session(program.path.read_bytes())
    with pytest.raises(opbridge.ModelFileError, match="kernelstest::cube"):
        opbridge.verify(program.path, Several(), (torch.randn(3, 3),))


def test_a_program_that_cannot_run_here_is_a_mismatch_when_it_is_verified_all_the_same():
    program = opbridge.export(Model(), ARGS, **TABLE, custom_opsets={"kernelstest.custom": 1})
    verification = opbridge.verify(program)
    assert not verification.ok
    assert NAME in str(verification)


def test_missing_translations_and_missing_kernels_are_told_together():
    class Both(torch.nn.Module):
        def forward(self, t):
            return torch.ops.kernelstest.other(torch.ops.kernelstest.cube(t))

    library = torch.library.Library("kernelstest", "FRAGMENT")
    library.define("other(Tensor t) -> Tensor")
    library.impl("other", lambda t: t.clone(), "CPU")
    library.impl("other", torch.empty_like, "Meta")
    plan = opbridge.check(Both(), ARGS, **TABLE)
    assert [row.operator for row in plan.missing] == ["kernelstest::cube", "kernelstest::other"]
    assert plan.permissions() == {"aten": (2, 2), "fallthrough": (2, 2)}
