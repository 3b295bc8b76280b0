"""Tests of opbridge.bisect between files."""

import math
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import opbridge
from opbridge.errors import ModelFileError, UsageError

_ROTATION = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0].astype(np.float32)
_RNG = np.random.default_rng(0)
_WEIGHT = _RNG.standard_normal((8, 8)).astype(np.float32)


def _model(nodes, *, outputs=("y",), initializers=(), opset=21, functions=(), inputs=("x",), imports=()):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8]) for name in inputs]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", value, results, list(initializers))
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(each, 1) for each in imports)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))


def _node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], name=f"{op}_{output}", **attributes)


def _chain(count, wrong=None, prefix="v"):
    """Rotations and negations, through which a difference stays as large as it is."""
    names = ["x", *(f"{prefix}{number}" for number in range(count - 1)), "y"]
    operators = ["Cos" if at == wrong else "Neg" if at % 2 else "MatMul" for at in range(count)]
    nodes = [
        _node(operator, f"{names[at]} w" if operator == "MatMul" else names[at], names[at + 1])
        for at, operator in enumerate(operators)
    ]
    return _model(nodes, initializers=[numpy_helper.from_array(_ROTATION, "w")])


def _bytes(model):
    return model.SerializeToString()


def _bisect(first, second=None, **options):
    second = _bytes(second) if isinstance(second, onnx.ModelProto) else second
    return opbridge.bisect(_bytes(first), second, isolated=False, **options)


@pytest.mark.parametrize("wrong", [1, 101, 199])
def test_the_wrong_operator_of_a_chain_is_named(wrong):
    found = _bisect(_chain(200), _chain(200, wrong))
    assert not found.ok and found.culprit.first.operator == "Cos"
    assert found.culprit.first.node == _chain(200, wrong).graph.node[wrong].name
    assert found.culprit.alone and found.culprit.inputs_agree
    assert found.runs <= 2 * math.log2(200) + 4
    assert "Cos" in str(found) and "alone differs as well" in str(found)


def test_files_that_agree_have_no_culprit():
    found = _bisect(_chain(12), _chain(12))
    assert found.ok and found.culprit is None and "no operator differs" in str(found)
    assert found.to_json()["culprit"] is None


def test_a_difference_that_one_branch_cancels_is_found():
    def made(operator):
        nodes = [
            _node(operator, "x", "a"),
            _node("Mul", "a zero", "b"),
            _node("Sin", "b", "c"),
            _node("Tanh", "a", "d"),
        ]
        return _model([*nodes, _node("Add", "c d", "y")], initializers=[numpy_helper.from_array(np.float32(0), "zero")])

    found = _bisect(made("Sin"), made("Cos"))
    assert found.culprit.first.node == "Cos_a" and found.culprit.value == "a"


def test_a_constant_that_differs_is_found_by_the_operator_that_reads_it():
    other = _chain(40)
    changed = _ROTATION.copy()
    changed[0, 0] += 5
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(changed, "w"))
    assert _bisect(_chain(40), other).culprit.first.node == "MatMul_v0"


def _with_if(operator):
    def branch(name, *nodes):
        return helper.make_graph(
            list(nodes), name, [], [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)]
        )

    yes = branch("yes", _node("Sin", "a", "p"), _node(operator, "p", "q"), _node("Tanh", "q", "yes_y"))
    no = branch("no", _node("Tanh", "a", "no_y"))
    nodes = [
        _node("Sin", "x", "a"),
        _node("ReduceMax", "x", "m", keepdims=0),
        _node("Greater", "m low", "c"),
        helper.make_node("If", ["c"], ["b"], name="choose", then_branch=yes, else_branch=no),
        _node("Exp", "b", "y"),
    ]
    return _model(nodes, initializers=[numpy_helper.from_array(np.float32(-100), "low")])


def test_the_search_goes_into_the_branch_that_is_taken():
    found = _bisect(_with_if("Cos"), _with_if("Sigmoid"))
    assert found.culprit.first.node == "Sigmoid_q"
    assert found.culprit.within == ("If 'choose', then_branch",)


def _with_function(operator):
    body = [_node("Sin", "i", "p"), _node(operator, "p", "q"), _node("Tanh", "q", "o")]
    function = helper.make_function("my", "Block", ["i"], ["o"], body, [helper.make_opsetid("", 21)])
    nodes = [
        _node("Sin", "x", "a"),
        helper.make_node("Block", ["a"], ["b"], name="call", domain="my"),
        _node("Exp", "b", "y"),
    ]
    return _model(nodes, functions=[function], imports=["my"])


def test_the_search_goes_into_a_function():
    found = _bisect(_with_function("Cos"), _with_function("Sigmoid"))
    assert found.culprit.first.operator == "Sigmoid" and found.culprit.within == ("function my::Block 'call'",)


def test_a_node_of_a_function_without_a_name_is_called_by_the_value_that_it_gives_there():
    models = [_with_function("Cos"), _with_function("Sigmoid")]
    for model in models:
        for node in model.functions[0].node:
            node.ClearField("name")
    assert _bisect(*models).culprit.first.node == "q"


def _float(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _with_loop(operator, count=9, wrong=5):
    """A loop that applies an operator in one of its iterations, to a value that is carried and one from outside."""
    nodes = [
        _node("Identity", "go", "goes"),
        _node("Add", "state outside", "sum"),
        _node(operator, "sum", "other"),
        _node("Neg", "sum", "same"),
        _node("Equal", "turn wrong", "is_wrong"),
        _node("Where", "is_wrong other same", "next"),
        _node("ReduceMax", "next", "largest", keepdims=0),
    ]
    scalars = [("turn", TensorProto.INT64), ("go", TensorProto.BOOL)]
    body = helper.make_graph(
        nodes,
        "body",
        [*(helper.make_tensor_value_info(name, dtype, []) for name, dtype in scalars), _float("state")],
        [helper.make_tensor_value_info("goes", TensorProto.BOOL, []), _float("next"), _float("largest")],
    )
    outer = [
        _node("Sin", "x", "a"),
        _node("Cos", "x", "outside"),
        helper.make_node("Loop", ["count", "yes", "a"], ["b", "maxima"], name="turns", body=body),
        _node("Exp", "b", "y"),
    ]
    constants = {"count": np.int64(count), "wrong": np.int64(wrong), "yes": np.bool_(True)}
    return _model(outer, initializers=[numpy_helper.from_array(value, name) for name, value in constants.items()])


@pytest.mark.parametrize(("count", "wrong"), [(1, 0), (9, 0), (9, 5), (9, 8), (300, 211)])
def test_the_search_goes_into_the_first_iteration_of_a_loop_that_differs(count, wrong):
    found = _bisect(_with_loop("Cos", count, wrong), _with_loop("Sigmoid", count, wrong))
    assert found.culprit.first.node == "Sigmoid_other" and found.culprit.alone and found.culprit.inputs_agree
    assert found.culprit.within == (f"Loop 'turns', iteration {wrong}",)
    assert found.runs <= 4 * math.log2(count) + 20


def _if_of_a_constant(operator):
    model = _with_if(operator)
    kept = [node for node in model.graph.node if node.op_type not in ("ReduceMax", "Greater")]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.graph.initializer.append(numpy_helper.from_array(np.bool_(True), "c"))
    return model


@pytest.mark.parametrize(
    ("make", "node", "within"),
    [
        (_if_of_a_constant, "Sigmoid_q", "If 'choose', then_branch"),
        (_with_loop, "Sigmoid_other", "Loop 'turns', iteration 5"),
    ],
    ids=["condition", "trip count"],
)
def test_what_decides_is_read_from_beside_the_file(tmp_path, make, node, within):
    paths = [tmp_path / f"{operator}.onnx" for operator in ("Cos", "Sigmoid")]
    for path in paths:
        onnx.save(make(path.stem), path, save_as_external_data=True, location=path.stem, size_threshold=0)
    found = opbridge.bisect(paths[0], paths[1], isolated=False)
    assert found.culprit.first.node == node and found.culprit.within == (within,)


def test_a_loop_that_differs_in_how_often_it_runs_is_named():
    found = _bisect(_with_loop("Cos", 9), _with_loop("Cos", 8))
    assert found.culprit.first.operator == "Loop" and found.culprit.within == ()


def _ending_loop(operator):
    """A loop without a trip count, which ends where a value is large."""
    body = helper.make_graph(
        [
            _node("Add", "state outside", "sum"),
            _node(operator, "sum", "other"),
            _node("Add", "other sum", "next"),
            _node("ReduceMax", "next", "largest", keepdims=0),
            _node("Less", "largest limit", "goes"),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            _float("state"),
        ],
        [helper.make_tensor_value_info("goes", TensorProto.BOOL, []), _float("next")],
    )
    outer = [
        _node("Abs", "x", "outside"),
        helper.make_node("Loop", ["", "yes", "outside"], ["b"], name="turns", body=body),
        _node("Log", "b", "y"),
    ]
    constants = {"limit": np.float32(50), "yes": np.bool_(True)}
    return _model(outer, initializers=[numpy_helper.from_array(value, name) for name, value in constants.items()])


def test_the_search_goes_into_a_loop_that_ends_by_its_condition():
    found = _bisect(_ending_loop("Sigmoid"), _ending_loop("Tanh"))
    assert found.culprit.first.node == "Tanh_other" and found.culprit.within == ("Loop 'turns', iteration 0",)


def _with_scan(operator, is_backward, axis):
    body = helper.make_graph(
        [
            _node("Add", "state element", "sum"),
            _node(operator, "sum", "other"),
            _node("ReduceMax", "element", "largest", keepdims=0),
            _node("Greater", "largest limit", "is_large"),
            _node("Where", "is_large other sum", "next"),
            _node("Neg", "next", "out"),
        ],
        "body",
        [_float("state"), _float("element")],
        [_float("next"), _float("out")],
    )
    node = helper.make_node(
        "Scan", ["start", "turned"], ["last", "rows"], name="rows", body=body, num_scan_inputs=1,
        scan_input_axes=[axis], scan_input_directions=[int(is_backward)], scan_output_axes=[axis],
    )  # fmt: skip
    turned = _node("Transpose", "x", "turned", perm=[1, 0]) if axis else _node("Identity", "x", "turned")
    outer = [turned, node, _node("Add", "last zero", "y")]
    constants = {"start": np.zeros(8, np.float32), "limit": np.float32(5), "zero": np.zeros((1, 8), np.float32)}
    return _model(outer, initializers=[numpy_helper.from_array(value, name) for name, value in constants.items()])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("is_backward", [False, True])
def test_the_search_goes_into_the_first_iteration_of_a_scan_that_differs(is_backward, axis):
    x = np.random.default_rng(0).standard_normal((7, 8)).astype(np.float32)
    x[4, 3] = 9
    found = _bisect(_with_scan("Cos", is_backward, axis), _with_scan("Sigmoid", is_backward, axis), inputs={"x": x})
    assert found.culprit.first.node == "Sigmoid_other" and found.culprit.alone
    assert found.culprit.within == (f"Scan 'rows', iteration {2 if is_backward else 4}",)


def test_files_with_other_names_are_matched_by_operators():
    found = _bisect(_chain(60), _chain(60, 33, prefix="t"))
    assert found.culprit.first.node == "Cos_t33" and found.culprit.value == "v33"


def test_files_with_other_operators_are_matched_by_what_values_hold():
    def made(composed, wrong):
        nodes, last = [], "x"
        for number in range(6):
            name = f"{'c' if composed else 's'}{number}"
            if composed:
                nodes += [
                    _node("Neg", last, f"{name}n"),
                    _node("Exp", f"{name}n", f"{name}e"),
                    _node("Add", f"{name}e one", f"{name}a"),
                    _node("Reciprocal", f"{name}a", name),
                ]
            else:
                nodes.append(_node("Sigmoid", last, name))
            nodes.append(_node("Cos" if wrong == number else "Sin", name, f"{name}z"))
            nodes.append(_node("MatMul", f"{name}z w", f"{name}m"))
            last = f"{name}m"
        nodes.append(_node("Identity", last, "y"))
        return _model(
            nodes,
            initializers=[numpy_helper.from_array(_WEIGHT, "w"), numpy_helper.from_array(np.float32(1), "one")],
        )

    found = _bisect(made(False, None), made(True, 3))
    assert found.culprit.first.node == "Cos_c3z" and found.culprit.alone
    assert any("matched by what they hold" in note for note in found.notes)


def test_an_operator_that_only_amplifies_a_difference_is_told_apart():
    def made(offset):
        constants = [
            numpy_helper.from_array(np.float32(offset), "offset"),
            numpy_helper.from_array(np.float32(1e5), "large"),
        ]
        nodes = [_node("Add", "x offset", "a"), _node("Mul", "a large", "b"), _node("Sin", "b", "y")]
        return _model(nodes, initializers=constants)

    found = _bisect(made(0.0), made(1e-5))
    assert found.culprit.first.node == "Sin_y" and found.culprit.alone is False
    assert "amplifies" in found.culprit.verdict()


def test_random_outputs_are_not_compared():
    nodes = [_node("Sin", "x", "a"), _node("RandomNormalLike", "a", "r"), _node("Add", "a r", "y")]
    found = _bisect(_model(nodes), _model(nodes))
    assert found.ok and any("depends on random numbers" in note for note in found.notes)


def test_files_with_other_outputs_cannot_be_compared():
    found = _bisect(_chain(4), _model([_node("Sin", "x", "a"), _node("Cos", "x", "y")], outputs=("a", "y")))
    assert not found.ok and "has 1 output (y)" in found.reason and found.culprit is None


def test_one_file_needs_another_runtime_or_level():
    with pytest.raises(UsageError, match="nothing to be compared with"):
        _bisect(_chain(4))
    assert _bisect(_chain(8), optimization="all").ok
    assert _bisect(_chain(8), against="reference").ok


def test_unknown_levels_are_refused():
    with pytest.raises(UsageError, match="optimization='fast' is invalid"):
        _bisect(_chain(4), optimization="fast")
    with pytest.raises(UsageError, match="valid only for onnxruntime"):
        _bisect(_chain(4), _chain(4), runtime="reference", optimization="all")


def _cyclic():
    return _model([_node("Add", "x b", "a"), _node("Sin", "a", "b"), _node("Cos", "b", "y")])


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (_cyclic(), "cycle"),
        (_model([_node("Add", "x nothing", "y")]), "'nothing', which no node gives"),
        (_model([_node("Sin", "x", "y"), _node("Cos", "x", "y")]), "two values have the name 'y'"),
    ],
)
def test_graphs_that_are_not_valid_are_refused(model, said):
    with pytest.raises(ModelFileError, match=said):
        _bisect(_chain(4), model)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "a.onnx"
    path.write_bytes(_bytes(_chain(4))[:-40])
    with pytest.raises(ModelFileError):
        opbridge.bisect(path, path, isolated=False)
    with pytest.raises(ModelFileError, match="does not exist"):
        opbridge.bisect(tmp_path / "none.onnx", path, isolated=False)


def test_missing_external_data_are_named(tmp_path):
    model = _chain(8)
    onnx.save_model(model, tmp_path / "a.onnx", save_as_external_data=True, location="a.data", size_threshold=0)
    assert opbridge.bisect(tmp_path / "a.onnx", _bytes(_chain(8)), isolated=False).ok
    (tmp_path / "a.data").unlink()
    with pytest.raises(ModelFileError, match="a.data, which does not exist"):
        opbridge.bisect(tmp_path / "a.onnx", _bytes(_chain(8)), isolated=False)


def test_functions_that_call_themselves_are_refused():
    body = [helper.make_node("Block", ["i"], ["o"], domain="my")]
    function = helper.make_function("my", "Block", ["i"], ["o"], body, [helper.make_opsetid("my", 1)])
    model = _model([helper.make_node("Block", ["x"], ["y"], domain="my")], functions=[function], imports=["my"])
    with pytest.raises(ModelFileError, match="calls itself"):
        _bisect(model, model)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [(_chain(20), _chain(20, 9)), (_with_if("Cos"), _with_if("Sigmoid"))])
def test_the_reproducer_shows_the_difference(pair, tmp_path):
    found = _bisect(*pair, reproduce=tmp_path / "case")
    assert {each.name for each in found.files} == {"expected.onnx", "actual.onnx", "inputs.npz", "reproduce.py"}
    script = (tmp_path / "case" / "reproduce.py").read_text()
    assert "opbridge" not in script and len(script.splitlines()) < 25
    done = subprocess.run([sys.executable, "reproduce.py"], cwd=tmp_path / "case", capture_output=True, text=True)
    assert done.returncode == 1 and "largest difference" in done.stdout and "Mismatched elements" in done.stderr


@pytest.mark.slow
def test_files_run_in_processes_of_their_own():
    found = opbridge.bisect(_bytes(_chain(20)), _bytes(_chain(20, 9)))
    assert found.culprit.first.node == "Cos_v9"
