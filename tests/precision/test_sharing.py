"""Weights of the steps: read where they are, or written once; and cast or rounded when they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from precision.conftest import InProcess

import opbridge
from opbridge.errors import ModelFileError, SaveError
from opbridge.onnx import reading
from opbridge.precision import casting, feeding
from opbridge.precision.emulating import with_unwritten_weights
from opbridge.precision.formats import BFLOAT16, FLOAT16, clamped, largest
from opbridge.precision.judging import apart
from opbridge.precision.sharing import SharedWeights
from opbridge.precision.tensors import CastTensor, from_numbers, is_rounded

SIZE = 48
X = np.linspace(-1, 1, SIZE, dtype=np.float32)


def product(weights: np.ndarray) -> ir.Model:
    """A model that multiplies by a weight."""
    model = ir.from_onnx_text(
        f"""<ir_version: 9, opset_import: ["" : 19]>
        g (float[{SIZE}] x) => (float[{SIZE}] y) {{ y = MatMul (x, x) }}"""
    )
    value = ir.Value(name="w", const_value=ir.Tensor(weights), type=ir.TensorType(ir.DataType.FLOAT))
    value.shape = ir.Shape(weights.shape)
    model.graph.initializers["w"] = value
    next(iter(model.graph)).replace_input_with(1, value)
    return model


@pytest.fixture
def weights() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((SIZE, SIZE), np.float32)


@pytest.fixture
def external(tmp_path: Path, weights: np.ndarray) -> Path:
    """The file of the model, with external data."""
    ir.save(product(weights), tmp_path / "model.onnx", external_data="model.data")
    return tmp_path / "model.onnx"


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedWeights, "smallest", 1024)


def locations(content: bytes) -> list[str]:
    """The files of the external data of a model."""
    tensors = onnx.ModelProto.FromString(content).graph.initializer
    return [entry.value for each in tensors for entry in each.external_data if entry.key == "location"]


def test_external_data_are_read_where_they_are(external: Path, weights: np.ndarray) -> None:
    model = reading.load(str(external))
    step = SharedWeights(model).model(model.clone())
    assert step.folder == str(external.parent) and locations(step.content) == ["model.data"]
    (found,) = InProcess(step.content, step.folder).run(None, {"x": X})
    assert np.allclose(found, X @ weights, atol=1e-5)


def test_other_weights_are_written_once(weights: np.ndarray) -> None:
    model = product(weights)
    shared = SharedWeights(model)
    first, second = shared.model(model.clone()), shared.model(model.clone())
    assert first.folder == second.folder and first.folder is not None
    folder = Path(first.folder)
    assert [each.stat().st_size for each in folder.iterdir()] == [weights.nbytes]
    assert locations(first.content) == locations(second.content) == [each.name for each in folder.iterdir()]
    (found,) = InProcess(second.content, second.folder).run(None, {"x": X})
    assert np.allclose(found, X @ weights, atol=1e-5)
    other = shared.model(product(weights + 1))
    assert len(list(folder.iterdir())) == 2 and locations(other.content) != locations(first.content)
    shared.close()
    assert not folder.exists()


def test_small_models_have_no_folder() -> None:
    model = product(np.ones((SIZE, 1), np.float32))
    step = SharedWeights(model).model(model)
    assert step.folder is None and not locations(step.content)


def test_what_could_not_be_written_is_written_by_the_next_step(
    monkeypatch: pytest.MonkeyPatch, weights: np.ndarray, tmp_path: Path
) -> None:
    model = product(weights)
    shared = SharedWeights(model)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
        with pytest.raises(SaveError, match="was not written"):
            shared.model(model)
    step = shared.model(model)
    (found,) = InProcess(step.content, step.folder).run(None, {"x": X})
    assert np.allclose(found, X @ weights, atol=1e-5)


def test_files_are_not_left_in_memory(external: Path, weights: np.ndarray) -> None:
    tensor = reading.load(str(external)).graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert from_numbers(tensor, largest) == np.abs(weights).max()
    assert tensor.raw is None
    kept = tensor.numpy()
    assert from_numbers(tensor, largest) == np.abs(kept).max()
    assert tensor.raw is not None  # it was there before


def test_numbers_beyond_a_format_are_not_rounded(weights: np.ndarray) -> None:
    assert is_rounded(CastTensor(ir.Tensor(weights), FLOAT16), FLOAT16)
    weights[3, 4] = np.inf
    assert is_rounded(CastTensor(ir.Tensor(weights), FLOAT16), FLOAT16)
    weights[5, 6] = -1e5
    assert not is_rounded(CastTensor(ir.Tensor(weights), FLOAT16), FLOAT16)
    assert is_rounded(CastTensor(ir.Tensor(weights), BFLOAT16), BFLOAT16)
    assert not is_rounded(ir.Tensor(weights), FLOAT16) and not is_rounded(None, FLOAT16)


def test_large_arrays_are_clamped_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.array([[1.0001, -np.inf, 1e6], [np.nan, -1e6, 2e-8]], np.float32)
    whole = clamped(array, FLOAT16)
    monkeypatch.setattr("opbridge.precision.formats._AT_ONCE", 4)
    assert np.array_equal(clamped(array, FLOAT16), whole, equal_nan=True)
    assert whole.tolist()[0] == [np.float16(1.0001), -np.inf, 65504] and largest(array) == 1e6


@pytest.mark.parametrize("to", ["float16", "bfloat16"])
@pytest.mark.parametrize("scale", [1.0, 1e30])
def test_large_weights_are_compared(cast: Callable[..., opbridge.Narrowed], to: str, scale: float) -> None:
    model = product(np.full((SIZE, SIZE), scale, np.float32))
    found = cast(ir.to_proto(model), to, inputs={"x": np.full(SIZE, 1 / scale, np.float32)})
    kept = [each.kind for each in found.kept]
    assert kept == (["constant"] if (to, scale) == ("float16", 1e30) else [])
    assert found.ok and found.runs == 1


def test_weights_that_are_cast_when_they_are_read(cast: Callable[..., opbridge.Narrowed], weights: np.ndarray) -> None:
    model = cast(ir.to_proto(product(weights)), "float16").model
    copy = with_unwritten_weights(model, FLOAT16)
    assert [node.op_type for node in copy.graph] == ["Cast", "MatMul"]
    assert copy.graph.initializers["w"].dtype == ir.DataType.FLOAT
    assert model.graph.initializers["w"].dtype == ir.DataType.FLOAT16
    feeds = {"x": X.astype(np.float16)}
    one, other = (InProcess(ir.to_proto(each).SerializeToString()).run(None, feeds)[0] for each in (model, copy))
    assert apart(one, other).error < 1e-3  # ONNX Runtime adds up products of constants in another way


def test_a_refused_model_is_not_written_again_before_it_runs(
    monkeypatch: pytest.MonkeyPatch, in_process: None, external: Path
) -> None:
    written: list[bool] = []
    staged = casting.writer.staged

    def noted(model: ir.Model, path: Any, **options: Any) -> Any:
        written.append(model.graph.initializers["w"].dtype == ir.DataType.FLOAT16)
        return staged(model, path, **options)

    refused = iter([True])

    def opened(model: Any, *_: Any, data_folder: str | None = None, **__: Any) -> InProcess:
        if not isinstance(model, bytes) and "cast" in model and next(refused, False):
            raise ModelFileError("Could not find an implementation for MatMul(13) node")
        return InProcess(model, data_folder)

    monkeypatch.setattr(casting.writer, "staged", noted)
    monkeypatch.setattr(feeding, "open_session", opened)
    found = opbridge.cast(external, "float16", external.with_name("cast.onnx"))
    assert found.ok and [each.operator for each in found.kept] == ["MatMul"]
    assert written == [True, False]
    assert sorted(each.suffix for each in external.parent.glob("cast*")) == [".data", ".onnx"]
