"""The weights files of earlier saves and of sets of models, and weights that are not what they say."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from helpers.saved_models import data_of, external_entries, listing, model_of, torch_model, weights_of

from opbridge.errors import SaveError, UsageError
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.save import writer
from opbridge.save.writer import save

# Weights files of earlier saves


def test_weights_that_are_no_longer_used_are_removed(tmp_path):
    path = tmp_path / "m.onnx"
    save(torch_model(w=torch.ones(1000)), path, external_data=True)
    save(torch_model(w=torch.zeros(2000)), tmp_path / "other.onnx", external_data=True)
    assert save(torch_model(w=torch.zeros(1000)), path) == [path]
    assert sorted(listing(tmp_path)) == ["m.onnx", "other.onnx", data_of(tmp_path / "other.onnx").name]
    # Nothing is left to go beside the file, so the weights file goes too.
    save(torch_model(w=torch.zeros(3)), tmp_path / "other.onnx", external_data=True)
    assert sorted(listing(tmp_path)) == ["m.onnx", "other.onnx"]


@pytest.mark.parametrize("model_before", [None, "model of another kind", "damaged"])
def test_a_file_that_the_replaced_model_does_not_use_is_kept(tmp_path, model_before):
    path, data = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    data.write_text("mine")
    if model_before == "model of another kind":
        # The name stands in the numbers of a weight, where it refers to nothing.
        save(torch_model(w=torch.tensor(list(b"m.onnx.data"), dtype=torch.uint8)), path)
    elif model_before == "damaged":
        path.write_bytes(b"m.onnx.data")
    save(torch_model(w=torch.ones(1000)), path)
    assert data.read_text() == "mine"


def test_weights_that_another_model_uses_are_neither_removed_nor_replaced(tmp_path):
    path, copy = tmp_path / "m.onnx", tmp_path / "copy.onnx"
    save(torch_model(w=torch.ones(1000)), path, external_data=True)
    copy.write_bytes(path.read_bytes())
    shared = data_of(copy)
    save(torch_model(w=torch.zeros(1000)), path, external_data=True)
    assert not weights_of(path)["w"].any() and weights_of(copy)["w"].all()
    save(torch_model(w=torch.zeros(1000)), path)
    assert not weights_of(path)["w"].any()
    assert weights_of(copy)["w"].all()
    assert sorted(listing(tmp_path)) == ["copy.onnx", "m.onnx", shared.name]


@pytest.mark.parametrize("external", [False, True])
def test_weights_of_the_name_that_they_had_before_each_save_had_its_own(tmp_path, external):
    path, data = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    save(torch_model(w=torch.ones(1000)), path)
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="m.onnx.data")
    assert weights_of(path)["w"].all() and data.exists()
    files = save(torch_model(w=torch.zeros(1000)), path, external_data=external)
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert not weights_of(path)["w"].any()


# Weights that are not what they say


def test_an_initializer_without_data(tmp_path):
    model = torch_model(w=torch.ones(3))
    model.graph.initializers["w"].const_value = None
    with pytest.raises(SaveError, match="initializer 'w' has no data"):
        save(model, tmp_path / "m.onnx")


@pytest.mark.parametrize("external", [False, True])
def test_a_weight_of_another_size_than_it_says(tmp_path, external):
    weight = ir.LazyTensor(lambda: ir.tensor(np.ones(999, np.float32)), ir.DataType.FLOAT, ir.Shape((1000,)))
    with pytest.raises(SaveError, match=r"'w' should have 4000 bytes.*has 3996"):
        save(model_of({"w": weight}), tmp_path / "m.onnx", external_data=external)
    assert not listing(tmp_path)


@pytest.mark.parametrize("external", [False, True])
def test_a_weight_whose_file_is_gone(tmp_path, external):
    weight = ir.ExternalTensor(
        "gone.bin", 0, 4000, ir.DataType.FLOAT, shape=ir.Shape((1000,)), name="w", base_dir=tmp_path
    )
    with pytest.raises(SaveError, match=r"weight 'w' cannot be read from .*gone\.bin"):
        save(model_of({"w": weight}), tmp_path / "m.onnx", external_data=external)
    assert not listing(tmp_path)


def test_a_weight_without_numbers(tmp_path):
    with pytest.raises(UsageError, match="'w' has no data in memory"):
        save(torch_model(w=torch.empty(1000, device="meta")), tmp_path / "m.onnx")
    assert not listing(tmp_path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.float16, torch.uint16])
@pytest.mark.parametrize("external", [False, True])
def test_dtypes_come_back_from_both_kinds_of_file(tmp_path, dtype, external):
    weight = torch.randint(0, 2, (30, 50)).to(dtype)
    save(torch_model(w=weight, t=weight.t()), tmp_path / "m.onnx", external_data=external)
    loaded = ir.load(tmp_path / "m.onnx").graph.initializers
    for name, tensor in (("w", weight), ("t", weight.t())):
        array = loaded[name].const_value.numpy()
        assert array.dtype == TorchTensor(tensor).numpy().dtype
        np.testing.assert_array_equal(array.astype(np.float32), tensor.float().numpy())


def test_models_of_a_set_share_what_is_equal(tmp_path):
    shared, copy = torch.randn(600), torch.randn(600)
    first = torch_model(a=shared, b=copy)
    second = torch_model(c=shared, d=copy.clone(), e=copy.reshape(2, 300).t(), f=torch.zeros(2))
    paths = [tmp_path / "first.onnx", tmp_path / "second.onnx"]
    with writer.staged_set(
        dict(zip(paths, (first, second), strict=True)), tmp_path / "w.data", external_data=True
    ) as files:
        assert files.size() == sum(path.stat().st_size for path in files.path.parent.iterdir())
        assert files.commit() == [*paths, data_of(paths[0])]
    assert data_of(paths[0]) == data_of(paths[1])
    assert re.fullmatch(r"w\.[0-9a-f]{8}\.data", data_of(paths[0]).name)
    np.testing.assert_array_equal(weights_of(paths[0])["b"], copy)
    found = weights_of(paths[1])
    np.testing.assert_array_equal(found["c"], shared)
    np.testing.assert_array_equal(found["d"], copy)
    np.testing.assert_array_equal(found["e"], copy.reshape(2, 300).t())
    offsets = {**external_entries(paths[0]), **external_entries(paths[1])}
    assert offsets["a"]["offset"] == offsets["c"]["offset"] and offsets["b"]["offset"] == offsets["d"]["offset"]
    assert len({each["offset"] for each in offsets.values()}) == 3


def test_nothing_of_a_set_is_left_without_a_commit(tmp_path):
    with writer.staged_set(
        {tmp_path / "a.onnx": torch_model(a=torch.randn(600))}, tmp_path / "w.data", external_data=True
    ):
        pass
    assert listing(tmp_path) == {}
