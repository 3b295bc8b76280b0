"""Classes of torch.autograd.Function with a `symbolic`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.threads import at_once
from torch.utils.checkpoint import checkpoint

import opbridge
from opbridge.errors import CaptureError, MissingOperators, UsageError


class Twice(torch.autograd.Function):
    """2a + b, in NumPy, which nothing can trace."""

    @staticmethod
    def forward(ctx, a, b):
        return torch.from_numpy(2 * a.detach().numpy() + b.detach().numpy())

    @staticmethod
    def symbolic(g, a, b):
        two = g.op("Constant", value_t=torch.tensor(2.0))
        return g.op("Add", g.op("Mul", two, a), b)


twice = Twice.apply  # as code keeps it


def operators(program) -> list[str]:
    """The nodes without the constants."""
    return [node.op_type for node in program.model.graph if node.op_type != "Constant"]


def shapes(program) -> list[list[int | str]]:
    return [
        [size if isinstance(size, int) else size.value for size in output.shape]
        for output in program.model.graph.outputs
    ]


def test_the_nodes_are_those_that_symbolic_builds():
    program = opbridge.export(lambda x, y: twice(x, y), (torch.randn(2, 3), torch.randn(2, 3)))
    assert operators(program) == ["Mul", "Add"]
    assert program.verification.ok
    (row,) = program.plan.rows
    assert (row.operator, row.route) == ("python::Twice", "standard")
    assert row.sources[0].file.endswith("test_autograd_functions.py")
    metadata = program.model.graph[0].metadata_props
    assert metadata["opbridge.operator"] == "python::Twice"
    assert "test_autograd_functions.py" in metadata["opbridge.source"]


@pytest.mark.slow
def test_dynamic_sizes_by_what_onnx_infers():
    example = torch.randn(2, 3), torch.randn(2, 3)
    program = opbridge.export(
        lambda x, y: torch.relu(twice(x, y)), example, dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}}
    )
    assert shapes(program) == [["n", 3]]
    session = program.session()
    for rows in (0, 1, 7):
        x, y = torch.randn(rows, 3), torch.randn(rows, 3)
        (found,) = session.run(None, {"x": x.numpy(), "y": y.numpy()})
        np.testing.assert_allclose(found, (2 * x + y).relu().numpy(), rtol=1e-6)


class Halves(torch.autograd.Function):
    """Several outputs, with other arguments than tensors, and a None among the outputs."""

    @staticmethod
    def forward(ctx, x, sizes, mode="first", scale=None):
        first, second = x.split(sizes, 1)
        return (first * (scale or 1.0), None, second) if mode == "first" else (second, None, first)

    @staticmethod
    def symbolic(g, x, sizes, mode="first", scale=None):
        first, second = g.op("Split", x, g.op("Constant", value_t=torch.tensor(sizes)), axis_i=1, outputs=2)
        if scale is not None:
            first = g.op("Mul", first, torch.tensor(scale))
        return (first, second) if mode == "first" else (second, first)


@pytest.mark.parametrize("dynamic", [False, True])
def test_used_many_times_with_other_arguments(dynamic):
    def model(x):
        a, none, b = Halves.apply(x, (2, 3), "first", 3.0)
        c, _, d = Halves.apply(x * 2, (1, 4), "second")
        assert none is None
        return a, b, c, d

    shapes = {"x": {0: "n"}} if dynamic else None
    program = opbridge.export(model, (torch.randn(4, 5),), dynamic_shapes=shapes)
    assert program.verification.ok
    assert operators(program).count("Split") == 2


class Listed(torch.autograd.Function):
    """A tuple of tensors among the arguments."""

    @staticmethod
    def forward(ctx, tensors, weights, bias):
        total = sum(weight * tensor for weight, tensor in zip(weights, tensors, strict=True))
        return total if bias is None else total + bias

    @staticmethod
    def symbolic(g, tensors, weights, bias):
        scaled = [g.op("Mul", tensor, torch.tensor(weight)) for tensor, weight in zip(tensors, weights, strict=True)]
        total = g.op("Sum", *scaled)
        return total if bias is None else g.op("Add", total, bias)


def test_tuples_of_tensors_and_none():
    x, y = torch.randn(3), torch.randn(3)
    program = opbridge.export(
        lambda x, y: (Listed.apply((x, y), [1.5, -2.0], None), Listed.apply([x], (3.0,), y)), (x, y)
    )
    assert program.verification.ok
    assert operators(program) == ["Mul", "Mul", "Sum", "Mul", "Sum", "Add"]


class Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.exp()

    @staticmethod
    def symbolic(g, x):
        return g.op("Exp", x)


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return Inner.apply(x) + 1

    @staticmethod
    def symbolic(g, x):
        return g.op("Add", g.op("Exp", x), torch.tensor(1.0))


class Plain(torch.autograd.Function):
    """Without a symbolic: traced, and what it calls is not."""

    @staticmethod
    def forward(ctx, x):
        return Inner.apply(x.sin()).cos()


def test_nested_functions():
    program = opbridge.export(lambda x: Outer.apply(x) * Plain.apply(x), (torch.randn(3),))
    assert [row.operator for row in program.plan.rows] == [
        "python::Outer",
        "aten::sin",
        "python::Inner",
        "aten::cos",
        "aten::mul.Tensor",
    ]


@pytest.mark.parametrize("reentrant", [False, True])
def test_inside_a_checkpoint(reentrant):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def block(self, x):
            return twice(self.linear(x), x)

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=reentrant)

    program = opbridge.export(Model(), (torch.randn(2, 3),))
    assert program.verification.ok
    assert "python::Twice" in [row.operator for row in program.plan.rows]


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return torch.from_numpy(x.numpy() * factor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]

    @staticmethod
    def symbolic(g, x, factor):
        return g.op("Mul", x, torch.tensor(factor))


def test_a_forward_without_ctx():
    program = opbridge.export(lambda x: WithSetup.apply(x, 3.0), (torch.randn(2),), dynamic_shapes={"x": {0: "n"}})
    assert operators(program) == ["Mul"]
    assert shapes(program) == [["n"]]


class Zoom(torch.autograd.Function):
    """Its output's size depends on the values of an input."""

    @staticmethod
    def forward(ctx, x, scale):
        return torch.nn.functional.interpolate(x, scale_factor=scale.tolist(), mode="nearest")

    @staticmethod
    def symbolic(g, x, scale):
        empty = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
        scales = g.op("Concat", g.op("Constant", value_t=torch.ones(2)), scale, axis_i=0)
        return g.op(
            "Resize",
            x,
            empty,
            scales,
            mode_s="nearest",
            nearest_mode_s="floor",
            coordinate_transformation_mode_s="asymmetric",
        )


def test_sizes_that_depend_on_values():
    program = opbridge.export(
        lambda x, scale: Zoom.apply(x, scale), (torch.randn(1, 1, 2, 2), torch.tensor([2.0, 2.0]))
    )
    assert program.verification.ok
    found = program.session().run(None, {"x": np.ones((1, 1, 2, 2), np.float32), "scale": np.array([3, 4], np.float32)})
    assert found[0].shape == (1, 1, 6, 8)
    assert not all(isinstance(size, int) for size in shapes(program)[0])


def test_sizes_that_the_model_has_to_know_are_fixed_with_a_note():
    def model(x, scale):
        large = Zoom.apply(x, scale)
        return large[..., :3] if large.shape[-1] > 3 else large

    plan = opbridge.check(model, (torch.randn(1, 1, 2, 2), torch.tensor([2.0, 2.0])))
    assert plan.ok
    assert any("Zoom" in note and "fixed to those of the example" in note for note in plan.notes)


class Kernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(np.repeat(x.numpy(), 2, 0))

    @staticmethod
    def symbolic(g, x):
        return g.op("mine::Repeat", x)


def test_dynamic_sizes_that_nobody_knows():
    with pytest.raises(
        CaptureError,
        match=r"output shapes of Kernel cannot be inferred.*test_autograd_functions\.py:\d+.*shape_of\(Kernel\)",
    ):
        opbridge.check(lambda x: Kernel.apply(x) + 1, (torch.randn(2, 3),), dynamic_shapes={"x": {0: "n"}})


def test_a_shape_function():
    class Known(Kernel):
        pass

    @opbridge.shape_of(Known)
    def shape(x):
        return (x.shape[0] * 2, x.shape[1])

    program = opbridge.export(
        lambda x: Known.apply(x) + 1,
        (torch.randn(2, 3),),
        dynamic_shapes={"x": {0: "n"}},
        custom_opsets={"mine": 1},
        verify=False,
    )
    assert shapes(program) == [["2*n", 3]]

    @opbridge.shape_of(Known)
    def wrong(x):
        return (x.shape[0],)

    with pytest.raises(CaptureError, match=r"shape function .*wrong.*of the same rank"):
        opbridge.check(lambda x: Known.apply(x), (torch.randn(2, 3),), dynamic_shapes={"x": {0: "n"}})
    with pytest.raises(UsageError, match="autograd"):
        opbridge.shape_of(int)


def test_what_depends_on_no_input_is_still_built():
    class Quantised(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3))

        def forward(self, x):
            return x + Inner.apply(self.weight)

    program = opbridge.export(Quantised(), (torch.randn(3),))
    assert operators(program) == ["Exp", "Add"]


def test_forward_is_as_before_and_other_threads_run_it():
    before = vars(Twice)["forward"]
    results = []
    x, y = torch.ones(2), torch.ones(2)

    class Model(torch.nn.Module):
        def forward(self, a, b):
            if torch.onnx.is_in_onnx_export():
                results.extend(at_once(lambda: twice(x, y)))
            return twice(a, b)

    opbridge.export(Model(), (x, y))
    assert vars(Twice)["forward"] is before
    assert results and all(torch.equal(result, torch.full((2,), 3.0)) for result in results)
    with pytest.raises(UsageError):
        opbridge.export(lambda x: twice(x, "no tensor"), (x,))
    assert vars(Twice)["forward"] is before


@pytest.mark.slow
def test_several_threads_export_at_once():
    def export():
        program = opbridge.export(lambda x, y: twice(x, y), (torch.randn(2, 3), torch.randn(2, 3)))
        assert operators(program) == ["Mul", "Add"]

    at_once(*[export] * 4)


def test_a_class_defined_while_the_model_runs():
    def model(x):
        class Late(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.exp()

            @staticmethod
            def symbolic(g, x):
                return g.op("Exp", x)

        return Late.apply(x)

    with pytest.raises(CaptureError, match="Late.*defined inside forward"):
        opbridge.export(model, (torch.randn(2),))


def test_gradients_inside_the_model():
    def model(x):
        x = x.detach().requires_grad_()
        (grad,) = torch.autograd.grad((x**2).sum(), x)
        return Inner.apply(grad)

    program = opbridge.export(model, (torch.randn(3),))
    assert "Exp" in operators(program)


def test_symbolic_of_another_type_than_forward():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x > 0

        @staticmethod
        def symbolic(g, x):
            return g.op("Relu", x)

    with pytest.raises(
        MissingOperators, match=r"Wrong\.symbolic \(.*test_autograd_functions\.py:\d+\).*float32.*bool.*Cast"
    ):
        opbridge.export(lambda x: Wrong.apply(x), (torch.randn(2),))


class Handled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, least):
        return x.clamp(min=least)


def with_context(ctx, g, *args, **kwargs):
    assert ctx.cur_node.kind() == "prim::PythonOp"
    return g.op("Max", args[0], torch.tensor(args[1]))


def with_node(g, n, *args, **kwargs):
    assert kwargs["name"] == "Handled" and n.pyname() == "Handled"
    result = g.op("Max", args[0], torch.tensor(args[1]), outputs=n.outputsSize())
    return result.setType(n.output().type())


def with_original(g, *args, **kwargs):
    assert g.original_node.scalar_args() == [0.5]
    return [g.op("Max", args[0], torch.tensor(args[1]))]


@pytest.mark.parametrize("handler", [with_context, with_node, with_original])
@pytest.mark.parametrize("spelling", ["prim::PythonOp", "::prim_PythonOp"])
def test_one_handler_for_all_functions(handler, spelling):
    torch.onnx.register_custom_op_symbolic(spelling, handler, 1)
    try:
        program = opbridge.export(lambda x: Handled.apply(x, 0.5) + twice(x, x), (torch.randn(3),))
    finally:
        torch.onnx.unregister_custom_op_symbolic(spelling, 1)
    assert operators(program) == ["Max", "Mul", "Add", "Add"]
    assert program.verification.ok


def test_one_tensor_given_twice():
    x = torch.randn(2, 3)
    program = opbridge.export(lambda a, b: twice(a, b) - b, (x, x))
    assert program.verification.ok
