"""Our translations as symbolic functions of torch.onnx's TorchScript exporter."""

from __future__ import annotations

import io
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from helpers.matching import assert_same_results
from helpers.running import run_session
from helpers.threads import at_once
from onnxscript import opset18 as op
from torch.onnx._internal.torchscript_exporter import registration

import opbridge
from opbridge.base.torch_private import torchscript_registry
from opbridge.errors import UsageError
from opbridge.symbolics.bridging import as_symbolic
from opbridge.translations.registry import Translation


def registry_state() -> dict:
    """Everything that torch's registry holds."""
    torchscript_registry.load_builtin_symbolics()
    return {
        name: (dict(group._functions._base), dict(group._functions._overrides), dict(group._functions._merged))
        for name, group in registration.registry._registry.items()
    }


@pytest.fixture(autouse=True)
def unchanged_registry():
    before = registry_state()
    yield
    assert registry_state() == before


def stock_export(model, args, **options) -> onnx.ModelProto:
    """torch.onnx.export's TorchScript exporter."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, tuple(args), buffer, dynamo=False, **options)
    return onnx.load_from_string(buffer.getvalue())


def module(function) -> torch.nn.Module:
    class Module(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    return Module().eval()


def check(function, *args, others=(), opset=20, dynamic=True):
    """Exports with our translations registered, and compares on the example and on other inputs."""
    model = function if isinstance(function, torch.nn.Module) else module(function)
    names = [f"x{index}" for index in range(len(args))]
    axes = {name: {dim: f"{name}_{dim}" for dim in range(arg.dim())} for name, arg in zip(names, args, strict=True)}
    # For this opset alone: registering for all of them takes longer than the export.
    with opbridge.register_symbolics(opset):
        exported = stock_export(
            model, args, opset_version=opset, input_names=names, dynamic_axes=axes if dynamic else None
        )
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    for inputs in (args, *others):
        assert_same_results(run_session(session, inputs), model, inputs)
    return exported


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
Y = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
WHOLE = torch.arange(-6, 6).reshape(3, 4)

CASES = {
    "operator that torch.onnx lacks": (lambda x: x.cummax(1)[0], X, Y),
    "special function": (torch.special.erfcx, X, Y),
    "decided by the trace's dtypes": (lambda x: x.var(0), X, Y),
    "several outputs": (lambda x: tuple(x.cummin(0)), X, Y),
    "int and float": (lambda x: x * 0.5, WHOLE, WHOLE[:2]),
    "int and a division": (lambda x: x / 2, WHOLE, WHOLE[:2]),
    "int and floor division": (lambda x: x // 3, WHOLE, WHOLE[:2]),
    "small int and number": (lambda x: x.to(torch.int8) + 3, WHOLE, WHOLE[:2]),
    "bool and int": (lambda x: (x > 0) + x, WHOLE, WHOLE[:2]),
    "float32 and float64": (lambda x: x + x.double(), X, Y),
    "a constant tensor": (lambda x: x * torch.tensor(2.0, dtype=torch.float64), X, Y),
    "a constant tensor of doubles beside integers": (
        lambda x: x * torch.tensor([0.5], dtype=torch.float64),
        WHOLE,
        WHOLE,
    ),
    "alpha": (lambda x: torch.add(x, x, alpha=3), X, Y),
    "comparison": (lambda x: x >= 0.5, WHOLE, WHOLE[:2]),
    "in place": (lambda x: x.clone().mul_(2).relu_(), X, Y),
    "write to a slice": (lambda x: write_slice(x), X, Y),
    "write with indices": (lambda x: write_index(x), X, Y),
    "dtype argument": (lambda x: x.sum(1, dtype=torch.float64), X, Y),
    "list of dimensions": (lambda x: x.mean((0, 1), keepdim=True), X, Y),
    "list with a size": (lambda x: x.reshape(x.shape[1], -1), X, Y),
    "sizes in arithmetic": (lambda x: x.new_zeros(x.shape[0] * 2, 3) + x.shape[1], X, Y),
    "range over a size": (lambda x: torch.arange(x.shape[0]) * 2, X, Y),
    "list of tensors in": (lambda x: torch.cat([x, x * 2], 1), X, Y),
    "list of tensors out": (lambda x: x[:, :2].unbind(1)[1], X, Y),
    "split": (lambda x: x[:, :4].split(2, 1)[1], X, Y),
    "meshgrid": (lambda x: torch.meshgrid(x[0], x[:, 0], indexing="ij")[1], X, Y),
    "boolean index": (lambda x: x[x > 0], X, Y),
    "scalar or tensor": (lambda x: torch.where(x > 0, x, 0), X, Y),
    "clamp with one bound": (lambda x: x.clamp(min=0.25), X, Y),
    "text argument": (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), X, Y),
    "max in its three forms": (lambda x: (x.max(), x.max(1)[0], torch.max(x, x * 2)), X, Y),
    "matrix product": (lambda x: x.transpose(0, 1) @ x, X, Y),
    "loop": (lambda x: torch.linalg.det(x[:3, :3] @ x[:3, :3].T + torch.eye(3)), X, Y),
}


def write_slice(x):
    x = x.clone()
    x[:, 1:3] = 7
    return x


def write_index(x):
    x = x.clone()
    x[torch.tensor([0, 2])] = x[1] * 2
    return x


@pytest.mark.parametrize("name", CASES)
def test_translations_are_right_in_a_trace(name):
    function, example, other = CASES[name]
    check(function, example, others=[(other,)])


@pytest.mark.parametrize("opset", [13, 18, 20])
def test_layers(opset):
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.SiLU(),
        torch.nn.GroupNorm(2, 4),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 5),
    )
    check(layers.eval(), torch.randn(2, 3, 8, 8), others=[(torch.randn(1, 3, 10, 6),)], opset=opset)


@pytest.mark.slow
def test_stock_exporter_gets_an_operator_that_it_lacks():
    model = module(lambda x: x.cummax(1)[1])
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError):
        stock_export(model, (X,), opset_version=18)
    check(model, X, opset=18)


def test_sizes_of_the_example_are_not_frozen():
    exported = check(lambda x: torch.special.erfcx(x.flatten()).sum(), X, others=[(Y,), (torch.randn(1, 2),)])
    dims = exported.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["x0_0", "x0_1"]


def test_what_needs_a_size_is_left_to_torchs_own_function():
    told = []
    entries = [
        entry
        for entry in opbridge.translations.catalogue.catalogue("aten::unbind")
        if entry.operator == "aten::unbind.int"
    ]
    function = as_symbolic(
        entries,
        fallback=lambda opset: torchscript_registry.builtin_symbolic("aten::unbind", opset),
        on_outcome=lambda outcome: told.append((outcome.operator, outcome.translation, outcome.reason)),
    )
    handed = torchscript_registry.register_functions({"aten::unbind": function}, [20])
    try:
        stock_export(
            module(lambda x: x.unbind(0)[0]), (X,), opset_version=20, input_names=["x"], dynamic_axes={"x": [1]}
        )
        stock_export(module(lambda x: (x * 2).unbind(0)[0]), (X,), opset_version=20)
    finally:
        torchscript_registry.unregister_functions(handed)
    (known, used, _), (unknown, unused, reason) = told
    assert known == unknown == "aten::unbind.int"
    assert used is not None and unused is None
    assert "returns an unknown number of tensors" in reason


def test_without_a_function_of_torchs_the_error_says_both():
    @torch.library.custom_op("bridging::strange", mutates_args=())
    def strange(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def refuses(x):
        raise opbridge.TranslationError("it takes no such tensor")

    handed = torchscript_registry.register_functions(
        {"bridging::strange": as_symbolic([Translation("bridging::strange", refuses, 18, "user")])}, [20]
    )
    try:
        with pytest.raises(
            torch.onnx.OnnxExporterError, match="it takes no such tensor, and torch.onnx has no symbolic"
        ):
            stock_export(module(lambda x: torch.ops.bridging.strange(x)), (X,), opset_version=20)
    finally:
        torchscript_registry.unregister_functions(handed)


def branching(x):
    """A translation with an If, whose branches read a value and a constant from outside."""
    many = op.Greater(op.Size(x), op.Constant(value_int=13))
    builder = x.builder
    large = builder.constant(np.arange(2, dtype=np.float32)[:1] + 41)
    body = [
        builder.body("then", [], lambda: [builder.emit("Mul", (x, large))]),
        builder.body("else", [], lambda: [builder.emit("Neg", (x,))]),
    ]
    return builder.call("If", (many,), {"then_branch": body[0], "else_branch": body[1]})[0]


def test_graphs_inside_nodes_become_blocks():
    @torch.library.custom_op("bridging::branching", mutates_args=())
    def by_size(x: torch.Tensor) -> torch.Tensor:
        return x * 41 if x.numel() > 13 else -x

    function = as_symbolic([Translation("bridging::branching", branching, 18, "user")])
    handed = torchscript_registry.register_functions({"bridging::branching": function}, [20])
    try:
        exported = stock_export(
            module(lambda x: torch.ops.bridging.branching(x) + 1),
            (X,),
            opset_version=20,
            input_names=["x"],
            dynamic_axes={"x": {0: "rows", 1: "columns"}},
        )
    finally:
        torchscript_registry.unregister_functions(handed)
    assert "If" in [node.op_type for node in exported.graph.node]
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    for given in (X, Y):
        wanted = (by_size(given) + 1).numpy()
        np.testing.assert_allclose(session.run(None, {"x": given.numpy()})[0], wanted, rtol=1e-6)


# What is registered, and that nothing is left behind


@pytest.mark.slow
def test_a_users_registration_wins():
    def theirs(g, x):
        return g.op("theirs::Softsign", x)

    torch.onnx.register_custom_op_symbolic("aten::erf", theirs, 13)
    try:
        with opbridge.register_symbolics():
            exported = stock_export(module(torch.erf), (X,), opset_version=18)
            assert registration.registry.get_function_group("aten::erf").get(18) is theirs
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::erf", 13)
    assert [node.op_type for node in exported.graph.node] == ["Softsign"]


@pytest.mark.slow
def test_a_registration_of_the_meantime_stays():
    def theirs(g, x):
        return g.op("theirs::Softsign", x)

    handle = opbridge.register_symbolics(18)
    torch.onnx.register_custom_op_symbolic("aten::erf", theirs, 18)
    handle.remove()
    assert registration.registry.get_function_group("aten::erf").get(18) is theirs
    torch.onnx.unregister_custom_op_symbolic("aten::erf", 18)


def test_two_handles_at_once_in_any_order():
    first, second = opbridge.register_symbolics(20), opbridge.register_symbolics(20)
    first.remove()
    stock_export(module(lambda x: x.cummax(1)[0]), (X,), opset_version=20)
    second.remove()
    second.remove()
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError):
        stock_export(module(lambda x: x.cummax(1)[0]), (X,), opset_version=20)


@pytest.mark.slow
def test_taken_back_after_a_failure():
    with pytest.raises(ZeroDivisionError), opbridge.register_symbolics():
        raise ZeroDivisionError


def test_a_registration_that_fails_half_way_leaves_nothing(monkeypatch):
    register = registration.SymbolicRegistry.register
    count = []

    def failing(self, *args, **kwargs):
        count.append(1)
        if len(count) > 50:
            raise MemoryError
        return register(self, *args, **kwargs)

    monkeypatch.setattr(registration.SymbolicRegistry, "register", failing)
    with pytest.raises(MemoryError):
        opbridge.register_symbolics()


@pytest.mark.slow
def test_several_threads():
    def work():
        for _ in range(3):
            with opbridge.register_symbolics(19) as handle:
                assert "aten::cummax" in handle.names
                assert registration.registry.is_registered_op("aten::cummax", 19)

    at_once(*[work] * 4)
    assert not registration.registry.is_registered_op("aten::cummax", 19)


@pytest.mark.parametrize("opset", [8, 21, "20", True])
def test_opsets_that_the_exporter_does_not_do(opset):
    with pytest.raises(UsageError, match="supports opset 9 to 20"):
        opbridge.register_symbolics(opset)


def test_what_is_registered_is_no_users_registration():
    """opbridge itself takes what users registered with torch; not its own."""
    with opbridge.register_symbolics(20):
        program = opbridge.export(module(lambda x: x.cummax(1)[0]), (X,), verify=False)
    assert "user" not in program.plan.rows[0].how
