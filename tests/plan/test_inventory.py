"""The operators of PyTorch and its libraries, and which of them have a route."""

from __future__ import annotations

import json

import pytest

import opbridge
from opbridge.cli import main
from opbridge.plan import inventory as rules


def test_routes():
    routes = {row.operator: row.route for row in opbridge.inventory().rows}
    assert routes["aten::add.Tensor"] == "translation"
    assert routes["aten::_foreach_exp"] == "decomposition"
    assert routes["aten::linalg_eig"] == "aten"


@pytest.mark.slow
def test_what_does_not_count():
    found = opbridge.inventory()
    listed = {row.operator for row in found.rows}
    left_out = {
        "aten::add_.Tensor": "in-place or out= variant",
        "aten::add.out": "in-place or out= variant",
        "aten::is_complex": "no tensor result",
        "aten::tanh_backward": "derivative",
        "aten::_cudnn_rnn": "no kernel for dense tensors on the CPU",
        "aten::mkldnn_convolution": "for another device",
        "aten::to_sparse": "for sparse, nested or quantized tensors",
        "aten::_fused_adam": "internal to PyTorch",
    }
    for operator, reason in left_out.items():
        assert operator not in listed
        base, _, overload = operator.partition("::")[2].partition(".")
        one = opbridge.inventory(operator)
        assert not [row for row in one.rows if row.operator == operator]
        assert reason in one.excluded["aten"], (base, overload)
    assert set(found.excluded["aten"]) == set(left_out.values())


def test_every_operator_is_counted_once():
    found = opbridge.inventory()
    names = [row.operator for row in found.rows]
    assert len(names) == len(set(names))
    counted = sum(sum(routes.values()) for routes in found.counts().values())
    assert counted == len(names)


def test_a_translation_gives_a_route():
    assert [row.route for row in opbridge.inventory("aten::linalg_eig").rows] == ["aten"]
    with opbridge.override():
        opbridge.translation("aten::linalg_eig")(lambda A: A)
        assert [row.route for row in opbridge.inventory("aten::linalg_eig").rows] == ["translation"]


def test_absent_packages(monkeypatch):
    monkeypatch.setitem(rules.NAMESPACES, "nowhere", "opbridge_tests_nowhere")
    assert "nowhere" in opbridge.inventory("linalg_eig").absent


def test_command(capsys):
    assert main(["ops", "linalg_eig*", "--missing"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["operator", "route"]
    assert lines[1].split() == ["aten::linalg_eig", "aten,", "if", "allowed"]
    assert any(line.startswith("aten: ") and "functional operators have a route" in line for line in lines)
    assert main(["ops", "linalg_eig", "--missing", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["missing"][0]["operator"] == "aten::linalg_eig"
    assert document["routes"] == {"aten": {"aten": 1}}
    assert main(["ops", "zzz", "--missing"]) == 1
