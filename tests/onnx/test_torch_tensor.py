from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
import torch

from opbridge.base.dtypes import onnx_dtype, torch_dtype
from opbridge.errors import UsageError
from opbridge.onnx import torch_tensor
from opbridge.onnx.torch_tensor import _BUFFER_BYTES, TorchTensor

DTYPES = {
    torch.float32: ir.DataType.FLOAT,
    torch.float64: ir.DataType.DOUBLE,
    torch.float16: ir.DataType.FLOAT16,
    torch.bfloat16: ir.DataType.BFLOAT16,
    torch.float8_e4m3fn: ir.DataType.FLOAT8E4M3FN,
    torch.float8_e4m3fnuz: ir.DataType.FLOAT8E4M3FNUZ,
    torch.float8_e5m2: ir.DataType.FLOAT8E5M2,
    torch.float8_e5m2fnuz: ir.DataType.FLOAT8E5M2FNUZ,
    torch.float8_e8m0fnu: ir.DataType.FLOAT8E8M0,
    torch.int8: ir.DataType.INT8,
    torch.int16: ir.DataType.INT16,
    torch.int32: ir.DataType.INT32,
    torch.int64: ir.DataType.INT64,
    torch.uint8: ir.DataType.UINT8,
    torch.uint16: ir.DataType.UINT16,
    torch.uint32: ir.DataType.UINT32,
    torch.uint64: ir.DataType.UINT64,
    torch.bool: ir.DataType.BOOL,
}


class Recorder:
    """A file that remembers what was written to it, and from where."""

    def __init__(self, tensor: TorchTensor) -> None:
        self.parts: list[bytes] = []
        self.addresses: list[int] = []
        tensor.tofile(self)

    def write(self, data: memoryview) -> None:
        self.parts.append(bytes(data))
        self.addresses.append(np.asarray(data).__array_interface__["data"][0])


def written(tensor: TorchTensor) -> bytes:
    return b"".join(Recorder(tensor).parts)


@pytest.mark.parametrize(("dtype", "onnx"), DTYPES.items(), ids=str)
def test_dtype_bytes_and_numbers(dtype, onnx):
    numbers = torch.tensor([[0.0, 1.0, 2.0], [4.0, 8.0, 16.0]])
    tensor = TorchTensor(numbers.to(dtype), "w")
    assert tensor.dtype == onnx == onnx_dtype(dtype)
    assert torch_dtype(onnx) == dtype
    assert tensor.shape == (2, 3)
    array = tensor.numpy()
    assert array.dtype == onnx.numpy()
    if dtype != torch.float8_e8m0fnu:  # has no zero
        np.testing.assert_array_equal(array.astype(np.float32), numbers.to(dtype).float().numpy())
    assert tensor.nbytes == array.nbytes == 6 * dtype.itemsize
    # onnx_ir's own tensor over the same numbers says what the file has to hold.
    assert ir.Tensor(array, dtype=onnx).tobytes() == tensor.tobytes() == written(tensor) == bytes(tensor.raw())


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.float8_e5m2])
def test_scalars_and_empty_tensors(shape, dtype):
    source = torch.ones(shape).to(dtype)
    tensor = TorchTensor(source)
    pair = (2,) if dtype.is_complex else ()
    assert tensor.shape == shape + pair
    assert tensor.numpy().shape == shape + pair
    assert tensor.nbytes == source.numel() * dtype.itemsize == len(tensor.tobytes()) == len(written(tensor))
    assert tensor.size == tensor.numpy().size


@pytest.mark.parametrize(("dtype", "part"), [(torch.complex64, np.float32), (torch.complex128, np.float64)])
def test_complex_numbers_are_pairs(dtype, part):
    tensor = TorchTensor(torch.tensor([1 + 2j, 3 - 4j], dtype=dtype))
    assert tensor.dtype == ir.DataType.from_numpy(np.dtype(part))
    np.testing.assert_array_equal(tensor.numpy(), np.array([[1, 2], [3, -4]], dtype=part))
    assert tensor.tobytes() == np.array([[1, 2], [3, -4]], dtype=part).tobytes()


@pytest.mark.parametrize(
    "view",
    [lambda z: z.conj(), lambda z: z.conj().imag, lambda z: z.conj().imag[:1, :1], lambda z: z.mH, lambda z: z.real],
)
def test_views_that_are_not_what_their_memory_holds(view):
    source = view(torch.randn(3, 4, dtype=torch.complex64))
    tensor = TorchTensor(source)
    expected = source.resolve_conj().resolve_neg().contiguous()
    expected = torch.view_as_real(expected) if expected.is_complex() else expected
    assert tensor.tobytes() == expected.numpy().tobytes()
    assert written(tensor) == expected.numpy().tobytes()
    np.testing.assert_array_equal(tensor.numpy(), expected.numpy())


def test_a_contiguous_tensor_is_not_copied():
    parameter = torch.nn.Parameter(torch.zeros(2, 3, dtype=torch.bfloat16))
    tensor = TorchTensor(parameter)
    for view in (tensor.raw(), tensor.numpy()):
        assert np.asarray(view).__array_interface__["data"][0] == parameter.data_ptr()
    assert Recorder(tensor).addresses == [parameter.data_ptr()]
    with torch.no_grad():
        parameter.fill_(1)  # what the optimizer changes before the file is written is in the file
    assert tensor.tobytes() == torch.ones(2, 3, dtype=torch.bfloat16).view(torch.int16).numpy().tobytes()


@pytest.mark.parametrize(
    "source",
    [
        torch.arange(60).reshape(4, 15).t(),
        torch.arange(60).reshape(4, 15)[:, ::2],
        torch.arange(5).expand(7, 5),
        torch.arange(120).reshape(2, 3, 4, 5).permute(3, 1, 0, 2),
        torch.arange(60).reshape(1, 6, 10).transpose(1, 2),
        torch.arange(24).to(torch.complex64).reshape(4, 6).t(),
        torch.arange(10)[::10],
    ],
    ids=["transposed", "strided", "expanded", "permuted", "one row", "complex", "one element"],
)
@pytest.mark.parametrize("limit", [1, 16, 40, 100, 10**6])
def test_what_is_not_contiguous_goes_through_a_small_buffer(monkeypatch, source, limit):
    monkeypatch.setattr(torch_tensor, "_BUFFER_BYTES", max(limit, source.element_size()))
    tensor = TorchTensor(source)
    file = Recorder(tensor)
    assert b"".join(file.parts) == TorchTensor(source.contiguous()).tobytes() == tensor.tobytes()
    storage = source.untyped_storage()
    copied = set()
    for part, address in zip(file.parts, file.addresses, strict=True):
        if not 0 <= address - storage.data_ptr() < storage.nbytes():
            assert len(part) <= _BUFFER_BYTES
            copied.add(address)
    assert len(copied) <= 1
    np.testing.assert_array_equal(tensor.numpy(), TorchTensor(source.contiguous()).numpy())


def test_identity_tells_tied_tensors():
    weight = torch.nn.Parameter(torch.randn(4, 4))

    def identity(tensor):
        return TorchTensor(tensor).identity()

    assert identity(weight) == identity(weight.view(16)) == identity(weight.detach()) is not None
    assert identity(weight.t()) == identity(weight.t()) is not None
    assert identity(torch.empty(0)) is None
    assert identity(torch.zeros(2, dtype=torch.complex64).conj()) is None
    different = [weight, weight.t(), weight[:2], weight[2:], weight.clone(), weight[:, :2], weight[::2]]
    assert len({identity(tensor) for tensor in different}) == len(different)


def test_it_is_a_tensor_for_onnx_ir():
    tensor = TorchTensor(torch.tensor([1.5, 2.5]), "w", doc_string="two")
    assert isinstance(tensor, ir.TensorProtocol)
    proto = ir.to_proto(tensor)
    assert (proto.name, proto.doc_string, list(proto.dims)) == ("w", "two", [2])
    np.testing.assert_array_equal(ir.from_proto(proto).numpy(), [1.5, 2.5])
    np.testing.assert_array_equal(np.asarray(tensor, dtype=np.float64), [1.5, 2.5])
    np.testing.assert_array_equal(np.from_dlpack(tensor), [1.5, 2.5])
    assert repr(tensor) == "TorchTensor<FLOAT,[2]>(name='w')"


def test_weights_without_numbers_are_refused_by_name():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(3)
    for source in (fake, torch.empty(3, device="meta")):
        tensor = TorchTensor(source, "layer.weight")
        assert tensor.nbytes == 12
        for read in (tensor.raw, tensor.tobytes, tensor.numpy, tensor.identity):
            with pytest.raises(UsageError, match=r"'layer\.weight' has no data in memory.*to_empty"):
                read()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.eye(3).to_sparse(), r"'w' is a sparse_coo tensor.*to_dense"),
        (lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "'w' is a nested tensor"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), r"torch\.qint8.*dequantize"),
    ],
    ids=["sparse", "nested", "quantized"],
)
def test_tensors_that_onnx_cannot_hold(make, words):
    with pytest.raises(UsageError, match=words):
        TorchTensor(make(), "w")


def test_dtypes_without_a_counterpart():
    assert onnx_dtype(torch.complex64) == ir.DataType.COMPLEX64
    assert torch_dtype(ir.DataType.COMPLEX128) == torch.complex128
    with pytest.raises(UsageError, match="ONNX's STRING"):
        torch_dtype(ir.DataType.STRING)
    with pytest.raises(UsageError, match=r"torch\.quint4x2"):
        onnx_dtype(torch.quint4x2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.bool, torch.complex64])
@pytest.mark.parametrize("shape", [(7, 5), (64, 3), (3, 64), (1, 9), (9, 1), (0, 4)])
@pytest.mark.parametrize("limit", [1, 100, 1000, 10**6])
def test_a_transposed_matrix_is_written_tile_by_tile(monkeypatch, dtype, shape, limit):
    monkeypatch.setattr(torch_tensor, "_TILE_BYTES", limit)
    monkeypatch.setattr(torch_tensor, "_MIN_PIECE_BYTES", 1)
    source = (torch.randn(*shape) * 9).to(dtype)
    for matrix in (source.t(), source[:, 1:].t(), torch.nn.Parameter(source, source.is_floating_point()).t()):
        file = Recorder(TorchTensor(matrix))
        assert b"".join(file.parts) == TorchTensor(matrix.contiguous()).tobytes()


def test_its_tiles_share_one_small_buffer(monkeypatch):
    monkeypatch.setattr(torch_tensor, "_TILE_BYTES", 1000)
    monkeypatch.setattr(torch_tensor, "_MIN_PIECE_BYTES", 1)
    file = Recorder(TorchTensor(torch.randn(30, 64).t()))
    assert len(file.parts) == 8 and len(file.parts[0]) == 960 and len(set(file.addresses)) == 1
