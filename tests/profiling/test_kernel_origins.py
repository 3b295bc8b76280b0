"""Which nodes of a file the nodes of ONNX Runtime stand for; the graphs are those that release 1.32 makes."""

from __future__ import annotations

import pytest
from helpers.profile_graphs import file_of, run_of

from opbridge.profiling.origins import origins


def names(found):
    """For each node the nodes of the file that it stands for, in the order of the file."""
    return {name: [each.name for each in sorted(one.of, key=lambda node: node.position)] for name, one in found.items()}


def near(found):
    return {name: one.near.name for name, one in found.items() if one.near is not None}


def test_a_node_that_is_left_as_it_is():
    graph = file_of(("a/Relu", "Relu", "x", "a"))
    assert names(origins(graph, run_of(("a/Relu", "Relu", "x", "a")))) == {"a/Relu": ["a/Relu"]}


def test_convolutions_with_another_layout_take_what_follows_them():
    """A block of ResNet: in the run no value has a name of the file."""
    graph = file_of(
        ("conv1/Conv", "Conv", "x w1", "conv1/conv2d"),
        ("bn1/BN", "BatchNormalization", "conv1/conv2d s", "bn1/batch_norm"),
        ("relu/Relu", "Relu", "bn1/batch_norm", "relu/relu_"),
        ("conv2/Conv", "Conv", "relu/relu_ w2", "conv2/conv2d"),
        ("bn2/BN", "BatchNormalization", "conv2/conv2d s", "bn2/batch_norm"),
        ("add/Add", "Add", "bn2/batch_norm x", "add"),
        ("relu/Relu_1", "Relu", "add", "relu/relu__1"),
        ("conv3/Conv", "Conv", "relu/relu__1 w3", "y"),
        constants=["w1", "w2", "w3", "s"],
    )
    run = run_of(
        ("ReorderInput", "com.microsoft.nchwc::ReorderInput", "x", "token_9"),
        ("relu/relu__nchwc", "com.microsoft.nchwc::Conv", "token_9 w1", "token_0"),
        ("bn2/batch_norm_nchwc", "com.microsoft.nchwc::Conv", "token_0 w2 token_9", "token_1"),
        ("y_nchwc", "com.microsoft.nchwc::Conv", "token_1 w3", "token_2"),
        ("ReorderOutput", "com.microsoft.nchwc::ReorderOutput", "token_2", "y"),
    )
    found = origins(graph, run)
    assert names(found) == {
        "ReorderInput": [],
        "relu/relu__nchwc": ["conv1/Conv", "bn1/BN", "relu/Relu"],
        "bn2/batch_norm_nchwc": ["conv2/Conv", "bn2/BN", "add/Add", "relu/Relu_1"],
        "y_nchwc": ["conv3/Conv"],
        "ReorderOutput": [],
    }
    assert near(found)["ReorderOutput"] == "conv3/Conv"


def test_a_product_and_a_sum_become_a_gemm_between_two_reshapes():
    graph = file_of(
        ("fc/MatMul", "MatMul", "x w", "m"),
        ("fc/Add", "Add", "m b", "fc"),
        ("r/Relu", "Relu", "fc", "r"),
        constants=["w", "b"],
    )
    run = run_of(
        ("gemm_input_reshape", "Reshape", "x shape", "in_arg"),
        ("fc/MatMul/MatMulAddFusion", "Gemm", "in_arg w b", "out_arg"),
        ("gemm_output_reshape", "Reshape", "out_arg shape2", "fc"),
        ("r/Relu", "Relu", "fc", "r"),
    )
    found = origins(graph, run)
    assert names(found)["fc/MatMul/MatMulAddFusion"] == ["fc/MatMul", "fc/Add"]
    assert names(found)["r/Relu"] == ["r/Relu"]
    assert near(found) == {"gemm_input_reshape": "fc/MatMul", "gemm_output_reshape": "fc/Add"}


def test_a_fusion_without_a_name_of_the_file():
    """SkipLayerNormalization: its output has the name that it has in the file."""
    graph = file_of(
        ("add/Add", "Add", "x y", "s"), ("norm/LN", "LayerNormalization", "s w b", "n"), constants=["w", "b"]
    )
    run = run_of(("SkipLayerNormalization", "com.microsoft::SkipLayerNormalization", "x y w b", "n"))
    assert names(origins(graph, run)) == {"SkipLayerNormalization": ["add/Add", "norm/LN"]}


def test_a_function_that_was_inlined():
    graph = file_of(("f", "my::F", "x", "y"))
    run = run_of(("_inlfunc_F_sin", "Sin", "x", "_inlfunc_t"), ("_inlfunc_F_cos", "Cos", "_inlfunc_t", "y"))
    assert names(origins(graph, run)) == {"_inlfunc_F_sin": ["f"], "_inlfunc_F_cos": ["f"]}


def test_casts_around_a_node_without_a_kernel_for_float16():
    graph = file_of(("r/Round", "CumSum", "x", "y"), ("z/Relu", "Relu", "y", "z"))
    run = run_of(
        ("InsertedPrecisionFreeCast_x", "Cast", "x", "cast_x"),
        ("r/Round", "CumSum", "cast_x", "cast_y"),
        ("InsertedPrecisionFreeCast_y", "Cast", "cast_y", "y"),
        ("z/Relu", "Relu", "y", "z"),
    )
    found = origins(graph, run)
    assert names(found)["r/Round"] == ["r/Round"]
    assert near(found) == {"InsertedPrecisionFreeCast_x": "r/Round", "InsertedPrecisionFreeCast_y": "r/Round"}


def test_copies_between_devices_count_for_what_reads_them():
    graph = file_of(("a/Det", "Det", "x", "a"), ("b/Relu", "Relu", "a", "b"))
    run = run_of(
        ("Memcpy", "MemcpyToHost", "x", "x_CPU"),
        ("a/Det", "Det", "x_CPU", "a_CPU"),
        ("Memcpy_token_1", "MemcpyFromHost", "a_CPU", "a"),
        ("b/Relu", "Relu", "a", "b"),
    )
    assert near(origins(graph, run)) == {"Memcpy": "a/Det", "Memcpy_token_1": "a/Det"}


def test_a_transpose_that_was_moved_counts_for_the_value_that_it_gives():
    graph = file_of(("t", "Transpose", "x", "p"), ("g", "Gather", "p i", "s"), constants=["i"])
    run = run_of(("g", "Gather", "x i", "moved"), ("Transpose_token_3", "Transpose", "moved", "s"))
    found = origins(graph, run)
    assert "g" in names(found)["g"] and near(found) == {"Transpose_token_3": "g"}


def test_what_is_computed_from_constants_belongs_to_nothing():
    graph = file_of(("c/Mul", "Mul", "w v", "k"), ("a/Add", "Add", "x k", "y"), constants=["w", "v"])
    assert names(origins(graph, run_of(("a/Add", "Add", "x k", "y")))) == {"a/Add": ["a/Add"]}


def test_the_nodes_of_a_body_know_their_holder():
    body = file_of(("mul", "Mul", "v w", "v2"))
    graph = file_of(("loop", "Loop", "n x", "y"), bodies={("loop", "body"): body})
    run = run_of(("loop", "Loop", "n x", "y"), bodies={("loop", "body"): run_of(("mul", "Mul", "v w", "v2"))})
    found = origins(graph, run)
    assert (found["mul"].holder, found["loop"].holder) == ("loop", "")
    assert names(found) == {"loop": ["loop"], "mul": ["mul"]}


@pytest.mark.slow
def test_a_hundred_thousand_nodes_take_seconds():
    rows = [(f"n{i}", "Relu", f"v{i}", f"v{i + 1}") for i in range(100_000)]
    found = origins(file_of(*rows), run_of(*rows))
    assert len(found) == 100_000 and all(len(each.of) == 1 for each in found.values())
