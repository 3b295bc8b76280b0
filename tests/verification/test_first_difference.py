from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
from helpers.handmade import onnx_model

from opbridge.capture import Capture, capture
from opbridge.verification import intermediate
from opbridge.verification.difference import Search
from opbridge.verification.first_difference import first_difference


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def search(graph: str, taken: Capture, nodes: dict[str, str], **options: Any) -> Search:
    return first_difference(onnx_model(graph, taken, nodes), taken, taken.args, taken.kwargs, **options)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = torch.nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(x) * 3
        return y.sum(-1)


NET = {"a": "gelu", "m": "mul", "y": "sum_1"}
NET_GRAPH = """(float[4, 6] x) => (float[4] y) <float three = {{3}}, int64[1] last = {{-1}}> {{
    a = {0}(x)
    m = {1}(a, three)
    y = {2}<keepdims = 0>(m, last)
}}"""


@pytest.fixture(scope="module")
def net() -> Capture:
    return capture(Net(), (rows(4, 6),))


def test_nothing_is_named_where_nothing_differs(net: Capture) -> None:
    found = search(NET_GRAPH.format("Gelu", "Mul", "ReduceSum"), net, NET)
    assert found.compared == 3 and "given the same inputs" in found.reason
    assert found.difference is None or not found.difference.is_beyond


@pytest.mark.parametrize(
    ("operators", "node"),
    [
        (("Relu", "Mul", "ReduceSum"), "gelu"),
        (("Gelu", "Add", "ReduceSum"), "mul"),
        (("Gelu", "Mul", "ReduceMax"), "sum_1"),
        (("Gelu", "Add", "ReduceMax"), "mul"),
        (("Relu", "Add", "ReduceMax"), "gelu"),
    ],
)
def test_the_first_wrong_operator_is_named_and_not_what_follows(
    net: Capture, operators: tuple[str, ...], node: str
) -> None:
    difference = search(NET_GRAPH.format(*operators), net, NET).difference
    assert difference is not None and difference.is_beyond
    assert difference.node == node and not difference.comparison.ok


def test_it_is_named_with_its_line_its_module_and_its_inputs(net: Capture) -> None:
    difference = search(NET_GRAPH.format("Relu", "Mul", "ReduceSum"), net, NET).difference
    assert difference is not None
    first_line = inspect.getsourcelines(Net.forward)[1]
    # torch.nn.GELU's own forward lies in torch: the model's line is the one that calls it.
    assert difference.source is not None and difference.source.endswith(f"test_first_difference.py:{first_line + 1}")
    assert difference.code == "y = self.act(x) * 3"
    assert difference.operator == "aten::gelu" and difference.module == "act"
    assert difference.inputs == ("float32 [4, 6]",) and difference.onnx_node == "ONNX Relu 'node_a'"
    assert difference.comparison.shape == (4, 6)
    for part in ("aten::gelu", "test_first_difference.py:", "module act", "Relu", "same inputs"):
        assert part in str(difference)


def test_a_wrong_shape_is_a_difference(net: Capture) -> None:
    graph = "(float[4, 6] x) => (float[4, 1] y) <float three = {3}, int64[1] last = {-1}>"
    graph += "{ a = Gelu(x) m = Mul(a, three) y = ReduceSum(m, last) }"
    difference = search(graph, net, NET).difference
    assert difference is not None and difference.node == "sum_1"
    assert difference.comparison.actual_shape == (4, 1) and difference.comparison.reason


def test_an_operator_is_not_blamed_for_magnifying_what_it_was_given() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.exp((x * 0.5) * 1000)

    taken = capture(model, (torch.rand(5, generator=torch.Generator().manual_seed(0)) * 0.1,))
    graph = """(float[5] x) => (float[5] y) <float h = {0.50005}, float k = {1000}>
        { a = Mul(x, h) b = Mul(a, k) y = Exp(b) }"""
    found = search(graph, taken, {"a": "mul", "b": "mul_1", "y": "exp"})
    assert found.difference is not None and not found.difference.is_beyond
    assert (found.difference.node, found.difference.operator) == ("mul", "aten::mul.Tensor")
    assert found.compared == 3


def _named_with(wrong: str, model: Callable[[torch.Tensor], torch.Tensor]) -> str | None:
    """The node that is named where a file of `model` has another operator in the place of Relu."""
    taken = capture(model, (rows(3, 4),))
    graph = f"""(float[3, 4] x) => (float[3, 4] y) <float one = {{1}}, float two = {{2}}>
        {{ a = Add(x, one) r = {wrong}(a) y = Mul(r, two) }}"""
    difference = search(graph, taken, {"a": "add", "r": "relu_", "y": "mul"}).difference
    return difference.node if difference is not None and difference.is_beyond else None


@pytest.mark.parametrize(("wrong", "expected"), [("Abs", "relu_"), ("Relu", None)])
def test_an_operator_in_place_is_its_new_value(wrong: str, expected: str | None) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.relu_()
        return y * 2

    assert _named_with(wrong, model) == expected


@pytest.mark.parametrize(("wrong", "expected"), [("Abs", "relu_"), ("Relu", None)])
def test_what_was_read_before_a_write_means_the_new_value_after_it(wrong: str, expected: str | None) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        same = y.view(3, 4)
        y.relu_()
        return same * 2

    assert _named_with(wrong, model) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "expected"), [("Sub", "add"), ("Add", None)])
def test_a_write_through_a_view_is_compared_in_its_functional_form(wrong: str, expected: str | None) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[:, :2].add_(1)
        return y.cos()

    taken = capture(model, (rows(3, 4),))
    graph = f"""(float[3, 4] x) => (float[3, 4] y)
        <float two = {{2}}, float one = {{1}}, int64[1] c0 = {{0}}, int64[1] c2 = {{2}}, int64[1] c4 = {{4}}> {{
        m = Mul(x, two)
        s = Slice(m, c0, c2, one_axis)
        t = {wrong}(s, one)
        rest = Slice(m, c2, c4, one_axis)
        w = Concat<axis = 1>(t, rest)
        y = Cos(w)
    }}""".replace("int64[1] c0", "int64[1] one_axis = {1}, int64[1] c0")
    nodes = {"m": "mul", "y": "cos"}
    for node in taken.functional.graph.graph.nodes:
        kind = str(node.target)
        if kind.startswith("aten.add"):
            nodes["t"] = node.name
        elif kind.startswith("aten.slice_scatter"):
            nodes["w"] = node.name
    assert len(nodes) == 4
    difference = search(graph, taken, nodes).difference
    assert (difference.operator if difference is not None and difference.is_beyond else None) == (
        expected and "aten::add.Tensor"
    )


@pytest.mark.parametrize("wrong", [0, 1])
def test_one_output_of_several_is_named_by_its_number(wrong: int) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = torch.sort(x)
        return values + 1, indices

    taken = capture(model, (rows(2, 5),))
    texts = ["v, i = TopK<largest = 0>(x, k)", "v, i = TopK<largest = 0>(x, k)"]
    if wrong == 0:
        texts[0] = "v0, i = TopK<largest = 0>(x, k) v = Neg(v0)"
    else:
        texts[0] = "v, i0 = TopK<largest = 0>(x, k) i = Neg(i0)"
    graph = f"""(float[2, 5] x) => (float[2, 5] y, int64[2, 5] i) <int64[1] k = {{5}}, float one = {{1}}>
        {{ {texts[0]} y = Add(v, one) }}"""
    difference = search(graph, taken, {"v": "sort:0", "i": "sort:1", "y": "add"}).difference
    assert difference is not None and difference.node == f"sort:{wrong}" and difference.operator == "aten::sort"


@pytest.mark.parametrize(("stable", "expected"), [(False, None), (True, "aten::sort.stable")])
def test_the_order_of_equal_elements_is_a_difference_of_a_stable_sort_alone(stable: bool, expected: str | None) -> None:
    ids = torch.tensor([2.0, 0.0, 2.0, 0.0, 1.0])

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, positions = torch.sort(x, stable=stable)
        return values, positions + 1

    taken = capture(model, (ids,))
    # From the end: positions [3, 1, 4, 2, 0] where PyTorch gives [1, 3, 4, 0, 2].
    graph = """(float[5] x) => (float[5] v, int64[5] y)
        <int64[1] k = {5}, int64 one = {1}, int64[1] first = {-1}, int64[1] last = {-6}, int64[1] axis = {0},
         int64 four = {4}> {
            back = Slice(x, first, last, axis, first)
            v, at = TopK<largest = 0>(back, k)
            i = Sub(four, at)
            y = Add(i, one) }"""
    (sort,) = (node.name for node in taken.functional.graph.graph.nodes if "sort" in node.name)
    difference = search(graph, taken, {"v": f"{sort}:0", "i": f"{sort}:1", "y": "add"}).difference
    assert (difference.operator if difference is not None and difference.is_beyond else None) == expected
    # Positions that pick other elements are wrong in any case.
    difference = search(graph.replace("four, at", "at, four"), taken, {"v": f"{sort}:0", "i": f"{sort}:1"}).difference
    assert difference is not None and difference.node == f"{sort}:1"


def test_random_operators_hand_on_the_numbers_of_the_runtime() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5, training=True) + 1

    taken = capture(model, (torch.ones(6, 50),))
    graph = """(float[6, 50] x) => (float[6, 50] y) <float half = {{0.5}}, float one = {{1}}, bool on = {{1}}>
        {{ d = Dropout(x, half, on) y = {0}(d, one) }}"""
    right = search(graph.format("Add"), taken, {"d": "dropout", "y": "add"})
    assert right.difference is None and right.compared == 2
    wrong = search(graph.format("Sub"), taken, {"d": "dropout", "y": "add"}).difference
    assert wrong is not None and wrong.operator == "aten::add.Tensor"
    # A random operator whose numbers the file does not have tells nothing of what comes after it.
    assert search(graph.format("Sub"), taken, {"y": "add"}).difference is None


def test_dropout_outside_training_is_not_random() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5, training=False) + 1

    taken = capture(model, (rows(2, 3),))
    graph = "(float[2, 3] x) => (float[2, 3] y) <float one = {1}> { d = Neg(x) y = Add(d, one) }"
    difference = search(graph, taken, {"d": "dropout", "y": "add"}).difference
    assert difference is not None and difference.node == "dropout"


@pytest.mark.parametrize(("imaginary", "expected"), [("y", None), ("x", "complex_1")])
def test_complex_values_are_pairs(imaginary: str, expected: str | None) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.complex(x, y)) * 2

    taken = capture(model, (rows(3), rows(2, 3)[1]))
    graph = f"""(float[3] x, float[3] y) => (float[3, 2] z) <int64[1] last = {{-1}}, float two = {{2}}> {{
        a = Unsqueeze(x, last) b = Unsqueeze({imaginary}, last)
        c = Concat<axis = -1>(a, b) z = Mul(c, two)
    }}"""
    difference = search(graph, taken, {"c": "complex_1", "z": "mul"}).difference
    assert (difference.node if difference is not None and difference.is_beyond else None) == expected


def test_operators_without_a_value_in_the_file_are_told(net: Capture) -> None:
    nodes = {"a": "gelu", "y": "sum_1"}
    difference = search(NET_GRAPH.format("Gelu", "Sub", "ReduceSum"), net, nodes).difference
    assert difference is not None and difference.node == "sum_1"
    assert difference.unchecked == ("aten::mul.Tensor",) and "aten::mul.Tensor" in str(difference)


def test_only_what_a_wrong_output_depends_on_is_blamed() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin(), x.cos()

    taken = capture(model, (rows(4),))
    graph = "(float[4] x) => (float[4] s, float[4] c) { s = Relu(x) c = Abs(x) }"
    nodes = {"s": "sin", "c": "cos"}
    x = taken.args[0]
    assert search(graph, taken, nodes).difference.node == "sin"  # type: ignore[union-attr]
    assert search(graph, taken, nodes, outputs={1: x.cos()}).difference.node == "cos"  # type: ignore[union-attr]


def test_symbolic_sizes_are_numbers() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum() / x.shape[0]

    taken = capture(model, (rows(4, 3),), dynamic_shapes={"x": {0: "batch"}})
    names = [node.name for node in taken.graph.graph.nodes if node.op == "call_function"]
    size = next(name for name in names if name.startswith("sym_size"))
    divided = next(name for name in names if name.startswith(("div", "truediv")))
    graph = """(float[batch, 3] x) => (float y) <int64 at = {{{0}}}> {{
        shape = Shape(x) n = Gather(shape, at) f = Cast<to = 1>(n) s = ReduceSum<keepdims = 0>(x) y = Div(s, f) }}"""
    nodes = {"n": size, "s": "sum_1", "y": divided}
    right = search(graph.format(0), taken, nodes)
    assert right.compared == 3 and (right.difference is None or not right.difference.is_beyond)
    wrong = search(graph.format(1), taken, nodes).difference
    assert wrong is not None and wrong.node == size and (wrong.comparison.expected, wrong.comparison.actual) == (4, 3)


def test_large_values_are_fetched_in_stretches(net: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[list[str]] = []
    compute = intermediate.RuntimeValues.compute

    def spied(self: Any, names: list[str]) -> list[torch.Tensor]:
        fetched.append(list(names))
        return compute(self, names)

    monkeypatch.setattr(intermediate.RuntimeValues, "compute", spied)
    graph = NET_GRAPH.format("Gelu", "Mul", "ReduceMax")
    assert search(graph, net, NET).difference.node == "sum_1"  # type: ignore[union-attr]
    monkeypatch.setattr(intermediate, "_LARGEST_FETCH", 150)
    assert search(graph, net, NET).difference.node == "sum_1"  # type: ignore[union-attr]
    monkeypatch.setattr(intermediate, "_LARGEST_FETCH", 40)
    assert search(NET_GRAPH.format("Gelu", "Add", "ReduceMax"), net, NET).difference.node == "mul"  # type: ignore[union-attr]
    assert fetched == [["a", "m", "y"], ["a"], ["m", "y"], ["a"], ["m"]]


def test_a_model_too_large_for_one_file_goes_through_a_folder(net: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from opbridge.errors import SaveError
    from opbridge.onnx import serialize

    def refuse(model: Any) -> bytes:
        raise SaveError("too large")

    monkeypatch.setattr(serialize, "to_bytes", refuse)
    found = search(NET_GRAPH.format("Gelu", "Add", "ReduceSum"), net, NET)
    assert found.difference is not None and found.difference.node == "mul"


def test_the_optimiser_is_blamed_where_the_outputs_agree_without_it(net: Capture) -> None:
    x = net.args[0]
    found = search(NET_GRAPH.format("Gelu", "Mul", "ReduceSum"), net, NET, outputs={0: Net()(x)})
    assert found.difference is None and "optimizations disabled" in found.reason


def test_values_are_fetched_with_the_optimiser_off(net: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[Any] = []
    open_session = intermediate.open_session

    def spied(model: Any, isolated: Any, **more: Any) -> Any:
        session = open_session(model, isolated, **more)
        levels.append(session.get_session_options().graph_optimization_level)
        return session

    monkeypatch.setattr(intermediate, "open_session", spied)
    search(NET_GRAPH.format("Gelu", "Mul", "ReduceSum"), net, NET)
    assert levels == [onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL]


def test_files_without_metadata_or_of_another_graph_name_nothing(net: Capture) -> None:
    plain = onnx_model(NET_GRAPH.format("Relu", "Mul", "ReduceSum"))
    assert "does not record" in first_difference(plain, net, net.args, net.kwargs).reason
    other = capture(lambda x: x.relu() * 3, net.args)
    model = onnx_model("(float[4, 6] x) => (float[4, 6] y) { y = Relu(x) }", other, {"y": "relu"})
    found = first_difference(model, net, net.args, net.kwargs)
    assert found.difference is None and "different capture" in found.reason


def test_a_file_with_fewer_inputs_than_the_model_names_nothing() -> None:
    taken = capture(torch.add, (rows(2), rows(2)))
    found = search("(float[2] x) => (float[2] y) { y = Add(x, x) }", taken, {"y": "add"})
    assert found.difference is None and "has 1 input, but the capture of the model has 2" in found.reason


def test_a_runtime_that_raises_is_told(net: Capture) -> None:
    model = onnx_model(NET_GRAPH.format("Gelu", "Mul", "ReduceSum"), net, NET)
    next(iter(model.graph)).domain = "nobody"
    found = first_difference(model, net, net.args, net.kwargs)
    assert found.difference is None and "nobody" in found.reason


def test_neither_the_model_nor_the_file_nor_the_inputs_are_changed() -> None:
    class Training(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x.add_(1)) * 2

    module = Training().train()
    taken = capture(module, (rows(5, 3),))
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    x = taken.args[0].clone()
    graph = "(float[5, 3] x) => (float[5, 3] y) <float one = {1}> { a = Add(x, one) y = Neg(a) }"
    model = onnx_model(graph, taken, {"a": "add_", "y": "mul"})
    before = [value.name for value in model.graph.outputs]
    state = torch.get_rng_state()
    found = first_difference(model, taken, taken.args, taken.kwargs)
    assert found.difference is not None and found.difference.unchecked == ("aten::batch_norm",)
    assert torch.equal(taken.args[0], x) and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in module.named_buffers())
    assert [value.name for value in model.graph.outputs] == before


def test_control_flow_is_one_operator() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)) + 1

    taken = capture(Branch(), (torch.ones(3),))
    names = {str(node.target): node.name for node in taken.graph.graph.nodes}
    cond = next(name for target, name in names.items() if "cond" in target or target == "cond")
    graph = "(float[3] x) => (float[3] y) <float one = {1}> { c = Abs(x) y = Add(c, one) }"
    difference = search(graph, taken, {"c": f"{cond}:0", "y": "add"}).difference
    assert difference is not None and difference.node == f"{cond}:0" and difference.operator == "higher_order::cond"
