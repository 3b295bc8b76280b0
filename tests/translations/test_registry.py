"""Which translation is taken."""

from __future__ import annotations

import functools

import pytest
import torch
from onnxscript import opset18 as op

import opbridge
from opbridge.base.torch_private import torch_operators
from opbridge.errors import UsageError
from opbridge.translations import catalogue as catalogue_module
from opbridge.translations import registry
from opbridge.translations.catalogue import catalogue, default_registry
from opbridge.translations.registry import Registry, Translation
from opbridge.translations.signature import IGNORED_ARGUMENTS, mismatch


def _entry(opset, origin, complex=False):
    return Translation("ns::op", lambda x: x, opset, origin, complex)


def test_the_newest_one_not_above_the_opset_is_taken():
    registry = Registry()
    for opset in (18, 20, 23):
        registry.add(_entry(opset, "opbridge"))
    assert [registry.find("ns::op", opset).opset for opset in (18, 19, 20, 22, 23, 25)] == [18, 18, 20, 20, 23, 23]
    assert registry.find("ns::op", 8) is None


def test_translations_for_opset_18_serve_older_ones_unless_their_user_says_otherwise():
    registry = Registry()
    registry.add(_entry(18, "opbridge"))
    registry.add(Translation("ns::op", abs, 18, "user", strict=True))
    registry.add(Translation("ns::newer", abs, 20, "torchlib"))
    assert [registry.find("ns::op", opset).origin for opset in (9, 17, 18)] == ["opbridge", "opbridge", "user"]
    assert registry.find("ns::newer", 19) is None
    assert registry.near_misses("ns::newer", 17, complex=False) == ["translated from opset 20"]
    registry.add(_entry(9, "user"))
    assert [registry.find("ns::op", opset).opset for opset in (9, 17, 18)] == [9, 9, 18]


def test_the_users_come_first_then_ours_then_torchlibs():
    registry = Registry()
    for origin, opset in (("torchlib", 23), ("opbridge", 20), ("user", 18)):
        registry.add(_entry(opset, origin))
    assert registry.find("ns::op", 23).origin == "user"
    registry.entries["ns::op"] = [entry for entry in registry.entries["ns::op"] if entry.origin != "user"]
    assert registry.find("ns::op", 23).origin == "opbridge"
    assert registry.find("ns::op", 19) is None


def test_torchlibs_are_loaded_for_an_operator_that_has_no_other_one():
    loads = []

    def torchlib():
        loads.append(True)
        return {"ns::op": [_entry(18, "torchlib")], "ns::other": [_entry(20, "torchlib")]}

    registry = Registry(torchlib=torchlib)
    registry.add(_entry(20, "opbridge"))
    assert registry.find("ns::op", 20).origin == "opbridge"
    assert registry.find("ns::other_", 20, torchlib=False) is None
    copied = registry.with_user_table({"ns::other": abs})
    assert copied.find("ns::other", 18).origin == "user"
    assert not loads
    assert registry.find("ns::op", 18).origin == "torchlib"
    assert registry.find("ns::other", 20).origin == "torchlib"
    assert registry.find("ns::other", 18) is registry.find("ns::third", 18) is None
    assert [each.origin for each in registry.of("ns::op")] == ["torchlib", "opbridge"]
    assert list(copied.all_entries()) == ["ns::op", "ns::other"]
    assert registry.near_misses("ns::other", 18, complex=False) == ["translated from opset 20"]
    assert loads


def test_an_export_of_operators_that_are_ours_does_not_load_torchlib():
    catalogue_module._of_torchlib.cache_clear()
    opbridge.export(torch.nn.ReLU(), (torch.randn(2),))
    assert catalogue_module._of_torchlib.cache_info().currsize == 0


def test_complex_inputs_have_translations_of_their_own():
    registry = Registry()
    registry.add(_entry(18, "opbridge", complex=True))
    assert registry.find("ns::op", 18) is None
    assert registry.find("ns::op", 18, complex=True) is not None


def test_registering_again_replaces():
    registry = Registry()
    registry.add(_entry(18, "user"))
    registry.add(last := _entry(18, "user"))
    assert registry.entries["ns::op"] == [last]


def test_a_users_table_is_for_one_export_only():
    registry = default_registry()
    table = {torch.ops.aten.asinh.default: op.Asinh, "aten::acosh": [op.Acosh]}
    merged = registry.with_user_table(table)
    assert merged.find("aten::asinh", 23).origin == "user"
    assert merged.find("aten::acosh", 23).origin == "user"
    assert registry.find("aten::asinh", 23).origin != "user"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({torch.ops.aten.add: op.Add}, "overload"),
        ({"add": op.Add}, "namespace::name"),
        ({"aten::add.Tensor": 3}, "not a function"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(table, said):
    with pytest.raises(UsageError, match=said):
        default_registry().with_user_table(table)


def test_near_misses_are_told():
    registry = Registry()
    registry.add(Translation("ns::op", lambda x: x, 20, "opbridge"))
    registry.add(Translation("ns::op.other", lambda x: x, 18, "opbridge"))
    assert registry.near_misses("ns::op", 18, complex=False) == [
        "translated from opset 20",
        "translated for the overload ns::op.other",
    ]
    assert "translated for real inputs only" in registry.near_misses("ns::op", 20, complex=True)


def test_the_catalogue_is_read_from_the_registry():
    rows = catalogue("torchvision::deform_conv2d")
    assert rows and all(row.operator == "torchvision::deform_conv2d" for row in rows)
    assert {row.operator for row in catalogue("*deform*")} >= {"torchvision::deform_conv2d"}
    assert {row.operator for row in catalogue("relu")} >= {"aten::relu"}
    assert not catalogue("no_such_operator")


def test_the_table_for_the_stock_exporter_holds_ours():
    table = opbridge.translation_table()
    assert table
    assert all(isinstance(target, torch._ops.OpOverload) for target in table)
    assert all(callable(function) for function in table.values())


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda other, self: None, "in that order"),
        (lambda self: None, "no parameter for other"),
        (lambda self, other, alpha, beta: None, "1 parameter too many"),
        (lambda self, other, alpha=1: None, None),
        (lambda x, y, scale=1: None, None),
        (lambda *args, **kwargs: None, None),
    ],
)
def test_parameters_are_held_against_the_schema(function, said):
    told = mismatch(function, torch.ops.aten.add.Tensor._schema)
    assert told is None if said is None else said in told and "aten::add.Tensor(" in told


def test_all_our_translations_have_their_operators_parameters():
    wrong = {}
    for operator, entries in default_registry().entries.items():
        target = torch_operators.operator_object(operator)
        for entry in entries:
            if entry.origin == "opbridge" and target is not None:
                told = mismatch(entry.function, target._schema)
                if told:
                    wrong[f"{operator} ({entry.opset})"] = told
    assert not wrong
    assert {"device", "layout"} <= IGNORED_ARGUMENTS


def test_the_decorator_wants_an_operators_name():
    with pytest.raises(UsageError, match="requires the name"):
        opbridge.translation()
    with pytest.raises(UsageError, match="namespace::name"):
        opbridge.translation("foo")


def test_what_is_loaded_in_a_scope_outlasts_it(monkeypatch):
    """Our translations register when they are first needed, which may be in the scope."""
    operator = "aten::not_yet_loaded"

    @functools.cache
    def load_families() -> None:
        registry.builtin(operator)(lambda self: self)

    monkeypatch.setattr(catalogue_module, "_load_families", load_families)
    with registry.override():
        with opbridge.override():
            assert default_registry().entries[operator]
        assert registry.registered()[0].entries[operator]
