"""The rows of a profile."""

from __future__ import annotations

import pytest
from helpers.profile_graphs import file_of

from opbridge.profiling.data import Kernel, TorchCall
from opbridge.profiling.grouping import lines_label, modules_label, rows, without_folders

NODES = {
    node.name: node
    for node in file_of(
        ("conv", "Conv", "x", "c", "block.conv", "m/net.py:10"),
        ("relu", "Relu", "c", "r", "block.act", "m/net.py:11"),
        ("head", "Gemm", "r", "h", "head", "m/net.py:20"),
        ("soft", "Softmax", "h", "s", "", "m/net.py:21"),
    ).nodes
}


def kernel(name, operator, milliseconds, of=(), near=None, kind="", calls=1):
    nodes = tuple(NODES[each] for each in of)
    return Kernel(
        name, operator, "CPU", calls, milliseconds, milliseconds, nodes, None if near is None else NODES[near], kind
    )


KERNELS = [
    kernel("a", "Conv", 6.0, ["conv", "relu"], kind="fused"),
    kernel("b", "Gemm", 3.0, ["head"]),
    kernel("c", "Softmax", 0.5, ["soft"]),
    kernel("d", "Cast", 0.5, near="head", kind="inserted Cast"),
]
TORCH = [
    TorchCall("aten::convolution", "block.conv", "m/net.py:10", 1, 7.0),
    TorchCall("aten::relu", "block.act", "m/net.py:11", 1, 1.0),
    TorchCall("aten::addmm", "head", "m/net.py:20", 1, 2.0),
    TorchCall("aten::clone", "", "m/net.py:30", 1, 0.25),
]


@pytest.mark.parametrize("by", ["operator", "module", "line", "node"])
@pytest.mark.parametrize("torch", [None, TORCH])
def test_shares_add_up_to_the_whole(by, torch):
    assert sum(row.share for row in rows(KERNELS, torch, by)) == pytest.approx(1.0)


def test_a_fused_kernel_is_compared_with_all_of_its_lines():
    found = {row.label: row for row in rows(KERNELS, TORCH, "line")}
    fused = found["m/net.py:10-11"]
    assert (fused.milliseconds, fused.torch, fused.lost) == (6.0, 8.0, -2.0)
    assert fused.lines == ("m/net.py:10", "m/net.py:11")


def test_the_main_node_of_a_fused_kernel_has_its_operator():
    fused = kernel("a", "com.microsoft.nchwc::Conv", 1.0, ["relu", "conv"], kind="fused")
    assert fused.main.name == "conv" and fused.stands_for == "Conv + Relu"
    assert kernel("d", "Cast", 0.5, near="head", kind="inserted Cast").main.name == "head"
    assert kernel("d", "Cast", 0.5).main is None


def test_what_was_inserted_counts_for_its_line_and_the_line_that_loses_most_is_first():
    first = rows(KERNELS, TORCH, "line")[0]
    assert (first.label, first.milliseconds, first.torch, first.lost) == ("m/net.py:20", 3.5, 2.0, 1.5)
    assert first.operators == ("Gemm", "Cast")


def test_a_line_that_only_pytorch_runs_is_a_row():
    found = {row.label: row for row in rows(KERNELS, TORCH, "line")}
    assert (found["m/net.py:30"].milliseconds, found["m/net.py:30"].torch) == (0.0, 0.25)


def test_rows_without_pytorch_are_sorted_by_their_time():
    assert [row.label for row in rows(KERNELS, None, "operator")] == ["Conv", "Gemm", "Softmax", "Cast (inserted Cast)"]
    assert all(row.torch is None for row in rows(KERNELS, TORCH, "operator"))


def test_modules_are_joined_by_a_fusion_and_cut_to_a_depth():
    labels = [row.label for row in rows(KERNELS, TORCH, "module")]
    assert labels == ["head", "(the model itself)", "block.(act, conv)"]
    assert "block" in [row.label for row in rows(KERNELS, TORCH, "module", depth=1)]


def test_a_module_and_parts_of_it_in_a_few_words():
    assert modules_label(["a.0", "a.0.bn2", "a.0.relu"]) == "a.0 with bn2, relu"
    assert modules_label(["a.0.conv", "a.0.relu"]) == "a.0.(conv, relu)"
    assert modules_label(["conv", "relu"]) == "(conv, relu)"


def test_a_node_that_shares_its_line_has_no_time_of_pytorch():
    found = {row.label: row for row in rows(KERNELS, TORCH, "node")}
    assert found["conv"].torch == 8.0
    assert found["head"].torch is None and found["inserted Cast for head"].torch is None


def test_lines_in_a_few_words():
    assert lines_label(["a.py:3", "a.py:1", "a.py:2", "a.py:9", "b/c.py:4"]) == "a.py:1-3, 9, b/c.py:4"
    assert without_folders("x/y/a.py:1-3, 9, b/c.py:4") == "a.py:1-3, 9, c.py:4"
