"""Kernels as TensorRT plug-ins on a CUDA device: called through TensorRT's interface by the host of the tests.

TensorRT itself is not needed. `bench/gpu.py` runs this part, on the cases of the tests and by their tolerances.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from opbridge.kernels import tensorrt
from opbridge.kernels.compiler import Settings

__all__ = ["check_plugins"]

TESTS = Path(__file__).parents[1] / "tests"
FAMILIES = ("deform_conv2d", "dynamic_conv", "grid_sample", "ms_deform_attn", "roi_align", "rotated_boxes")
SEEDS = 9
DTYPES = ("float32", "float16", "bfloat16")


def check_plugins(device: str = "cuda") -> tuple[str, list[str]]:
    """Runs plug-ins that were made of fields, written out as an engine keeps them, and made again.

    Returns:
        A sentence on how many results are right by references in float64, and a line for each that is wrong.
    """
    _find_tests()
    running = importlib.import_module("kernels.running")
    host = importlib.import_module("tensorrt_host")
    # The code for the device is compiled by NVRTC in any case.
    settings = Settings(debug=True)
    elements = host.Host(tensorrt.build(TESTS / "kernels" / "elements.cpp", settings=settings))
    builtin = host.Host(tensorrt.build(settings=settings))
    count, wrong = 0, []
    for library, domain, case, dtype in [*_cases(elements, "elementtest"), *_cases(builtin, "opbridge_ops")]:
        try:
            found = _run(host, library, f"{domain}::{case.operator}", case, dtype, device)
            if found is None:
                continue
            count += 1
            running.assert_near([each.cpu().double().numpy() for each in found], case, dtype)
        except (AssertionError, RuntimeError) as error:
            said = str(error).strip().partition("\n")[0]
            wrong.append(f"WRONG plug-in {domain}::{case.operator} {dtype}: {said}")
    right = (
        f"{count - len(wrong)} of {count} results of kernels as TensorRT plug-ins, which a host of the tests calls, "
        "agree with references in float64. A run of scaled_add with 1,000 elements takes the host "
        f"{_run_time(host, elements, device)} us, with its launch."
    )
    return right, wrong


def _run_time(host: ModuleType, library: Any, device: str) -> str:
    """How long the host takes for a run, in microseconds; the least of five times a thousand."""
    plugin = library.create("elementtest::scaled_add", {"alpha": 3.0})
    memory = torch.ones(3, 1000, device=device)
    a, b, found = _described(host, memory)
    stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
    times = [plugin.seconds([a, b], [found], stream) for _ in range(5)]
    return f"{min(times) * 1e6:.2f}" if min(times) > 0 else library.messages()


def _find_tests() -> None:
    """Has the modules of the tests found; their folder `kernels` has the name of a script in this one."""
    package = ModuleType("kernels")
    package.__path__ = [str(TESTS / "kernels")]
    sys.modules["kernels"] = package
    sys.path.append(str(TESTS / "kernels"))


def _cases(library: Any, domain: str) -> Iterator[tuple[Any, str, Any, str]]:
    """The library, its domain, a case and the type that it runs in."""
    kinds = importlib.import_module("kernels.cases")
    if domain == "elementtest":
        random = np.random.default_rng(0)
        a, b = random.standard_normal((2, 33, 65))
        x = a.reshape(1, 33, 65)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
        pooled = (padded[..., :-2:2] + padded[..., 1:-1:2] + padded[..., 2::2]) / 3
        for dtype in DTYPES:
            yield library, domain, kinds.Case("scaled_add", [a, b], {"alpha": 3.0}, [3 * a + b]), dtype
            column = np.ascontiguousarray(b[:, :1])
            yield library, domain, kinds.Case("broadcast_add", [a, column], {"alpha": 0.5}, [a / 2 + column]), dtype
            yield library, domain, kinds.Case("smooth", [x], {"step": 2}, [pooled]), dtype
        return
    for family in FAMILIES:
        for seed in range(SEEDS):
            for case in importlib.import_module(f"kernels.cases.{family}").random_cases(seed):
                yield library, domain, case, DTYPES[seed % len(DTYPES)]


def _run(host: ModuleType, library: Any, name: str, case: Any, dtype: str, device: str) -> list[torch.Tensor] | None:
    """The outputs of a plug-in; None: it has no kernel for CUDA devices, or sizes that only the kernel knows.

    Raises:
        RuntimeError: The plug-in refuses its inputs, or did not run.
    """
    plugin = library.create(name, case.attributes) if name in library.creators else None
    if plugin is None:
        return None
    given = [None if each is None else torch.from_numpy(each).contiguous().to(device) for each in case.inputs]
    given = [
        each.to(getattr(torch, dtype)) if each is not None and each.is_floating_point() else each for each in given
    ]
    while given[-1] is None:
        given.pop()
    shapes = plugin.shapes(_described(host, given, dynamic=True))
    if shapes is None:
        if "only the kernel can compute" in (said := library.messages()):
            return None
        raise RuntimeError(said)
    plugin = plugin.deserialized()
    types = plugin.types([_name(each) for each in given if each is not None])
    found = [
        torch.empty(shape, dtype=getattr(torch, each), device=device) for shape, each in zip(shapes, types, strict=True)
    ]
    stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
    if plugin.run(_described(host, given), _described(host, found), stream):
        raise RuntimeError(library.messages())
    return found


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _described(host: ModuleType, tensors: Sequence[torch.Tensor | None], *, dynamic: bool = False) -> list[Any]:
    return [
        host.HostTensor(0, -1, 0)
        if each is None
        else host.HostTensor.of(each.shape, dtype=_name(each), dynamic=dynamic, data=each.data_ptr())
        for each in tensors
    ]
