"""CUDA tensors on a machine without a GPU: CUDA's runtime in this process's memory, and operators on the CPU.

A process with `environment()` has two CUDA devices whose memory is its own. No kernel runs there: within `OnHost`, each
operator on tensors of these devices is computed on the CPU from the same memory. What depends on devices in a capture,
a verification or a session is so tested for what it does to tensors of CUDA.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from opbridge.runtimes import cuda_stand_in
from opbridge.runtimes.cuda_stand_in.elf import taken

__all__ = ["OnHost", "environment", "is_possible"]

_FOLDER = Path(torch.__file__).parent / "lib"
_CUDA = ("libtorch_cuda.so", "libc10_cuda.so", "libtorch_python.so", "libtorch_cuda_linalg.so")
_OWN = re.compile(r"EXPORTED [^(]*?\b(\w+)\(")
_SELF = (
    torch.ops.aten.detach.default,
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_strided.default,
)


def is_possible() -> bool:
    """Whether torch is a build with CUDA, on Linux."""
    return sys.platform == "linux" and (_FOLDER / "libtorch_cuda.so").exists() and not torch.cuda.is_available()


def environment(folder: Path) -> dict[str, str]:
    """The environment of a process with these devices.

    Args:
        folder: Where the libraries are built.
    """
    source = Path(cuda_stand_in.__file__).with_name("stand_in.cpp")
    own = set(_OWN.findall(source.read_text("utf-8")))
    runtime = {each for name in _CUDA for each in taken(_FOLDER / name).symbols if each.startswith(("cuda", "__cuda"))}
    driver = {each for each in taken(_FOLDER / "libcaffe2_nvrtc.so").symbols if re.match("cu[A-Z]", each)}
    begun = f'#define OPBRIDGE_CUDA_VERSION 13000\n#include "{source}"\n'
    for name, functions in (("libcudart.so", runtime), ("libcuda.so.1", driver)):
        text = begun + "\n".join(f"FUNCTION({each})" for each in sorted(functions - own))
        (folder / f"{name}.cpp").write_text(text + "\n")
        command = ["g++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", str(folder / f"{name}.cpp")]
        subprocess.run([*command, f"-Wl,-soname,{name}", "-o", str(folder / name)], check=True)
    return {**os.environ, "LD_PRELOAD": str(folder / "libcudart.so"), "LD_LIBRARY_PATH": str(folder)}


class OnHost(TorchDispatchMode):
    """Within this context, operators on CUDA tensors are computed on the CPU."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_fake() or function.is_view or function in _SELF:
            return function(*args, **kwargs)
        if function is torch.ops.aten.record_stream.default:
            return None  # each operator is complete when it returns
        leaves = pytree.tree_leaves((args, kwargs))
        devices = [each.device for each in leaves if isinstance(each, torch.Tensor) and each.is_cuda]
        named = next((each for each in leaves if isinstance(each, torch.device)), None)
        if function.overloadpacket is torch.ops.aten._to_copy:
            into = kwargs.pop("device", None) or args[0].device
            copied = function(*map(_host, args), **kwargs)
            return _on(into, copied) if into.type == "cuda" else copied
        device = named or next(iter(devices), None)
        if device is None or not (devices or device.type == "cuda"):
            return function(*args, **kwargs)
        if any(each != devices[0] for each in devices) and function.overloadpacket is not torch.ops.aten.copy_:
            raise RuntimeError(f"Expected all tensors to be on the same device, but found {devices[0]} and another")
        given: dict[int, torch.Tensor] = {}

        def lowered(value: Any) -> Any:
            if isinstance(value, torch.device):
                return torch.device("cpu")
            if isinstance(value, torch.Tensor) and value.is_cuda:
                found = _host(value)
                given[id(found)] = value
                return found
            return value

        low_args, low_kwargs = pytree.tree_map(lowered, (args, kwargs))
        result = function(*low_args, **low_kwargs)
        return pytree.tree_map_only(
            torch.Tensor, lambda each: given[id(each)] if id(each) in given else _on(device, each), result
        )


def _is_fake() -> bool:
    fake = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
    return fake is not None or torch._C._meta_in_tls_dispatch_include()


def _host(value: Any) -> Any:
    """A tensor of the CPU with the memory of a tensor of a device."""
    if not isinstance(value, torch.Tensor) or not value.is_cuda:
        return value
    value = value.detach()
    storage = value.untyped_storage()
    if not storage.nbytes():
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    flat = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=value.dtype).set_(flat, value.storage_offset(), value.shape, value.stride())


def _on(device: torch.device, value: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    if value.numel():
        _host(made).copy_(value)
    return made
