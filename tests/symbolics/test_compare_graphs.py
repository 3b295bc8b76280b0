"""The comparison notices every kind of difference, and nothing else."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from cases import CASES
from compare_graphs import describe, differences, operators
from exporting import export_with_torchscript

GRAPH = """(float[2, 3] x, float[2, 3] y, bool c) => (float[2, 3] z, float[2, 3] w) {
    two = Constant <value: tensor = float[1] {2.0}> ()
    a = Mul (x, two)
    p, q = custom.Pair <alpha: float = 0.5, names: strings = ["a", "b"], sizes: ints = [1, 2]> (a, y)
    z = Clip (p, , q)
    w = If (c) <then_branch = g1 () => (float[2, 3] t) { t = Add (a, two) },
                else_branch = g2 () => (float[2, 3] e) { e = Neg (y) }>
}"""


def _model(graph: str, imports: str = '"": 18, "custom": 1', functions: str = "") -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(f"<ir_version: 9, opset_import: [{imports}]> g {graph} {functions}"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Mul (x", "Add (x"),
        ("custom.Pair", "other.Pair"),
        ("{2.0}", "{2.5}"),
        ("tensor = float[1] {2.0}", "tensor = float {2.0}"),
        ("tensor = float[1] {2.0}", "tensor = double[1] {2.0}"),
        ("alpha: float = 0.5", "alpha: float = 0.75"),
        ("alpha: float = 0.5", "beta: float = 0.5"),
        ("alpha: float = 0.5, ", ""),
        ("alpha: float = 0.5", "alpha: int = 0"),
        ('["a", "b"]', '["a"]'),
        ("sizes: ints = [1, 2]", "sizes: ints = [2, 1]"),
        ("sizes: ints = [1, 2]", "sizes: floats = [1.0, 2.0]"),
        ("(a, y)", "(y, a)"),
        ("(a, y)", "(a, x)"),
        ("Mul (x, two)", "Mul (two, x)"),
        ("p, q = ", "p, q, r = "),
        ("(p, , q)", "(q, , p)"),
        ("(p, , q)", "(p, q)"),
        ("t = Add (a, two)", "t = Add (a, a)"),
        ("t = Add (a, two)", "t = Sub (a, two)"),
        ("e = Neg (y)", "f = Neg (y) e = Neg (f)"),
        ("(float[2, 3] z, float[2, 3] w)", "(float[2, 3] w, float[2, 3] z)"),
        ("(float[2, 3] z, ", "(float[2, 4] z, "),
        ("(float[2, 3] z, ", "(double[2, 3] z, "),
        ("(float[2, 3] x, float[2, 3] y", "(float[2, 3] y, float[2, 3] x"),
        ("a = Mul", "unused = Abs (x) a = Mul"),
        ("z = Clip (p, , q)", "i = Identity (p) z = Clip (i, , q)"),
    ],
)
def test_a_difference_is_noticed(old, new):
    assert GRAPH.count(old) == 1
    imports = '"": 18, "custom": 1, "other": 1'
    changed = _model(GRAPH.replace(old, new), imports)
    assert differences(_model(GRAPH, imports), _model(GRAPH)) == ""
    assert differences(changed, _model(GRAPH)) != ""


@pytest.mark.parametrize("imports", ['"": 19, "custom": 1', '"": 18, "custom": 2'])
def test_another_version_of_a_domain_is_noticed(imports):
    assert differences(_model(GRAPH, imports), _model(GRAPH)) != ""


CALL = "(float[2] x) => (float[2] y) { y = own.F <a = 1.0> (x) }"
BODY = """<domain: "own", opset_import: ["": 18]>
F <a> (x) => (y) { k = Constant <value_float: float = @a> () y = Mul (x, k) }"""


@pytest.mark.parametrize(
    ("old", "new"), [("y = Mul", "y = Add"), ("(x, k)", "(k, x)"), ('"": 18', '"": 19'), ("F <a> (x)", "F <a> (x, z)")]
)
def test_another_body_of_a_function_is_noticed(old, new):
    imports = '"": 18, "own": 1'
    assert differences(_model(CALL, imports, BODY), _model(CALL, imports, BODY)) == ""
    assert differences(_model(CALL, imports, BODY.replace(old, new)), _model(CALL, imports, BODY)) != ""
    assert differences(_model(CALL, imports), _model(CALL, imports, BODY)) != ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("two", "deux"),
        ("(p, , q)", "(p, , q, )"),
        ("<value: tensor = float[1] {2.0}>", "<value_floats: floats = [2.0]>"),
        ("a = Mul (x, two)", "again = Constant <value: tensor = float[1] {2.0}> () a = Mul (x, again)"),
        ("float[2, 3] y, bool c)", "float[2, 3] y, bool c, int64[7] more)"),
    ],
)
def test_what_says_nothing_about_the_nodes_is_forgiven(old, new):
    assert differences(_model(GRAPH.replace(old, new)), _model(GRAPH)) == ""


def test_sizes_of_outputs_that_only_opbridge_knows_are_forgiven():
    graph = "(float[2, 3] x) => (float[2, 3] y) { y = Abs (x) }"
    open_sizes = _model(graph.replace("float[2, 3] y", "float[n, m] y"))
    assert differences(_model(graph), open_sizes) == ""
    assert differences(open_sizes, _model(graph)) != ""
    assert differences(_model(graph.replace("float[2, 3] y", "double[2, 3] y")), open_sizes) != ""
    assert differences(_model(graph.replace("float[2, 3] y", "float[2, 3, 1] y")), open_sizes) != ""


def test_the_order_in_the_file_is_forgiven():
    ordered = "(float[2] x) => (float[2] y) { a = Abs (x) b = Neg (x) y = Add (a, b) }"
    exchanged = "(float[2] x) => (float[2] y) { b = Neg (x) a = Abs (x) y = Add (a, b) }"
    assert differences(_model(exchanged), _model(ordered)) == ""


def test_initializers_are_constants():
    stored = "(float[2] x) => (float[2] y) <float[2] k = {1.0, 2.0}> { y = Add (x, k) }"
    built = "(float[2] x) => (float[2] y) { k = Constant <value: tensor = float[2] {1.0, 2.0}> () y = Add (x, k) }"
    assert differences(_model(stored), _model(built)) == ""
    assert differences(_model(stored.replace("2.0}", "3.0}")), _model(built)) != ""


def test_long_constants_are_compared_whole():
    numbers = [str(float(i)) for i in range(100)]
    graph = "(float[100] x) => (float[100] y) <float[100] k = {%s}> { y = Add (x, k) }"
    other = [*numbers[:-1], "0.0"]
    assert differences(_model(graph % ", ".join(numbers)), _model(graph % ", ".join(numbers))) == ""
    assert differences(_model(graph % ", ".join(other)), _model(graph % ", ".join(numbers))) != ""


def test_the_operators_are_listed_in_canonical_order():
    assert operators(_model(GRAPH)) == "Mul custom::Pair Clip If Neg Add"
    assert describe(_model(GRAPH))[:2] == ["import onnx 18", "import custom 1"]


@pytest.mark.parametrize("name", ["attribute_tensors", "loop_with_scan_output", "onnxscript_function", "InModules"])
def test_a_model_is_the_same_as_itself_after_a_round_trip(name):
    (opset,) = CASES[name].nodes
    first, second = (export_with_torchscript(CASES[name], opset) for _ in range(2))
    assert describe(first) == describe(ir.from_proto(ir.to_proto(second)))
