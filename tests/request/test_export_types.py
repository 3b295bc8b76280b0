"""operator_export_type= is a name for permissions and pins."""

from __future__ import annotations

import pytest
import torch

import opbridge
from opbridge.base.routes import ALLOWED_BY_DEFAULT, ROUTES
from opbridge.plan.permitted_routes import PermittedRoutes
from opbridge.request.export_types import MODES, permitted_routes

Types = torch.onnx.OperatorExportTypes


@torch.library.custom_op("modestest::mystery", mutates_args=())
def mystery(t: torch.Tensor) -> torch.Tensor:
    return t.clone()


@mystery.register_fake
def _(t):
    return torch.empty_like(t)


class Model(torch.nn.Module):
    def forward(self, t):
        return torch.ops.modestest.mystery(torch.triu(t * 2))


ARGS = (torch.randn(3, 3),)
MUL, TRIU, MYSTERY = "aten::mul.Tensor", "aten::triu", "modestest::mystery"


@pytest.mark.parametrize(
    ("mode", "routes"),
    [
        ("ONNX", {MUL: "standard", TRIU: "standard", MYSTERY: None}),
        ("ONNX_ATEN", {MUL: "aten", TRIU: "aten", MYSTERY: None}),
        ("ONNX_ATEN_FALLBACK", {MUL: "standard", TRIU: "standard", MYSTERY: "aten"}),
        ("ONNX_FALLTHROUGH", {MUL: "standard", TRIU: "standard", MYSTERY: "fallthrough"}),
        ("RAW", {MUL: "fallthrough", TRIU: "fallthrough", MYSTERY: "fallthrough"}),
    ],
)
def test_what_each_mode_does(mode, routes):
    plan = opbridge.check(Model(), ARGS, operator_export_type=mode)
    assert {row.operator: row.route for row in plan.rows} == routes
    # There is one mechanism: what the mode stands for gives the same plan.
    same = opbridge.check(Model(), ARGS, allow=MODES[mode].allow, routes=MODES[mode].pinned)
    assert [(row.route, row.how) for row in same.rows] == [(row.route, row.how) for row in plan.rows]


def test_every_mode_of_torch_is_known_by_name_and_by_enum():
    for name, value in Types.__members__.items():
        assert permitted_routes(value, ALLOWED_BY_DEFAULT, None) == permitted_routes(name, ALLOWED_BY_DEFAULT, {})
    plan = opbridge.check(Model(), ARGS, operator_export_type=Types.ONNX_ATEN_FALLBACK)
    assert plan.rows[-1].route == "aten"


def test_modes_are_made_of_routes_that_exist():
    assert list(MODES) == ["ONNX", "ONNX_ATEN", "ONNX_ATEN_FALLBACK", "ONNX_FALLTHROUGH", "RAW"]
    assert MODES["ONNX"].allow == ALLOWED_BY_DEFAULT
    for mode in MODES.values():
        assert {*mode.allow, *mode.pinned.values()} <= set(ROUTES)


def test_without_a_mode_allow_and_routes_say_it():
    assert permitted_routes(None, ["standard"], {"aten::relu": "aten"}) == PermittedRoutes(
        ("standard",), {"aten::relu": "aten"}
    )
    assert permitted_routes(None, ALLOWED_BY_DEFAULT, None) == PermittedRoutes()


@pytest.mark.parametrize("wrong", ["ONXX", "onnx", 3, object()])
def test_a_mode_that_does_not_exist(wrong):
    for function in (opbridge.check, opbridge.export):
        with pytest.raises(opbridge.UsageError, match="expected ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK"):
            function(Model(), ARGS, operator_export_type=wrong)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"allow": ("standard", "aten")}, "conflicts with allow="),
        ({"routes": {"aten::triu": "aten"}}, "conflicts with routes="),
        ({"allow": (), "routes": {"aten::triu": "aten"}}, "conflicts with allow= and routes="),
    ],
)
def test_a_mode_beside_permissions_or_pins_is_refused(given, said):
    for function in (opbridge.check, opbridge.export):
        with pytest.raises(opbridge.UsageError, match=said):
            function(Model(), ARGS, operator_export_type="ONNX_ATEN_FALLBACK", **given)


@pytest.mark.parametrize("function", [opbridge.check, opbridge.export])
def test_permitted_routes_in_a_string(function):
    with pytest.raises(opbridge.UsageError, match=r"allow='aten' is a string.*allow=\('standard', .*'aten'\)"):
        function(torch.nn.ReLU(), (torch.ones(2),), allow="aten")
