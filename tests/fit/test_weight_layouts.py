"""The file holds weights as they are used."""

from __future__ import annotations

import onnx
import pytest
import torch
from helpers.handmade import onnx_model
from helpers.matching import assert_matches

import opbridge
from opbridge.fit.weight_layouts import store_as_used
from opbridge.onnx.torch_tensor import TorchTensor


def operators(program: opbridge.Program) -> list[str]:
    return [node.op_type for node in program.model.graph]


def constants(program: opbridge.Program) -> set[str]:
    return set(program.model.graph.initializers)


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def test_a_linear_holds_its_weight_transposed() -> None:
    model = torch.nn.Linear(5, 3)
    program = assert_matches(model, rows(2, 4, 5))
    assert operators(program) == ["MatMul", "Add"]
    assert constants(program) == {"weight_t", "bias"}


def test_the_weight_is_not_copied_before_it_is_written() -> None:
    model = torch.nn.Linear(5, 3)
    stored = opbridge.export(model, (rows(2, 4, 5),)).model.graph.initializers["weight_t"].const_value
    assert isinstance(stored, TorchTensor) and stored.tensor.data_ptr() == model.weight.data_ptr()
    with torch.no_grad():
        model.weight.fill_(7)
    assert (stored.numpy() == 7).all()


def test_a_matrix_by_a_linear_reads_its_weight_as_it_is() -> None:
    program = assert_matches(torch.nn.Linear(5, 3), rows(4, 5))
    assert operators(program) == ["Gemm"] and constants(program) == {"weight", "bias"}


def test_two_linears_with_one_weight_share_it_transposed() -> None:
    first, second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
    second.weight = first.weight
    program = assert_matches(torch.nn.Sequential(first, second), rows(2, 3, 6))
    assert constants(program) == {"0.weight_t", "0.bias", "1.bias"}


class Tied(torch.nn.Module):
    """An embedding whose weight is that of the output projection too."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.head = torch.nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(words))


def test_a_large_weight_that_is_also_read_as_it_is_is_stored_once() -> None:
    program = assert_matches(Tied(1000, 64), torch.tensor([[1, 2, 3]]))
    assert constants(program) == {"embedding.weight"}
    assert operators(program) == ["Gather", "Transpose", "MatMul"]


def test_a_small_one_is_stored_twice() -> None:
    program = assert_matches(Tied(10, 4), torch.tensor([[1, 2, 3]]))
    assert constants(program) == {"embedding.weight", "embedding.weight_t"}


class TiedByHand(Tied):
    """The same, with the weight transposed by `forward`."""

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.embedding(words) @ self.embedding.weight.t()


def test_a_weight_that_forward_transposes_is_stored_once() -> None:
    program = assert_matches(TiedByHand(1000, 64), torch.tensor([[1, 2, 3]]))
    assert constants(program) == {"embedding.weight"}
    assert operators(program) == ["Gather", "Transpose", "MatMul"]


class Layouts(torch.nn.Module):
    """A weight in two layouts and as it is."""

    def __init__(self, size: int, *, is_read: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(rows(size, size))
        self.is_read = is_read

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        turned, lifted = x @ self.weight.t(), x * self.weight[None]
        return (turned, lifted, x @ self.weight) if self.is_read else (turned, lifted)


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("size", [8, 200])
def test_several_layouts_of_a_weight(size: int, is_read: bool) -> None:
    program = assert_matches(Layouts(size, is_read=is_read), rows(2, size, size), rtol=1e-4, atol=1e-4)
    stored = [value.const_value for value in program.model.graph.initializers.values()]
    assert sum(tensor.nbytes for tensor in stored if tensor is not None) <= size * size * 4 + (1 << 16)


@pytest.mark.slow
def test_what_a_branch_and_a_loop_read() -> None:
    class Branches(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, self.one, self.other, (x,))

    x = rows(2, 3, 4).abs()
    program = assert_matches(Branches(), x, others=[(-x,)])
    assert not any(node.op_type == "Transpose" for node in program.model.graph.all_nodes())


def test_an_output_that_is_a_weight_transposed() -> None:
    class Turned(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(rows(3, 4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + 1, self.weight.t()

    assert_matches(Turned(), rows(2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.complex64])
def test_dtypes(dtype: torch.dtype) -> None:
    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(rows(5, 4).to(dtype))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight.t()

    program = assert_matches(Product(), rows(2, 3, 4).to(dtype))
    assert "weight" not in constants(program) or dtype.is_complex


@pytest.mark.parametrize("opset", [9, 12, 13, 21])
def test_opsets(opset: int) -> None:
    class Lifted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(rows(1, 3, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.unsqueeze(0) * self.weight.squeeze(0).unsqueeze(1) + self.weight.reshape(3, 2, 2)[:, None, 0, :1]

    program = assert_matches(Lifted(), rows(1, 4), opset_version=opset)
    onnx.checker.check_model(program.to_bytes(), full_check=True)


def test_a_single_number() -> None:
    x = rows(4, 6)
    assert_matches(lambda x: torch.nn.functional.prelu(x[0, 0], torch.tensor([0.3])), x)


@pytest.mark.slow
def test_a_trace() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    program = assert_matches(model, rows(2, 4, 5), capture="trace")
    assert "Transpose" not in operators(program)


@pytest.mark.parametrize("external_data", [False, True])
def test_files(tmp_path, external_data: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(50, 30), torch.nn.ReLU(), torch.nn.Linear(30, 20))
    path = tmp_path / "model.onnx"
    program = opbridge.export(model, (rows(2, 4, 50),), path, external_data=external_data)
    assert program.verification is not None and program.verification.ok
    assert opbridge.verify(path, model, (rows(2, 4, 50),)).ok
    stored = {tensor.name: tensor for tensor in onnx.load(path).graph.initializer}["0.weight_t"]
    expected = model[0].weight.detach().t().numpy()
    assert (onnx.numpy_helper.to_array(stored) == expected).all()
    assert {entry.key: entry.value for entry in stored.metadata_props} == {
        "opbridge.weight": "0.weight",
        "opbridge.layout": '[["transpose", 1, 0]]',
    }


def test_a_file_of_other_weights_is_told_from_a_wrong_operator(tmp_path) -> None:
    path, x = tmp_path / "model.onnx", rows(2, 4, 5)
    opbridge.export(torch.nn.Linear(5, 3), (x,), path)
    found = opbridge.verify(path, torch.nn.Linear(5, 3), (x,))
    assert "weights of the file differ from those of the model: 'bias', 'weight'" in found.describe_mismatch()


@pytest.mark.parametrize(
    ("node", "name", "shape"),
    [
        ("Transpose(w)", "w_t", [4, 3, 2]),
        ("Transpose<perm = [0, 2, 1]>(w)", "w_t", [2, 4, 3]),
        ("Reshape(w, whole)", "w_reshaped", [2, 12]),
        ("Gather<axis = 1>(w, last)", "w_2", [2, 4]),
        ("Gather(w, last)", None, []),  # out of bounds: for the runtime to say
        ("Gather(w, list)", None, []),
        ("Reshape(w, given)", None, []),
        ("Unsqueeze(w, ends)", "w_reshaped", [1, 2, 3, 4, 1]),
        ("Squeeze(w)", "w_reshaped", [2, 3, 4]),
        # Nodes that are not valid.
        ("Transpose<perm = [0, 0, 1]>(w)", None, []),
        ("Squeeze(w, list)", None, []),
        ("Unsqueeze(w, twice)", None, []),
        ("Reshape(w, list)", None, []),
    ],
)
def test_nodes(node: str, name: str | None, shape: list[int]) -> None:
    numbers = ", ".join(map(str, range(24)))
    model = onnx_model(
        f"""(float[n] x, int64[2] given) => (float[n] y) <float[2, 3, 4] w = {{{numbers}}}, int64[2] whole = {{0, -1}},
        int64 last = {{2}}, int64[1] list = {{0}},
        int64[2] ends = {{0, -1}}, int64[2] twice = {{0, 0}}> {{
            u = {node}
            s = ReduceSum<keepdims = 0>(u)
            y = Add(x, s)
        }}"""
    )
    store_as_used(model)
    stored = model.graph.initializers.get(name or "")
    assert (stored is not None) == (name is not None)
    if stored is not None:
        assert stored.const_value is not None
        assert list(stored.const_value.shape) == list(stored.const_value.numpy().shape) == shape
        assert "w" not in model.graph.initializers and len(model.graph) == 2
