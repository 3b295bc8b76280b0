"""`capture="trace"` and `capture="auto"`: what comes out, and what is refused."""

from __future__ import annotations

import dataclasses
import warnings

import onnxscript
import pytest
import torch
from helpers.matching import assert_matches
from helpers.running import run
from helpers.threads import at_once
from onnxscript import opset18 as op
from torch.onnx._internal.torchscript_exporter import registration, utils
from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

import opbridge
from opbridge.base.torch_private import torchscript_registry


class Deciding(torch.nn.Module):
    """Python decides by a value; torch.export refuses that, and a trace freezes it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("offset", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = self.linear(x)
        return torch.special.erfcx(x) + self.offset


class Indexing(torch.nn.Module):
    """A Python list is indexed by a value; no other capture takes that."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * [1.0, 2.0][(x.sum() > 0).long()]


X = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))


def state() -> tuple:
    """Everything global that a trace touches."""
    torchscript_registry.load_builtin_symbolics()
    groups = {
        name: (dict(group._functions._base), dict(group._functions._overrides), dict(group._functions._merged))
        for name, group in registration.registry._registry.items()
    }
    filters = list(warnings.filters)
    return groups, registration.registry, utils._run_symbolic_method, dict(vars(GLOBALS)), filters, warnings.showwarning


@pytest.fixture(autouse=True)
def unchanged():
    before = state()
    yield
    assert state() == before


def test_program_and_its_verification():
    model = Deciding().eval()
    program = opbridge.export(model, (X,), capture="trace")
    assert program.verification is not None and program.verification.ok
    assert len(program.verification.runs) == 3
    assert program.capture.mode == "trace"
    assert program.capture.model is model
    assert [value.name for value in program.model.graph.inputs] == ["x"]
    assert [value.name for value in program.model.graph.outputs] == ["output"]


def test_weights_keep_their_names_and_their_memory():
    model = Deciding().eval()
    program = opbridge.export(model, (X,), capture="trace", verify=False)
    initializers = program.model.graph.initializers
    for name, tensor in model.state_dict().items():
        assert initializers[name].const_value.tensor.data_ptr() == tensor.data_ptr()


def test_rows_have_operators_counts_origins_and_lines():
    program = opbridge.export(Deciding().eval(), (X,), capture="trace", verify=False)
    rows = {row.operator: row for row in program.plan.rows}
    assert list(rows) == ["aten::linear", "aten::special_erfcx", "aten::add.Tensor"]
    assert {row.count for row in rows.values()} == {1}
    assert {row.route for row in rows.values()} == {"standard"}
    assert rows["aten::special_erfcx"].how.startswith("opbridge translation")
    source = rows["aten::special_erfcx"].sources[0]
    assert source.file.endswith("test_trace.py") and "torch.special.erfcx" in source.code
    assert rows["aten::special_erfcx"].schema == "aten::special_erfcx(Tensor self) -> Tensor"


def test_nodes_say_what_they_come_from():
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))

        def forward(self, x):
            return self.blocks(x)

    program = opbridge.export(Net(), (X,), capture="trace", verify=False)
    found = [
        (node.metadata_props["opbridge.operator"], node.metadata_props["opbridge.module"])
        for node in program.model.graph
    ]
    assert found == [("aten::linear", "blocks.0.0"), ("aten::relu", "blocks.0.1")]
    assert all("test_trace.py" in node.metadata_props["opbridge.source"] for node in program.model.graph)


def test_whose_function_was_used():
    @torch.library.custom_op("tracing::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def symbolic(g, x):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(2.0)))

    torch.onnx.register_custom_op_symbolic("tracing::doubled", symbolic, 9)
    try:
        program = assert_matches(
            lambda x: torch.exp(torch.ops.tracing.doubled(x)).cosh(),
            X,
            capture="trace",
            custom_translation_table={"aten::cosh": lambda x: op.Cosh(x)},
        )
    finally:
        # Where torch itself leaves an empty entry, so that nothing is left.
        torch.onnx.unregister_custom_op_symbolic("tracing::doubled", 9)
        del registration.registry._registry["tracing::doubled"]
    how = {row.operator: row.how for row in program.plan.rows}
    assert how["tracing::doubled"] == "user symbolic function, opset 9"
    assert how["aten::exp"] == "torch.onnx symbolic function"
    assert how["aten::cosh"] == "user translation"


def test_function_with_a_symbolic_of_its_own():
    program = assert_matches(lambda x: Halved.apply(x) + 1, X, capture="trace")
    assert next((row.operator, row.how) for row in program.plan.rows) == ("python::Halved", "user symbolic function")
    assert "test_trace.py" in str(program.plan.rows[0].sources[0])
    assert [node.op_type for node in program.model.graph] == ["Div", "Add"]


def test_handler_of_functions_without_one():
    def handler(g, *args, **kwargs):
        assert g.original_node.pyname() == "Tripled"
        return g.op("Mul", args[0], g.op("Constant", value_t=torch.tensor(3.0)))

    known = "prim::PythonOp" in registration.registry._registry
    torch.onnx.register_custom_op_symbolic("prim::PythonOp", handler, 1)
    try:
        program = assert_matches(lambda x: Tripled.apply(x) + 1, X, capture="trace")
    finally:
        torch.onnx.unregister_custom_op_symbolic("prim::PythonOp", 1)
        if not known:  # torch leaves an empty entry
            del registration.registry._registry["prim::PythonOp"]
    assert [row.operator for row in program.plan.rows] == ["python::Tripled", "aten::add.Scalar"]


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(x.numpy() * 3)


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(x.numpy() / 2)

    @staticmethod
    def symbolic(g, x):
        return g.op("Div", x, g.op("Constant", value_t=torch.tensor(2.0)))


@onnxscript.script(onnxscript.values.Opset("tracing.own", 1))
def Squashed(x):
    return op.Tanh(op.Mul(x, x))


def test_onnx_functions_of_translations_come_along():
    table = {"aten::sinh": Squashed}
    program = opbridge.export(
        lambda x: torch.sinh(x), (X,), capture="trace", custom_translation_table=table, verify=False
    )
    assert [(row.operator, row.route) for row in program.plan.rows] == [("aten::sinh", "function")]
    torch.testing.assert_close(torch.from_numpy(run(program, (X,))[0]), torch.tanh(X * X))


# Inputs and outputs


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


class Nested(torch.nn.Module):
    def forward(self, x, items, scale: float = 2.0, *, mask=None, **more):
        y = x * scale + items["a"][0] + more.get("extra", 1)
        return {"total": y, "rest": [y.sum(), None, 7], "pair": Pair(~mask, y[0]), "rows": x.shape[0]}


NESTED_KEYWORDS = {"mask": torch.tensor([True, False]), "extra": torch.rand(4)}
NESTED = (X, {"a": [torch.rand(4), torch.rand(2)]})


@pytest.mark.parametrize("names", [{}, {"input_names": ["first"], "output_names": ["first_one", "second_one"]}])
def test_names_are_those_of_the_export_route(names):
    programs = [
        opbridge.export(Nested(), NESTED, kwargs=NESTED_KEYWORDS, capture=capture, verify=False, **names)
        for capture in ("export", "trace")
    ]
    for part in ("inputs", "outputs"):
        exported, traced = (list(getattr(program.model.graph, part)) for program in programs)
        assert [value.name for value in exported] == [value.name for value in traced]
    assert all(
        left.shape == right.shape for left, right in zip(*(each.model.graph.inputs for each in programs), strict=True)
    )


@pytest.mark.slow
def test_nested_inputs_and_outputs_are_verified():
    # torch 2.13 takes no dynamic shapes for what arrives in **more.
    keywords = {"mask": NESTED_KEYWORDS["mask"]}
    program = opbridge.export(Nested(), NESTED, kwargs=keywords, capture="trace", dynamic_shapes="auto")
    assert program.verification is not None and program.verification.ok
    assert {run.kind for run in program.verification.runs} == {"example", "fresh", "sizes"}
    dims = [str(size) for size in program.model.graph.inputs[0].shape]
    assert dims == ["x_dim_0", "x_dim_1"]


SHAPES = {
    "by name": {"x": {0: "batch"}},
    "a Dim": {"x": {0: torch.export.Dim("batch", min=2, max=64)}},
    "in order": ({0: "batch"},),
    "from the end": {"x": {-2: "batch"}},
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_dynamic_shapes(shapes):
    def function(x):
        return (x.reshape(x.shape[0] * 2, -1) * 2).cumsum(0) if x.sum() > 0 else x

    program = opbridge.export(function, (X,), capture="trace", dynamic_shapes=shapes)
    assert program.verification is not None and program.verification.ok
    assert [str(size) for size in program.model.graph.inputs[0].shape] == ["batch", "4"]
    assert "sizes" in {run.kind for run in program.verification.runs}


def test_static_dimensions_stay_static():
    program = opbridge.export(Deciding(), (X,), capture="trace", verify=False)
    assert list(program.model.graph.inputs[0].shape) == [3, 4]


def test_inputs_that_are_not_used_stay():
    program = assert_matches(lambda x, y: x * 2, X, torch.rand(2), capture="trace")
    assert [value.name for value in program.model.graph.inputs] == ["x", "y"]


def test_an_output_that_is_an_input_or_comes_twice():
    assert_matches(lambda x: (x, x * 2, x), X, capture="trace")


@pytest.mark.slow
def test_half_precision_is_compared_as_such():
    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4).half()

        def forward(self, x):
            return self.linear(x.half()).float() if x.sum() > 0 else x

    program = opbridge.export(Half(), (X,), capture="trace")
    assert program.verification is not None and program.verification.ok


# The model is left as it was


def test_training_mode_and_buffers_stay():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model[1].eval()
    opbridge.export(model, (X,), capture="trace", verify=False)
    assert model.training and model[0].training and not model[1].training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_inputs_are_not_written_to():
    x = X.clone()
    opbridge.export(lambda x: x.mul_(2) if x.sum() > 0 else x, (x,), capture="trace", verify=False)
    assert torch.equal(x, X)


# Missing operators


@torch.library.custom_op("tracing::first", mutates_args=())
def first(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.library.custom_op("tracing::second", mutates_args=())
def second(x: torch.Tensor, k: int) -> torch.Tensor:
    return x + k


class Lacking(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = torch.ops.tracing.first(x)
        return torch.ops.tracing.second(torch.sin(x), 3)


def test_all_missing_operators_are_told_together():
    with pytest.raises(opbridge.MissingOperators) as caught:
        opbridge.export(Lacking(), (X,), capture="trace")
    text = str(caught.value)
    assert "2 of 3 operators have no route" in text
    assert "tracing::first (1x at" in text and "tracing::second (1x at" in text and "test_trace.py:" in text
    assert '@opbridge.translation("tracing::first")' in text and '@opbridge.symbolic("tracing::second")' in text
    plan = opbridge.check(Lacking(), (X,), capture="trace")
    assert [row.operator for row in plan.missing] == ["tracing::first", "tracing::second"]


def test_a_translation_that_fails_is_missing_with_its_reason():
    def refusing(x):
        raise opbridge.TranslationError("it is not done on Sundays")

    table = {"tracing::first": refusing, "tracing::second": lambda x, k: op.Add(x, float(k))}
    plan = opbridge.check(Lacking(), (X,), capture="trace", custom_translation_table=table)
    assert [row.operator for row in plan.missing] == ["tracing::first"]
    assert "it is not done on Sundays" in plan.missing[0].reason


# What is refused


@pytest.mark.parametrize("capture", ["trac", "", None])
def test_unknown_captures(capture):
    for call in (opbridge.check, opbridge.export):
        with pytest.raises(opbridge.UsageError, match="use 'export', 'torch.export', 'trace' or 'auto'"):
            call(Deciding(), (X,), capture=capture)


def test_an_opset_that_is_too_new():
    with pytest.raises(
        opbridge.UsageError, match="opset_version=21 is not supported by capture='trace'.*opset 20 at most"
    ):
        opbridge.export(Deciding(), (X,), capture="trace", opset_version=21)


def test_the_default_opset_is_the_newest_that_the_tracer_does():
    program = opbridge.export(Deciding(), (X,), capture="trace", verify=False)
    assert program.model.opset_imports[""] == 20
    assert program.model.metadata_props["opbridge.opset"] == "20"
    assert any("built for opset 20" in note for note in program.plan.notes)


def test_an_older_opset():
    program = opbridge.export(Deciding(), (X,), capture="trace", opset_version=13)
    assert program.model.opset_imports[""] == 13
    assert program.verification is not None and program.verification.ok


def test_a_model_that_fails_by_itself():
    with pytest.raises(opbridge.UsageError, match="fails on these inputs in plain PyTorch.*test_trace.py"):
        opbridge.export(lambda x: x @ x, (X,), capture="trace")


def test_a_model_that_cannot_be_traced():
    class Unlike(torch.nn.Module):
        def forward(self, x):
            if torch.jit.is_tracing():
                raise RuntimeError("not while tracing")
            return x

    with pytest.raises(opbridge.CaptureError, match="test_trace.py:.*not while tracing"):
        opbridge.export(Unlike(), (X,), capture="trace")


def test_an_exported_program():
    exported = torch.export.export(torch.nn.ReLU(), (X,))
    with pytest.raises(opbridge.UsageError, match="Pass the model itself"):
        opbridge.export(exported, (X,), capture="trace")


@pytest.mark.slow
def test_an_int_that_is_to_be_an_input():
    with pytest.raises(opbridge.UsageError, match="the int 'n' an input, which is not supported by capture='trace'"):
        opbridge.export(
            lambda x, n: x * n, (X, 3), capture="trace", dynamic_shapes={"x": None, "n": torch.export.Dim.DYNAMIC}
        )


# auto


def test_auto_takes_torch_export_where_it_can():
    program = opbridge.export(torch.nn.ReLU(), (X,), capture="auto")
    assert program.capture.mode == "direct"
    assert program.plan.notes == ()


def test_auto_traces_where_it_cannot_and_says_why():
    program = opbridge.export(Indexing(), (X,), capture="auto")
    assert program.capture.mode == "trace"
    assert "captured by a trace, because capture='export' failed: at" in program.plan.notes[0]
    assert "Python needs a number here" in program.plan.notes[0]


@pytest.mark.slow
def test_auto_does_not_trace_what_decides_by_data():
    program = opbridge.export(Deciding(), (X,), capture="auto")
    assert program.capture.mode == "direct"
    for x in (X, -X):
        (found,) = program.session().run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), program.capture.model(x))


def test_auto_that_fails_both_ways_says_both():
    class Neither(torch.nn.Module):
        def forward(self, x):
            if torch.jit.is_tracing():
                raise RuntimeError("not while tracing")
            return x * [1.0, 2.0][(x.sum() > 0).long()]

    with pytest.raises(
        opbridge.CaptureError, match="(?s)Python needs a number here.*failed too:.*not while tracing"
    ) as caught:
        opbridge.export(Neither(), (X,), capture="auto")
    assert isinstance(caught.value.__cause__, opbridge.CaptureError)


# Nothing is left behind


@pytest.mark.slow
def test_two_threads():
    def work():
        program = opbridge.export(Deciding().eval(), (X,), capture="trace", verify=False)
        assert len(program.plan.rows) == 3
        with opbridge.register_symbolics(20), pytest.raises(opbridge.MissingOperators):
            opbridge.export(Lacking(), (X,), capture="trace")

    at_once(work, work)


# Routes that need no translation


@torch.library.custom_op("tracing::labelled", mutates_args=())
def labelled(x: torch.Tensor, sizes: list[int], name: str, other: torch.Tensor | None = None) -> torch.Tensor:
    return x.clone()


def carried(x):
    if x.sum() > 0:
        x = x * 2
    return torch.ops.tracing.labelled(x, [1, 2], "text", None).sin()


@pytest.mark.parametrize(
    "options",
    [{"allow": ("standard", "fallthrough")}, {"routes": {"tracing::labelled": "fallthrough"}}],
    ids=["allowed", "pinned"],
)
def test_fallthrough_is_the_node_of_the_export_route(options):
    traced = opbridge.export(carried, (X,), capture="trace", **options)
    (node,) = (node for node in traced.model.graph if node.domain == "tracing")
    assert node.op_type == "labelled" and len(node.inputs) == 1
    assert {name: attribute.value for name, attribute in node.attributes.items()} == {"sizes": (1, 2), "name": "text"}
    assert [row.route for row in traced.plan.rows if row.operator == "tracing::labelled"] == ["fallthrough"]
    assert "no kernel for tracing::labelled" in traced.unverified


def test_aten_hands_an_operator_to_libtorch():
    program = opbridge.export(Lacking(), (X,), capture="trace", allow=("standard", "aten"))
    nodes = [node for node in program.model.graph if node.domain == "org.pytorch.aten"]
    assert [node.attributes["operator"].as_string() for node in nodes] == ["tracing::first", "tracing::second"]
    carried = [row.operator for row in program.plan.rows if row.route == "aten"]
    assert carried == ["tracing::first", "tracing::second"]


@torch.jit.script
def filled(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    found = torch.zeros(2, x.size(0))
    if state.size(0) == 0:
        for i in range(2):
            found[:] = torch.ones(x.size(0)) * i
    elif state.size(0) == 1:
        found[:] = state + found[:]
    return found


@pytest.mark.slow
def test_a_loop_within_a_condition_on_a_size():
    assert_matches(
        lambda x, state: filled(x, state),
        torch.randn(3),
        torch.zeros(0),
        others=[[torch.randn(4), torch.randn(1)], [torch.randn(1), torch.randn(2)]],
        capture="trace",
        dynamic_axes={"x": [0], "state": [0]},
        input_names=["x", "state"],
    )


def test_a_write_that_the_exporter_leaves_is_said_in_words():
    def model(x):
        spectrum = torch.zeros(x.shape[0], x.shape[-1] // 2 + 1, dtype=torch.cfloat)
        spectrum[:, :2] = torch.fft.rfft(x)[:, :2]
        return torch.fft.irfft(spectrum, n=x.shape[-1])

    with pytest.raises(opbridge.CaptureError, match="An in-place write to a part of this tensor, which is complex"):
        opbridge.export(model, (X,), capture="trace")
    opbridge.export(model, (X,))
