"""The built-in kernels on what seem to be CUDA devices: right by the references of those for the CPU.

The kernels run in the emulation of CUDA's language. What a large device does, where a thread takes several channels, is
done here for small tensors too.
"""

from __future__ import annotations

import importlib
import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from device import fake, needs_linux, seeming_cuda, seeming_libtorch
from kernels.cases import Case
from kernels.checking import DTYPES, called
from kernels.references.nms_match import nms_match
from kernels.references.rotated_boxes import nms_rotated
from kernels.running import assert_near
from test_builtin_kernels import FAMILIES, cases_of

import opbridge
from opbridge.kernels import shipped
from opbridge.kernels.builtin import load_builtin

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,  # test_cuda_kernels.py asks the same of small kernels
    needs_linux,
]

# What is not known before the kernel runs is no error on a device, but gives numbers that are none.
ON_THE_DEVICE = re.compile(r"^(roi 0 |level \d|spatial_shapes (has a negative size|exceeds))")


@pytest.fixture(scope="module")
def cuda(tmp_path_factory):
    """The built-in operators, unoptimised, and the driver's record; the usual ones are put back at the end."""
    load_builtin()  # compiled, and in the usual cache
    library = opbridge.build(*shipped.sources("_builtin"), flags=["-O0", "-DOPBRIDGE_FULL_DEVICE=64"])
    with seeming_cuda(tmp_path_factory.mktemp("cuda")) as driver, seeming_libtorch():
        driver.ops = opbridge.load(library)
        yield driver
    load_builtin.cache_clear()
    load_builtin()


def test_every_kernel_has_one_for_cuda():
    """In a .cu file, or as the function of an element that the CPU has."""
    for source in shipped.sources("_builtin"):
        assert source.with_suffix(".cu").is_file() or "OPBRIDGE_ELEMENT_KERNEL" in source.read_text(), source


def on_cuda(driver, case: Case, dtype: str) -> list[torch.Tensor]:
    """The results of a call, and that something was launched for them."""
    results = called(case.operator, case.inputs, case.attributes, getattr(torch, dtype))
    launched = any(each.startswith("launch") for each in driver.record())
    assert launched or not any(each.numel() for each in results)
    return results


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_reference(cuda, family):
    module = cases_of(family)
    for seed in range(FAMILIES[family].seeds // 2):
        for case in module.random_cases(seed):
            dtype = DTYPES[seed % len(DTYPES)]
            results = on_cuda(cuda, case, dtype)
            assert_near([each.double().numpy() for each in results], case, dtype)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_does_not_belong_together_is_refused(cuda, family):
    for refused in importlib.import_module(f"kernels.cases.{family}").REFUSED:
        if ON_THE_DEVICE.match(refused.words):
            continue
        with pytest.raises(Exception, match=refused.words):
            called(refused.operator, refused.inputs(), refused.attributes, torch.float32)


def test_what_only_the_device_knows_gives_no_numbers(cuda):
    found = cuda.ops.roi_align(torch.ones(1, 2, 4, 4), torch.tensor([[0.0, 0, 0, 3, 3], [1, 0, 0, 3, 3]]), 1.0, 2, 2)
    assert found[0].isfinite().all() and found[1].isnan().all()
    rois = torch.tensor([[0.0, 2, 2, 2, 2, 0], [-1, 2, 2, 2, 2, 0], [0, 2, 2, -2, 2, 0]])
    found = cuda.ops.roi_align_rotated(torch.ones(1, 2, 4, 4), rois, 1.0, 2, 2)
    assert found[0].isfinite().all() and found[1:].isnan().all()
    shapes, starts = torch.tensor([[2, 3], [2, 2]]), torch.tensor([0, 6])
    locations, weights = torch.full((1, 1, 1, 2, 1, 2), 0.5), torch.ones(1, 1, 1, 2, 1)
    found = cuda.ops.ms_deform_attn(torch.ones(1, 10, 1, 2), shapes, starts, locations, weights)
    torch.testing.assert_close(found, torch.full((1, 1, 2), 2.0))
    assert cuda.ops.ms_deform_attn(torch.ones(1, 9, 1, 2), shapes, starts, locations, weights).isnan().all()


def test_many_boxes_are_suppressed_in_order(cuda):
    random = np.random.default_rng(0)
    boxes = np.concatenate(
        [random.random((300, 2)) * 30, random.random((300, 2)) * 6 + 1, random.random((300, 1)) * 6], 1
    )
    scores = np.round(random.random(300), 1)  # many equal ones
    found = cuda.ops.nms_rotated(torch.from_numpy(boxes), torch.from_numpy(scores), None, 0.3)
    assert found.tolist() == nms_rotated(boxes, scores, None, 0.3).tolist()
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:4], scores[:, None]], 1)
    found = cuda.ops.nms_match(torch.from_numpy(corners), 0.3)
    assert [each.tolist() for each in found] == [each.tolist() for each in nms_match(corners, 0.3)]


def test_onnxruntime_launches_them(cuda, monkeypatch):
    monkeypatch.setenv("FAKE_ORT_KERNELS", str(cuda.ops.path))
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(fake("fake_ort")))
    node = onnx.helper.make_node("upsample_bicubic", ["x", "scales"], ["y"], domain="opbridge_ops")
    types = {"x": 1, "scales": 1, "y": 1}
    values = {name: onnx.helper.make_tensor_value_info(name, type_, None) for name, type_ in types.items()}
    graph = onnx.helper.make_graph([node], "g", [values["x"], values["scales"]], [values["y"]])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("opbridge_ops", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    cuda.record()
    x = torch.randn(2, 3, 4, 5)
    (found,) = session.run(None, {"x": x.numpy(), "scales": np.array([2, 1.5], np.float32)})
    assert any(each.startswith("launch") for each in cuda.record())
    expected = torch.nn.functional.interpolate(x, scale_factor=(2, 1.5), mode="bicubic")
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)
