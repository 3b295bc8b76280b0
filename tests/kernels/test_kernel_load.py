"""A library's operators in PyTorch: what kernels can be, and how they fail."""

from __future__ import annotations

import pytest
import torch
from helpers.threads import at_once
from kernels_loaded import MY_ADD, everything

import opbridge
from opbridge.cli import main

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
]


@pytest.fixture(scope="module")
def ops():
    return everything()


def cases():
    x = torch.randn(4, 5)
    yield "twice", (x,)
    yield "twice", (x.T,)
    yield "twice", (torch.empty(0, 3),)
    yield "pick", (x, torch.tensor([3, 0]))
    yield "affine", (x, None, x)
    yield "affine", (x, x, x)
    yield "blend", ([x, x], [x], x)
    yield "blend", ([], [], x)
    yield "total", (x, [x, x[:2]])
    yield "multiples", (x, 2)
    yield "negatives", ([x, x[0]],)
    yield "attributes", (x,)
    yield "attributes", (x, 5, 2.0, False, "", [1, 2, 3], [])
    yield "positive", (torch.tensor([-1.0, 2.0, 3.0]),)
    yield "windows", (x, 2, 2)
    yield "pieces", (x, 1)
    yield "cube", (x.double(),)
    yield "plus", (x.double(),)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_template_is_a_kernel_for_every_type(ops, dtype):
    x = torch.tensor([0, 1, 2, 63]).to(dtype)
    assert ops.twice(x).dtype == dtype
    assert ops.twice(x).tolist() == [0, 2, 4, 126]


def test_truth_values(ops):
    assert ops.twice(torch.tensor([True, False])).tolist() == [True, False]


def test_inputs_of_different_types(ops):
    x = torch.randn(4, 5)
    for kind in (torch.int64, torch.int32):
        rows = torch.tensor([3, 0, 3], dtype=kind)
        assert ops.pick(x, rows).equal(x[rows.long()])


def test_optional_inputs_and_attributes(ops):
    x, scale, bias = torch.randn(3, 4, 5)
    y, given = ops.affine(x, None, bias)
    assert y.equal(x + bias)
    assert given.tolist() == [0, 0]
    y, given = ops.affine(x, scale, bias, factor=0.5)
    torch.testing.assert_close(y, scale * x * 0.5 + bias)
    assert given.tolist() == [1, 1]


def test_lists_of_tensors(ops):
    a, b, c, d = torch.arange(16.0).reshape(4, 4)
    assert ops.blend([a, b], [c], d).equal(d + a + b - c)
    assert ops.blend([], [], d).equal(d)
    assert ops.total(a, []).item() == a.sum()
    assert ops.total(a, [b, c]).item() == (a + b + c).sum()


def test_lists_of_outputs(ops):
    x, y = torch.randn(4, 5), torch.randn(3)
    for count in range(4):
        found = ops.multiples(x, count)
        assert len(found) == count and all(each.equal(x * (k + 1)) for k, each in enumerate(found))
    sizes, found = ops.negatives([x, y])
    assert sizes.tolist() == [20, 3] and found[0].equal(-x) and found[1].equal(-y)
    below, above = ops.halves(y, 0.0)
    assert below.equal(y[y < 0]) and above.equal(y[y >= 0])
    with pytest.raises(RuntimeError, match="count has to be 0 or more"):
        ops.multiples(x, -1)


def test_attributes(ops):
    x = torch.zeros(1)
    assert ops.attributes(x).tolist() == [-3, 1e-3, 1, 5, *b"a'b c", 7, 7, 0.5, 2]
    assert ops.attributes(x, 5, 2.5, False, "", [1, 2, 3], []).tolist() == [5, 2.5, 0, 0, 1, 2, 3]
    assert ops.attributes(x, s="ä").tolist()[3:6] == [2, -61, -92]


def test_sizes_that_only_the_kernel_can_tell(ops):
    values, places = ops.positive(torch.tensor([-1.0, 2.0, 3.0]))
    assert values.tolist() == [2, 3]
    assert places.tolist() == [1, 2]
    assert ops.positive(torch.zeros(0))[0].shape == (0,)


def test_scratch_memory_and_threads(ops):
    x = torch.randn(9, 100)
    torch.testing.assert_close(ops.windows(x, 10, 3), x.unfold(1, 10, 3).sum(-1))
    assert ops.windows(x, 101).shape == (9, 0)


def test_pieces_cover_everything_once(ops):
    for count in (0, 1, 7, 1000):
        pieces = ops.pieces(torch.zeros(count), 3)
        assert pieces.tolist() == sorted(pieces.tolist())
        assert all(times >= 3 for times in torch.bincount(pieces).tolist()) or count < 3
    with pytest.raises(RuntimeError, match="kerneltest::pieces: element [0-9]+ is no number"):
        ops.pieces(torch.full((100,), float("nan")), 1)


def test_many_threads_call_at_once(ops):
    x = torch.randn(64, 100)
    expected = x.unfold(1, 10, 3).sum(-1)

    def calling():
        for _ in range(50):
            assert torch.allclose(ops.windows(x, 10, 3), expected, atol=1e-4)

    at_once(*[calling] * 4)


def test_inputs_that_are_not_contiguous(ops):
    x = torch.randn(4, 6, 5)
    for view in (x.permute(2, 0, 1), x[:, ::2], x[1:2].expand(4, 6, 5), x.flip(0), x[..., 3], torch.randn(()), x[:0]):
        result = ops.twice(view)
        assert result.equal(2 * view)
        assert result.is_contiguous()
    channels_last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert ops.twice(channels_last).equal(2 * channels_last)
    imaginary = torch.randn(4, dtype=torch.complex64).conj().imag
    assert imaginary.is_neg()
    assert ops.twice(imaginary).equal(2 * imaginary)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda ops, x: ops.pick(x, torch.tensor([9])), "kerneltest::pick: row 9 is not there"),
        (lambda ops, x: ops.pick(x[0], torch.tensor([0])), "'x' has 1 dimensions, but the kernel expects 2: (5)"),
        (lambda ops, x: ops.pick(x, torch.tensor([0.5])), "no kernel supports (x: float32, rows: float32); there are"),
        (lambda ops, x: ops.twice(x + 1j), "no kernel supports (x: an unsupported element type)"),
        (lambda ops, x: ops.affine(x, x[0], x), "scale and bias must have the shape of x"),
        (lambda ops, x: ops.windows(x, 0), "size and step must be positive"),
        (lambda ops, x: ops.windows(x, -(2**63)), "size and step must be positive"),
        (lambda ops, x: ops.windows(x, 2**63 - 1, 2**63 - 1), None),
        (lambda ops, x: ops.fail(x, 1), "kerneltest::fail: the words of the kernel"),
        (lambda ops, x: ops.fail(x, 2), "an exception that is not a std::exception"),
        (lambda ops, x: ops.fail(x, 3), "output 0 is already allocated"),
        (lambda ops, x: ops.fail(x, 4), "axis 7 of a tensor with 2 dimensions"),
        (lambda ops, x: ops.fail(x, 5), "the shape function returns 2 shapes for 1 outputs"),
        (lambda ops, x: ops.fail(x, 6), "output 0 has a negative size: (-1)"),
        (lambda ops, x: ops.fail(x, 7), "output 0 exceeds the maximum memory size"),
        (lambda ops, x: ops.fail(x, 8), "a size computed from the arguments exceeds 64 bits"),
        (lambda ops, x: ops.fail(x, 9), "a size is divided by zero"),
        (lambda ops, x: ops.fail(x, 10), "the kernel has not called allocate() for output 0"),
        (lambda ops, x: ops.fail(x, 11), "axis 5 of a tensor with 2 dimensions"),
    ],
)
def test_errors_arrive_with_their_words(ops, call, said):
    x = torch.randn(4, 5)
    if said is None:
        assert call(ops, x).numel() == 0
        return
    with pytest.raises(RuntimeError) as caught:
        call(ops, x)
    assert said in str(caught.value)


@pytest.mark.parametrize(("name", "args"), list(cases()), ids=lambda value: value if isinstance(value, str) else "")
def test_opcheck(ops, name, args):
    found = torch.library.opcheck(getattr(ops, name).op, args)
    assert set(found.values()) == {"SUCCESS"}


def test_an_overload(ops):
    x = torch.randn(3)
    assert torch.ops.kerneltest.shifted.number(x, 1.5).equal(x + 1.5)
    assert ops.shifted_number(x, 1.5).equal(x + 1.5)


@pytest.mark.slow
def test_a_gradient_that_is_a_kernel(ops):
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return ops.cube_backward(gradient, x)

    ops.cube.register_autograd(backward)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ops.cube, (x,))
    torch.library.opcheck(ops.cube.op, (x,))
    compiled = torch.compile(lambda x: ops.cube(x).sum(), backend="aot_eager", fullgraph=True)
    (gradient,) = torch.autograd.grad(compiled(x), x)
    torch.testing.assert_close(gradient, 3 * x * x)


@pytest.mark.slow
def test_compiled_with_sizes_that_vary(ops):
    torch._dynamo.reset()
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: ops.windows(x, 3, 2) + 1, backend=backend, fullgraph=True, dynamic=True)
    for shape in ((4, 9), (6, 12), (5, 30)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), x.unfold(1, 3, 2).sum(-1) + 1)
    assert len(seen) == 1


def test_sizes_are_expressions_of_a_capture(ops):
    class Model(torch.nn.Module):
        def forward(self, x):
            return ops.windows(x, 3, 2)

    batch, time = torch.export.Dim("batch"), torch.export.Dim("time", min=8)
    exported = torch.export.export(Model(), (torch.randn(4, 9),), dynamic_shapes=({0: batch, 1: time},))
    (node,) = (node for node in exported.graph.nodes if node.op == "call_function")
    assert all(isinstance(size, torch.SymInt) for size in node.meta["val"].shape)
    for shape in ((2, 8), (9, 31)):
        x = torch.randn(shape)
        torch.testing.assert_close(exported.module()(x), x.unfold(1, 3, 2).sum(-1))


def test_conditions_of_the_shape_function_hold_in_the_capture(ops):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return ops.affine(x, None, y)[0]

    args = (torch.randn(4, 5), torch.randn(4, 5))
    auto = torch.export.Dim.AUTO
    exported = torch.export.export(Model(), args, dynamic_shapes=({0: auto, 1: auto}, {0: auto, 1: auto}))
    with pytest.raises(Exception, match="(?i)expected|guard|equal"):
        exported.module()(torch.randn(4, 5), torch.randn(3, 5))
    with pytest.raises(Exception, match="scale and bias must have the shape of x"):
        torch.export.export(Model(), (torch.randn(4, 5), torch.randn(3, 5)))


@pytest.mark.slow
def test_a_file_that_changes_replaces_its_operators(tmp_path):
    source = tmp_path / "changing.cpp"
    text = MY_ADD.read_text().replace("mylib", "changing")
    source.write_text(text)
    first = opbridge.load(source, flags=["-O0"])
    assert opbridge.load(source, flags=["-O0"]) is first
    one = torch.ones(2)
    assert first.my_add(one, one).tolist() == [3, 3]
    source.write_text(text.replace("+ b[i]", "- b[i]"))
    second = opbridge.load(source, flags=["-O0"])
    assert second.my_add(one, one).tolist() == [1, 1]
    assert torch.ops.changing.my_add(one, one).tolist() == [1, 1]
    torch.library.opcheck(second.my_add.op, (one, one))


@pytest.mark.slow
def test_a_name_that_torch_has_already(tmp_path):
    source = tmp_path / "taken.cpp"
    source.write_text(MY_ADD.read_text().replace("mylib::my_add", "aten::relu"))
    with pytest.raises(opbridge.KernelError, match="taken.so cannot be loaded into PyTorch"):
        opbridge.load(source, flags=["-O0"])
    assert torch.relu(torch.tensor(-1.0)) == 0


def test_the_operators_object(ops):
    assert "windows" in dir(ops)
    assert "twice" in repr(ops)
    assert {each.name for each in ops} >= {"kerneltest::twice", "kerneltest::shifted.number"}
    assert repr(ops.twice) == "<operator kerneltest::twice(Tensor x) -> Tensor>"
    with pytest.raises(AttributeError, match="has no operator 'nothing', only twice"):
        ops.nothing  # noqa: B018  (looking it up is what raises)
    with pytest.raises(opbridge.UsageError, match="The library nothing.so"):
        opbridge.load("nothing.so")
    with pytest.raises(opbridge.UsageError, match="either one built library"):
        opbridge.load(ops.path, debug=True)


@pytest.mark.slow
def test_a_replaced_operator_leaves_nothing_of_its_gradient(tmp_path):
    """torch lists an operator with a gradient and no schema, and stops at it when it decomposes any graph."""
    source = tmp_path / "replaced.cpp"
    text = MY_ADD.read_text().replace("mylib::my_add", "replacedlib::first")
    source.write_text(text)
    ops = opbridge.load(source)
    ops.first.register_autograd(lambda ctx, grad: (grad * ctx.alpha, grad))
    x = torch.ones(3, requires_grad=True)
    ops.first(x, x).sum().backward()
    assert x.grad.tolist() == [3.0] * 3
    other = text.replace("replacedlib::first", "replacedlib::second")
    source.write_text(text + other.partition("}")[2].rpartition("}")[2])  # both
    opbridge.load(source)
    source.write_text(other)
    opbridge.load(source)
    assert not hasattr(torch.ops.replacedlib, "first")
    torch.export.export(torch.nn.ReLU(), (torch.ones(2),)).run_decompositions({})


@pytest.mark.slow
def test_a_file_that_registers_no_kernel_is_an_error(tmp_path, capsys):
    source = tmp_path / "empty.cpp"
    source.write_text("#include <opbridge/kernel.h>\n")
    with pytest.raises(opbridge.KernelError, match=r"empty\.cpp registers no kernel\. Expected .*OPBRIDGE_KERNEL"):
        opbridge.load(source)
    assert main(["build", str(source)]) == 1
    assert "registers no kernel" in capsys.readouterr().err and not source.with_suffix(".so").exists()
