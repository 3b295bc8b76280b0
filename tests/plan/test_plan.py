"""Every operator gets a route, or a reason and a remedy."""

from __future__ import annotations

import json
import re

import pytest
import torch
from onnxscript import opset18 as op

import opbridge


@torch.library.custom_op("plantest::mystery", mutates_args=())
def mystery(x: torch.Tensor, power: int) -> torch.Tensor:
    return x**power


@mystery.register_fake
def _(x, power):
    return torch.empty_like(x)


@torch.library.custom_op("plantest::enigma", mutates_args=())
def enigma(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@enigma.register_fake
def _(x):
    return torch.empty_like(x)


class Model(torch.nn.Module):
    def forward(self, x):
        y = torch.ops.plantest.mystery(x, 2)
        y = torch.ops.plantest.mystery(y, 3)
        return torch.ops.plantest.enigma(y).relu()


ARGS = (torch.randn(3),)
TABLE = {"plantest::mystery": lambda x, power: op.Pow(x, power), "plantest::enigma": op.Identity}


def test_all_missing_operators_are_told_at_once():
    plan = opbridge.check(Model(), ARGS)
    assert not plan.ok
    assert [row.operator for row in plan.missing] == ["plantest::mystery", "plantest::enigma"]
    first = plan.missing[0]
    assert first.count == 2
    assert len(first.sources) == 2
    assert str(first.sources[0]).endswith("test_plan.py:" + str(Model.forward.__code__.co_firstlineno + 1))
    assert first.sources[0].code == "y = torch.ops.plantest.mystery(x, 2)"
    assert "It has no translation" in first.reason
    assert "(Tensor x, SymInt power)" in first.remedy


def test_export_raises_with_the_same_plan():
    with pytest.raises(opbridge.MissingOperators) as caught:
        opbridge.export(Model(), ARGS)
    assert [row.operator for row in caught.value.plan.missing] == ["plantest::mystery", "plantest::enigma"]
    assert "2 of 3 operators" in str(caught.value)
    assert caught.value.exit_status == 1


def test_with_translations_nothing_is_missing():
    plan = opbridge.check(Model(), ARGS, custom_translation_table=TABLE)
    assert plan.ok
    assert plan.rows[0].how == "user translation"
    assert opbridge.export(Model(), ARGS, custom_translation_table=TABLE).verification.ok


def test_a_translation_that_raises_is_a_reason():
    def broken(x, power):
        raise NotImplementedError("powers above two")

    plan = opbridge.check(Model(), ARGS, custom_translation_table={**TABLE, "plantest::mystery": broken})
    (row,) = plan.missing
    assert "powers above two" in row.reason
    with pytest.raises(opbridge.MissingOperators, match="powers above two"):
        opbridge.export(Model(), ARGS, custom_translation_table={**TABLE, "plantest::mystery": broken})


def test_parameters_in_the_wrong_order_are_a_reason_with_the_schema():
    swapped = {**TABLE, "plantest::mystery": lambda power, x: op.Pow(x, power)}
    (row,) = opbridge.check(Model(), ARGS, custom_translation_table=swapped).missing
    assert "(power, x)" in row.reason
    assert "plantest::mystery(Tensor x, SymInt power)" in row.reason


def test_a_later_opset_is_a_near_miss():
    with opbridge.override():
        opbridge.translation("plantest::enigma", opset=22)(op.Identity)
        table = {"plantest::mystery": TABLE["plantest::mystery"]}
        (row,) = opbridge.check(Model(), ARGS, custom_translation_table=table, opset_version=18).missing
        assert "translated from opset 22" in row.reason


@pytest.mark.slow
def test_what_has_no_translation_is_decomposed():
    """A decomposition stands in the plan with the operators that it is made of."""

    def model(x):
        return torch.special.entr(x * 2)

    plan = opbridge.check(model, (torch.randn(4),))
    assert plan.ok
    row = next(row for row in plan.rows if "special_entr" in row.operator)
    assert row.how.startswith("decomposed into aten::")
    assert opbridge.export(model, (torch.randn(4),)).verification.ok


def test_routes_can_be_pinned_and_forbidden():
    plan = opbridge.check(torch.nn.ReLU(), ARGS, routes={"aten::relu": "kernel"})
    assert "pinned" in plan.missing[0].reason
    plan = opbridge.check(torch.nn.ReLU(), ARGS, allow=("function",))
    assert "not allowed" in plan.missing[0].reason
    with pytest.raises(opbridge.UsageError, match="Unknown route 'magic'"):
        opbridge.check(torch.nn.ReLU(), ARGS, allow=("magic",))


def test_what_a_permission_would_bring_is_said():
    plan = opbridge.check(Model(), ARGS)
    assert [row.permissions for row in plan.rows] == [("aten", "fallthrough"), ("aten", "fallthrough"), ()]
    assert "Or allow the route aten, which requires libtorch at run time, or fallthrough" in plan.missing[0].remedy
    share = "2 of the model's 3 operators, 3 of its 4 nodes"
    said = (
        f"allowing aten or fallthrough would add a route for {plan.rows[0].operator}, {plan.rows[1].operator} ({share})"
    )
    assert plan.summary().endswith(f"1 standard, 2 missing; {said}")
    assert said[1:] in plan.describe_missing()
    assert plan.to_json()["permissions"] == {
        "aten": {"operators": 2, "nodes": 3},
        "fallthrough": {"operators": 2, "nodes": 3},
    }
    allowed = opbridge.check(Model(), ARGS, allow=("standard", "aten"))
    assert allowed.ok
    assert [row.route for row in allowed.rows] == ["aten", "aten", "standard"]
    assert "run by libtorch: It has no translation" in str(allowed)
    assert f'For a better route: Write a translation: @opbridge.translation("{allowed.rows[0].operator}")' in str(
        allowed
    )
    assert allowed.permissions() == {}


def test_routes_are_pinned_by_name_by_all_overloads_and_by_pattern():
    def model(x):
        return (x + 1).relu() * x.shape[0]

    def taken(routes):
        plan = opbridge.check(model, ARGS, routes=routes)
        assert plan.ok
        return {row.operator: row.route for row in plan.rows}

    assert taken({"aten::add.Tensor": "aten"})["aten::add.Tensor"] == "aten"
    assert taken({"aten::add": "fallthrough"})["aten::add.Tensor"] == "fallthrough"
    assert set(taken({"aten::*": "aten"}).values()) == {"aten"}
    # The exact name counts for more than a pattern, wherever it stands.
    routes = taken({"aten::*": "aten", "aten::relu": "standard"})
    assert (routes["aten::relu"], routes["aten::add.Tensor"]) == ("standard", "aten")


def test_a_pin_that_nothing_fits_is_told():
    plan = opbridge.check(torch.nn.ReLU(), ARGS, routes={"aten::rleu": "aten", "torchvision::*": "aten"})
    assert plan.notes == ("routes= has an entry for aten::rleu, which the model does not use",)


def test_a_translation_that_fails_leaves_the_operator_to_a_later_route():
    def broken(x, power):
        raise NotImplementedError("powers above two")

    table = {**TABLE, "plantest::mystery": broken}
    plan = opbridge.check(Model(), ARGS, custom_translation_table=table, allow=("standard", "aten"))
    assert plan.rows[0].route == "aten"
    reason = r"Its user translation failed at \S*test_plan\.py:\d+, in broken: powers above two\."
    assert re.fullmatch(f"run by libtorch: {reason}", plan.rows[0].how)
    program = opbridge.export(Model(), ARGS, custom_translation_table=table, allow=("standard", "fallthrough"))
    assert program.plan.rows[0].route == "fallthrough"
    assert [node.domain for node in program.model.graph] == ["plantest", "plantest", ""]


def test_a_type_that_the_runtime_has_no_kernel_for_leaves_the_operator_to_a_later_route():
    table, args = {"aten::erf": op.Erf}, (torch.randn(3, dtype=torch.float64),)
    plan = opbridge.check(torch.erf, args, custom_translation_table=table, allow=("standard", "aten"))
    assert plan.rows[0].route == "aten"
    assert "no kernel for Erf of double" in plan.rows[0].how


def test_a_decomposition_counts_for_more_than_a_permission():
    def model(x):
        return torch.special.entr(x * 2)

    plan = opbridge.check(model, ARGS, allow=("standard", "aten", "fallthrough"))
    assert next(row for row in plan.rows if "special_entr" in row.operator).route == "standard"
    # Where what it decomposes into is pinned, the route is that of its pieces.
    plan = opbridge.check(model, ARGS, routes={"aten::log": "aten"})
    assert next(row for row in plan.rows if "special_entr" in row.operator).route == "aten"


def test_a_type_that_the_runtime_has_no_kernel_for_is_told():
    """onnxruntime has Erf for float32 only; double cannot be narrowed without loss."""
    table = {"aten::erf": op.Erf}
    plan = opbridge.check(torch.erf, (torch.randn(3, dtype=torch.float64),), custom_translation_table=table)
    (row,) = plan.missing
    assert "no kernel for Erf of double" in row.reason
    with pytest.raises(opbridge.MissingOperators, match="no kernel for Erf"):
        opbridge.export(torch.erf, (torch.randn(3, dtype=torch.float64),), custom_translation_table=table)


def test_the_plan_as_data_and_as_text():
    plan = opbridge.check(Model(), ARGS)
    data = json.loads(json.dumps(plan.to_json()))
    assert data["routes"] == {"standard": 1, "missing": 2}
    assert data["operators"][0]["operator"] == "plantest::mystery"
    assert "test_plan.py:" in data["operators"][0]["sources"][0]
    assert "MISSING" in str(plan)
    assert "3 operators, 4 nodes" in plan.summary()


def test_opsets_out_of_range():
    for opset in (8, 99, "18"):
        with pytest.raises(opbridge.UsageError, match="is not supported"):
            opbridge.check(torch.nn.ReLU(), ARGS, opset_version=opset)
    with pytest.raises(opbridge.UsageError, match="Unknown target 'abacus'"):
        opbridge.check(torch.nn.ReLU(), ARGS, target="abacus")
