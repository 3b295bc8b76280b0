"""Operators of other libraries of which nothing but a run tells the shapes."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from helpers.captures import computed
from helpers.matching import assert_matches
from onnxscript import opset18 as op
from torch import nn

import opbridge
from opbridge.base.torch_private import torch_library
from opbridge.capture import capture
from opbridge.capture.opaque_operators import Operators
from opbridge.errors import CaptureError, MissingOperators, UsageError

X = torch.arange(12, dtype=torch.float32).reshape(3, 4) - 5
SCALE = torch.tensor([2.0, 3.0, 4.0, 5.0])
ops = torch.ops.opaquetest
runs: list[str] = []


def native(x: torch.Tensor) -> torch.Tensor:
    """What a kernel reads: memory, which tensors of a capture do not have."""
    return torch.from_numpy(x.detach().numpy().copy())


def double(x):
    runs.append("double")
    return native(x) * 2


def pair(x):
    values = native(x)
    return values.max(0).values, values.argmax(0)


def parts(x, n):
    return [native(x)[each] for each in range(n)]


def maybe(x, there):
    return native(x), native(x) if there else None


def chosen(x, mask):
    return native(x)[native(mask)]


def upward(x):
    """Its sizes are none of the argument's."""
    return native(x).repeat(2, 2)


def made(x):
    return torch.relu(x) + 1


def write_into(x, to):
    to.copy_(native(x) * 2)


def write_to_one_of_two(x, y):
    x.copy_(native(y))
    return y.copy_(native(y) + 1)


def around(x):
    return ops.double(x) + 1


def first_rows(x, mask):
    """Composed of an operator of torch, of which memory decides how it is called."""
    return x[: int(mask.detach().numpy().sum())]


def random_part(x):
    return x + torch.rand_like(x)


SCHEMAS = {
    "double(Tensor x) -> Tensor": (double, "CPU"),
    "pair(Tensor x) -> (Tensor, Tensor)": (pair, "CPU"),
    "parts(Tensor x, int n) -> Tensor[]": (parts, "CPU"),
    "maybe(Tensor x, bool there) -> (Tensor, Tensor?)": (
        lambda x, there: (native(x), native(x) if there else None),
        "CPU",
    ),
    "count(Tensor x) -> int": (lambda x: int(native(x).gt(0).sum()), "CPU"),
    "chosen(Tensor x, Tensor mask) -> Tensor": (chosen, "CPU"),
    "upward(Tensor x) -> Tensor": (upward, "CPU"),
    "fails(Tensor x) -> Tensor": (lambda x: native(x).reshape(7), "CPU"),
    "turned(Tensor x) -> Tensor": (lambda x: native(x.t().contiguous()).t(), "CPU"),
    "whole(Tensor x) -> Tensor": (lambda x: native(x) * 3, "CompositeImplicitAutograd"),
    "made(Tensor x) -> Tensor": (made, "CompositeImplicitAutograd"),
    "around(Tensor x) -> Tensor": (around, "CompositeImplicitAutograd"),
    "first_rows(Tensor x, Tensor mask) -> Tensor": (first_rows, "CompositeImplicitAutograd"),
    "random_part(Tensor x) -> Tensor": (random_part, "CompositeImplicitAutograd"),
    "shared(Tensor x) -> Tensor": (lambda x: native(x) * 5, "CompositeExplicitAutograd"),
    "shared_made(Tensor x) -> Tensor": (lambda x: x * 6, "CompositeExplicitAutograd"),
    "write_(Tensor(a!) x) -> Tensor(a!)": (lambda x: x.copy_(native(x) * 2), "CPU"),
    "write_and_make_(Tensor(a!) x) -> Tensor": (lambda x: x.copy_(native(x) * 2) + 1, "CPU"),
    "write_into(Tensor x, Tensor(a!) to) -> ()": (write_into, "CPU"),
    "write_to_one_of_two_(Tensor(a!) x, Tensor(b!) y) -> Tensor(b!)": (write_to_one_of_two, "CPU"),
    "write_both_(Tensor(a!) x, Tensor y, Tensor(b!) z) -> (Tensor(b!), Tensor(a!))": (
        lambda x, y, z: (z.copy_(native(y) * 2), x.copy_(native(y) + 1)),
        "CPU",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def library():
    library = torch.library.Library("opaquetest", "DEF")
    for schema, (function, key) in SCHEMAS.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], function, key)
    yield library
    library._destroy()


@torch.library.custom_op("opaquetest_own::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return native(x) / 2


def called(taken) -> list[str]:
    names = (str(node.target) for node in taken.graph.graph.nodes if node.op == "call_function")
    return [name for name in names if name != "<built-in function getitem>"]


def shapes(taken) -> list[tuple[int, ...]]:
    output = next(node for node in taken.graph.graph.nodes if node.op == "output")
    return [tuple(node.meta["val"].shape) for node in output.args[0]]


TABLE = {
    "opaquetest::double": lambda x: op.Add(x, x),
    "opaquetest::whole": lambda x: op.Add(op.Add(x, x), x),
    "opaquetest::shared": lambda x: op.Mul(x, op.CastLike(op.Constant(value_float=5.0), x)),
    "opaquetest::turned": lambda x: op.Identity(x),
    "opaquetest_own::halve": lambda x: op.Div(x, op.CastLike(op.Constant(value_float=2.0), x)),
}


@pytest.mark.parametrize("name", [name.replace("::", ".") for name in TABLE])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_translation_carries_it(name, dynamic):
    space, _, base = name.partition(".")
    operator = getattr(getattr(torch.ops, space), base)

    def model(x):
        return torch.relu(operator(x * 2)) + operator(x)

    shapes = ({0: "rows", 1: "columns"},) if dynamic else None
    others = [(torch.randn(2, 7),)] if dynamic else []
    program = assert_matches(model, X, others=others, custom_translation_table=TABLE, dynamic_shapes=shapes)
    assert [row.operator for row in program.plan.rows].count(f"{space}::{base}") == 1
    assert sum(row.count for row in program.plan.rows if row.operator == f"{space}::{base}") == 2
    assert opbridge.export(model, (X,), custom_translation_table=TABLE).verification.ok


def test_a_symbolic_function_carries_it():
    def symbolic(g, x):
        return g.op("Add", x, x)

    torch.onnx.register_custom_op_symbolic("opaquetest::double", symbolic, 9)
    try:
        assert opbridge.export(lambda x: ops.double(x) + 1, (X,)).verification.ok
    finally:
        torch.onnx.unregister_custom_op_symbolic("opaquetest::double", 9)


def test_all_kinds_of_results_are_what_the_run_gave():
    def model(x):
        high, place = ops.pair(x)
        there, missing = ops.maybe(x, False)
        assert missing is None
        return high, place, *ops.parts(x, 3), there, ops.maybe(x, True)[1]

    taken = capture(model, X)
    assert called(taken) == [f"opaquetest.{each}.default" for each in ("pair", "maybe", "parts", "maybe")]
    assert shapes(taken) == [(4,), (4,), (4,), (4,), (4,), (3, 4), (3, 4)]
    assert taken.whole == {"opaquetest::pair", "opaquetest::maybe", "opaquetest::parts"}
    got = computed(taken, X)
    for one, other in zip(got, model(X), strict=True):
        assert torch.equal(one, other)


def test_a_result_keeps_its_strides():
    taken = capture(lambda x: ops.turned(x).t().view(-1), X)
    assert shapes(taken) == [(12,)]


def test_which_call_is_which_is_known_by_their_order():
    def model(x):
        return ops.parts(x, 2)[0], *ops.parts(x, 3), ops.double(x[:2]), ops.double(x[:1])

    assert shapes(capture(model, X)) == [(4,), (4,), (4,), (4,), (2, 4), (1, 4)]


def test_calls_in_functions_of_torchscript_are_seen():
    with warnings.catch_warnings(action="ignore"):
        scripted = torch.jit.script(_scripted)
    taken = capture(lambda x: scripted(x) * 2, X)
    assert called(taken) == [
        "opaquetest.double.default",
        "opaquetest.whole.default",
        "aten.add.Tensor",
        "aten.mul.Tensor",
    ]


def _scripted(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.opaquetest.double(x) + torch.ops.opaquetest.whole(x)


def test_what_is_composed_of_operators_of_torch_is_left_to_torch():
    taken = capture(lambda x: ops.made(x), X, dynamic_shapes=({0: "rows"},))
    assert not taken.whole and not taken.notes
    plan = opbridge.check(lambda x: ops.made(x) + ops.random_part(x), (X,))
    rows = {row.operator: row for row in plan.rows}
    assert rows["opaquetest::made"].route == "standard" and "aten::relu" in rows["opaquetest::made"].how
    assert "aten::rand_like" in rows["opaquetest::random_part"].how


def test_what_is_composed_of_such_an_operator_is_left_to_torch_too():
    taken = capture(lambda x: ops.around(x) * ops.double(x[:1]), X)
    assert shapes(taken) == [(3, 4)]


def test_what_is_composed_but_reads_memory_too_is_kept_whole():
    model, inputs = lambda x, mask: ops.first_rows(x, mask) * ops.made(x[0]), (X, X[:, 0] > -2)
    taken = capture(model, inputs)
    assert "opaquetest::first_rows" in taken.whole and shapes(taken) == [(2, 4)]


def test_one_kernel_for_all_devices_is_run_without_data_where_that_does():
    taken = capture(lambda x: ops.shared_made(x), X, dynamic_shapes=({0: "rows"},))
    assert not taken.whole and not taken.notes
    assert not isinstance(shapes(taken)[0][0], int)


def test_a_missing_one_is_told_like_any_other():
    with pytest.raises(MissingOperators) as caught:
        opbridge.export(lambda x: ops.whole(x), (X,))
    (row,) = caught.value.plan.missing
    assert row.operator == "opaquetest::whole" and "@opbridge.translation(" in row.remedy
    assert row.permissions[:1] == ("aten",) and "test_opaque_operators.py" in str(row.sources[0])


@pytest.mark.slow
def test_the_aten_route_takes_it(tmp_path):
    path = tmp_path / "model.onnx"
    program = opbridge.export(lambda x: ops.whole(x) + 1, (X,), path, allow=("standard", "aten"))
    assert path.exists() and program.plan.routes() == {"standard": 1, "aten": 1}


@pytest.mark.slow
def test_a_write_that_has_the_graph_rewritten_keeps_it_whole():
    def model(x):
        y = ops.double(x)
        z = ops.whole(y[:2])
        y[0].relu_()
        return y + ops.double(x), z

    assert_matches(model, X, custom_translation_table=TABLE)
    assert_matches(model, X, custom_translation_table=TABLE, dynamic_shapes=({1: "columns"},))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return ops.double(x)

    @staticmethod
    def symbolic(g, x):
        return g.op("Add", x, x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_calls_inside_of_a_function_that_stays_whole_are_none_of_the_graph(dynamic):
    def model(x):
        return Doubled.apply(x) + ops.double(x[:1])

    shapes = ({0: "rows"},) if dynamic else None
    program = assert_matches(model, X, custom_translation_table=TABLE, dynamic_shapes=shapes)
    assert [row.operator for row in program.plan.rows if "::" in row.operator and "aten" not in row.operator] == [
        "python::Doubled",
        "opaquetest::double",
    ]


def test_a_number_is_fixed_with_a_note():
    taken = capture(lambda x: x * ops.count(x), X)
    assert torch.equal(computed(taken, X), X * 6)
    assert taken.notes == ("the number that opaquetest::count returns is fixed to its value in the example",)


# Sizes


def test_sizes_that_depend_on_values_are_unknown_where_sizes_vary():
    taken = capture(
        lambda x, mask: ops.chosen(x, mask) * 2, (X, X[:, 0] > -2), dynamic_shapes=({0: "rows"}, {0: "rows"})
    )
    rows, columns = shapes(taken)[0]
    assert not isinstance(rows, int) and str(rows).startswith("u") and columns == 4
    assert any("opaquetest::chosen" in note and "known only at run time" in note for note in taken.notes)


@pytest.mark.slow
def test_a_size_that_is_none_of_the_arguments_is_not_taken_from_the_example():
    def model(x):
        return ops.upward(x).reshape(2, -1, 8) + x[:1, :1]

    taken = capture(lambda x: ops.upward(x), X, dynamic_shapes=({0: "rows"},))
    assert all(not isinstance(size, int) for size in shapes(taken)[0])
    table = {"opaquetest::upward": lambda x: op.Tile(x, op.Constant(value_ints=[2, 2]))}
    assert_matches(
        model, X, others=[(torch.randn(5, 4),)], custom_translation_table=table, dynamic_shapes=({0: "rows"},)
    )


def test_where_no_size_varies_they_are_the_example_s_with_a_note():
    taken = capture(lambda x, mask: ops.chosen(x, mask), (X, X[:, 0] > -2))
    assert shapes(taken) == [(2, 4)]
    (note,) = taken.notes
    assert "opaquetest::chosen" in note and "fixed to those of the example" in note
    assert capture(lambda x: ops.double(x), X).notes == ()


def test_where_the_model_needs_the_sizes_they_are_taken_from_the_example_with_a_note():
    linear = nn.Linear(4, 2)

    def model(x):
        y = ops.double(x)
        return y[: y.shape[0] - 1 if y.shape[0] > 2 else 1] * linear.weight[0]

    model = Wrapped(model)
    taken = capture(model, X, dynamic_shapes=({0: "rows"},))
    assert any("opaquetest::double" in note and "inferred from the example" in note for note in taken.notes)
    assert str(shapes(taken)[0][0]).endswith("- 1")


class Wrapped(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


# Refusals


def test_what_fails_for_another_reason_is_told_as_ever():
    def model(x):
        return ops.made(x) if x.sum() > 0 else ops.double(x)

    with pytest.raises(CaptureError, match="a Python `if` depends on the values of a tensor"):
        capture(model, X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.write_and_make_(x.clone()),
        lambda x: ops.write_to_one_of_two_(x.clone(), x),
    ],
)
def test_one_that_does_not_return_what_it_writes_to_or_makes_others_is_refused(function):
    with pytest.raises(CaptureError, match=r"opaquetest::write_\w+ has no fake .* writes to its arg") as caught:
        capture(function, X)
    assert "test_opaque_operators.py" in str(caught.value)


def test_a_write_to_a_view_is_refused_where_the_whole_is_read_after_it():
    def model(x, part):
        whole = torch.ones(2, *x.shape)
        ops.write_into(x, part(whole))
        return whole

    table = {"opaquetest::write_into": lambda x, to: op.Add(x, x)}
    for part in (lambda whole: whole[0], lambda whole: whole.transpose(1, 2)[1].t()):
        with pytest.raises(CaptureError, match=r"opaquetest::write_into writes, at .*, in place to a view") as caught:
            opbridge.export(lambda x, part=part: model(x, part), (X,), custom_translation_table=table)
        assert "test_opaque_operators.py" in str(caught.value)

    def own(x):
        whole = torch.ones(2, *x.shape)
        part = whole[0].clone()
        ops.write_into(x, part)
        whole[0] = part
        return whole

    assert opbridge.export(own, (X,), custom_translation_table=table).verification.ok


@pytest.mark.parametrize("dynamic", [None, ({0: "rows"},)])
def test_one_that_returns_what_it_writes_to_needs_no_fake_implementation(dynamic):
    def model(x):
        first, second = x.clone(), torch.zeros_like(x)
        found = ops.write_both_(first, x, second)
        return first + ops.write_(x.clone()), second, *found

    table = {
        "opaquetest::write_": lambda x: op.Add(x, x),
        "opaquetest::write_both_": lambda x, y, z: (op.Add(y, y), op.Add(y, op.CastLike(op.Constant(value_int=1), y))),
    }
    program = opbridge.export(model, (X,), custom_translation_table=table, dynamic_shapes=dynamic)
    assert program.verification is not None and program.verification.ok
    with pytest.raises(MissingOperators, match="opaquetest::write_ "):
        opbridge.export(lambda x: ops.write_(x.clone()), (X,))


def test_a_model_that_fails_by_itself_is_told_so():
    with pytest.raises(UsageError, match="invalid for input of size 12"):
        capture(lambda x: ops.fails(x), X)


def test_more_calls_than_in_the_run_are_an_error_that_names_the_operator():
    def model(x):
        y = ops.double(x)
        return ops.double(y) if torch.compiler.is_exporting() else y

    with pytest.raises(CaptureError, match="opaquetest::double.*calls no such operator"):
        capture(model, X)


def test_another_call_than_in_the_run_is_an_error_that_names_both():
    def model(x):
        return ops.whole(x) if torch.compiler.is_exporting() else ops.double(x)

    with pytest.raises(CaptureError, match="opaquetest::whole.*calls opaquetest::double"):
        capture(model, X)

    def other(x):
        return ops.double(x[:2] if torch.compiler.is_exporting() else x)

    with pytest.raises(CaptureError, match="opaquetest::double.*of different sizes or types"):
        capture(other, X)


# What it costs


def test_a_model_that_calls_none_is_not_run():
    ran = []
    model = nn.ReLU()
    model.register_forward_hook(lambda _, given, __: ran.append(type(given[0])))
    capture(model, X)
    assert ran and torch.Tensor not in ran


def test_a_model_runs_once_for_all_of_its_calls():
    runs.clear()
    capture(lambda x: ops.double(ops.double(x)) + ops.whole(x), X)
    assert runs == ["double", "double"]


def test_finding_them_calls_few_functions():
    """Some for each operator of other libraries, and none for the thousands of torch's own."""
    Operators()
    others = len(list(torch_library.existing_operators(torch_library.third_party_operators())))
    called = []
    sys.setprofile(lambda frame, event, argument: called.append(event))
    try:
        Operators()
    finally:
        sys.setprofile(None)
    assert 0 < called.count("call") < 200 + 40 * others


def test_nothing_is_left_behind():
    operator = ops.whole.default
    before = dict(operator.py_kernels)
    capture(lambda x: ops.whole(x) + ops.double(x), X)
    assert operator.py_kernels == before
    assert torch._library.simple_registry.singleton.find("opaquetest::double").fake_impl.kernel is None
    with pytest.raises(RuntimeError, match="opaquetest.double.default"):
        torch.export.export(Wrapped(lambda x: ops.double(x)), (X,), dynamic_shapes=({0: torch.export.Dim("n")},))


def test_one_that_gets_a_fake_implementation_is_no_longer_met(library):
    library.define("later(Tensor x) -> Tensor")
    library.impl("later", lambda x: native(x), "CPU")
    operator = ops.later.default
    assert torch_library.lacks_fake_implementation(operator)
    torch.library.register_fake("opaquetest::later", torch.empty_like, lib=library)
    assert not torch_library.lacks_fake_implementation(operator)
    assert not capture(lambda x: ops.later(x), X).whole
