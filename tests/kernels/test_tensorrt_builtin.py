"""The built-in kernels as plug-ins of TensorRT: those with a kernel for CUDA devices, by the cases of all of them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from device import needs_linux, seeming_cuda
from kernels.cases import FAMILIES, Case
from kernels.running import assert_near
from tensorrt_host import Host, HostTensor

from opbridge.kernels import tensorrt
from opbridge.kernels.compiler import Settings
from opbridge.kernels.shipped import sources

pytestmark = [
    pytest.mark.thorough,  # test_tensorrt_plugins.py asks the same of small kernels
    pytest.mark.slow,
    needs_linux,
]

SEEDS = 6
DTYPES = ("float32", "float16", "bfloat16")
SIZED_BY_KERNEL = {"nms_match", "nms_match_batched", "nms_rotated", "nms_rotated_batched", "upsample_bicubic"}
LEFT_OUT = HostTensor(0, -1, 0)
COMPUTED = "has a size that only the kernel can compute, which is not supported in TensorRT's plug-ins"


@pytest.fixture(scope="module")
def library() -> Path:
    return tensorrt.build(settings=Settings(debug=True, flags=("-DSEEMING_CUDA",)))


@pytest.fixture(scope="module")
def host(library, tmp_path_factory):
    with seeming_cuda(tmp_path_factory.mktemp("cuda")):
        yield Host(library)


def test_the_built_in_kernels_with_cuda_are_plug_ins(library):
    names = {each.op_type for each in tensorrt.plugins(library)}
    assert names >= {case.operator for family in FAMILIES for case in cases(family)}
    assert {each.stem for each in tensorrt.builtin_sources()} == {each.stem for each in sources("_builtin")}


def cases(family: str) -> list[Case]:
    module = importlib.import_module(f"kernels.cases.{family}")
    return [case for seed in range(SEEDS) for case in module.random_cases(seed)]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_built_in_kernel_is_right_as_a_plug_in(host, family):
    for number, case in enumerate(cases(family)):
        dtype = DTYPES[number % len(DTYPES)]
        plugin = host.create(f"opbridge_ops::{case.operator}", case.attributes)
        given = tensors(case, dtype)
        shapes = plugin.shapes([described(each, dynamic=True) for each in given])
        if case.operator in SIZED_BY_KERNEL:
            assert shapes is None and COMPUTED in host.messages()
            continue
        assert shapes == [each.shape for each in case.expected], case
        plugin = plugin.deserialized()
        types = plugin.types([str(each.dtype).removeprefix("torch.") for each in given if each is not None])
        found = [torch.empty(shape, dtype=getattr(torch, type_)) for shape, type_ in zip(shapes, types, strict=True)]
        assert plugin.run([described(each) for each in given], [described(each) for each in found]) == 0, (
            host.messages()
        )
        assert_near([each.double().numpy() for each in found], case, dtype)


def tensors(case: Case, dtype: str) -> list[torch.Tensor | None]:
    found = [None if each is None else torch.from_numpy(each).contiguous() for each in case.inputs]
    while found and found[-1] is None:
        found.pop()  # as a node has it
    return [each.to(getattr(torch, dtype)) if each is not None and each.is_floating_point() else each for each in found]


def described(tensor: torch.Tensor | None, *, dynamic: bool = False) -> HostTensor:
    if tensor is None:
        return LEFT_OUT
    name = str(tensor.dtype).removeprefix("torch.")
    return HostTensor.of(tensor.shape, dtype=name, dynamic=dynamic, data=tensor.data_ptr())


@pytest.mark.parametrize("family", FAMILIES)
def test_what_does_not_fit_is_logged_as_an_error(host, family):
    refused: Sequence = importlib.import_module(f"kernels.cases.{family}").REFUSED
    for each in refused:
        name = f"opbridge_ops::{each.operator}"
        plugin = host.create(name, each.attributes)
        host.messages()
        given = tensors(Case(each.operator, each.inputs(), each.attributes), "float32")
        outputs = [HostTensor.of(())] * plugin.outputs
        assert plugin.run([described(tensor) for tensor in given], outputs) in (2, 3), each
        assert name in host.messages()
