from __future__ import annotations

import pytest
import torch
from helpers.handmade import onnx_model

from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import session
from opbridge.verification.exchange import dtype_of, quantized_as, run, runtime_form

NAMES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8e4m3fn",
    torch.float8_e5m2: "float8e5m2",
    torch.int8: "int8",
    torch.uint16: "uint16",
    torch.int64: "int64",
    torch.bool: "bool",
}


@pytest.mark.parametrize("dtype", list(NAMES))
def test_values_come_back_as_they_went_in(dtype: torch.dtype) -> None:
    name = NAMES[dtype]
    assert dtype_of(f"tensor({name})") == dtype
    loaded = session(serialize.to_bytes(onnx_model(f"({name}[n, 3] x) => ({name}[n, 3] y) {{ y = Identity(x) }}")))
    values = torch.tensor([[0, 1, 2], [3, 1, 0]]).to(torch.float32).to(dtype)
    for given in (values, values[:0], values[:, [2, 1, 0]]):
        (back,) = run(loaded, {"x": given})
        assert back.dtype == dtype and back.shape == given.shape
        assert torch.equal(back.to(torch.float64), given.to(torch.float64))


def test_scalars_and_what_is_not_contiguous() -> None:
    loaded = session(
        serialize.to_bytes(
            onnx_model("(float x, float[n, m] y) => (float[n, m] z, float x2) { z = Mul(x, y) x2 = Abs(x) }")
        )
    )
    y = torch.arange(6.0).reshape(2, 3).t()
    z, x = run(loaded, {"x": torch.tensor(-2.0, requires_grad=True), "y": y})
    assert torch.equal(z, y * -2) and x.shape == () and x.item() == 2
    assert run(loaded, {"x": x, "y": y}, ["x2"]) == [torch.tensor(2.0)]


def test_complex_tensors_enter_as_pairs() -> None:
    values = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert runtime_form(values).tolist() == [[1, -2], [3, 4]]
    assert runtime_form(values.imag).tolist() == [-2, 4]


def test_types_without_a_tensor() -> None:
    assert dtype_of("seq(tensor(float))") is None
    assert dtype_of("tensor(string)") is None


@pytest.mark.parametrize(
    ("own", "actual", "expected"),
    [
        (torch.int8, [[0, 128, 255], torch.uint8], [-128, 0, 127]),
        (torch.int8, [[-128.0, 0.0, 127.0], torch.float32], [-128, 0, 127]),
        (torch.uint8, [[0.0, 3.0, 255.0], torch.float32], [0, 3, 255]),
        (torch.uint8, [[0.0, 3.5, 255.0], torch.float32], None),
        (torch.uint8, [[0.0, 3.0, 256.0], torch.float32], None),
        (torch.uint8, [[0.0, 3.0, float("nan")], torch.float32], None),
        (torch.float32, [[0, 3, 4], torch.uint8], None),
        (torch.int64, [[0.0, 3.0, 4.0], torch.float32], None),  # no type that models quantize to
    ],
)
def test_quantized_numbers_of_another_type(own: torch.dtype, actual, expected: list[int] | None) -> None:
    values = torch.tensor(actual[0], dtype=actual[1])
    found = quantized_as(torch.zeros(3, dtype=own), values)
    if expected is None:
        assert found is values
    else:
        assert found.dtype == own and found.tolist() == expected
