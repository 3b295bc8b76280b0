"""Every operator gets a route, or a reason and a remedy."""

from __future__ import annotations

import json

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
    assert "No translation" in first.reason
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
    opbridge.translation("plantest::enigma", opset=22)(op.Identity)
    try:
        table = {"plantest::mystery": TABLE["plantest::mystery"]}
        (row,) = opbridge.check(Model(), ARGS, custom_translation_table=table, opset_version=18).missing
        assert "translated from opset 22" in row.reason
    finally:
        from opbridge import registry

        del registry._ours.entries["plantest::enigma"]
        registry._merged.cache_clear()


def test_what_has_no_translation_is_decomposed():
    """A decomposition stands in the plan with the operators that it is made of."""

    def model(x):
        return torch.nn.functional.soft_margin_loss(x, x * 2)

    plan = opbridge.check(model, (torch.randn(4),))
    assert plan.ok
    row = next(row for row in plan.rows if "soft_margin_loss" in row.operator)
    assert row.how.startswith("decomposed into aten::")
    assert opbridge.export(model, (torch.randn(4),)).verification.ok


def test_routes_can_be_pinned_and_forbidden():
    plan = opbridge.check(torch.nn.ReLU(), ARGS, routes={"aten::relu": "kernel"})
    assert "pinned" in plan.missing[0].reason
    plan = opbridge.check(torch.nn.ReLU(), ARGS, allow=("function",))
    assert "not allowed" in plan.missing[0].reason
    with pytest.raises(opbridge.UsageError, match="no route 'magic'"):
        opbridge.check(torch.nn.ReLU(), ARGS, allow=("magic",))


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
    for opset in (17, 99, "18"):
        with pytest.raises(opbridge.UsageError, match="out of range"):
            opbridge.check(torch.nn.ReLU(), ARGS, opset_version=opset)
    with pytest.raises(opbridge.UsageError, match="no target 'abacus'"):
        opbridge.check(torch.nn.ReLU(), ARGS, target="abacus")
