"""What to do where a model fails for the devices of its tensors."""

from __future__ import annotations

import re

from opbridge.base.torch_private import torch_operators

__all__ = ["NO_DRIVER", "RECORDED_LAUNCHES", "SEVERAL", "device_advice"]

SEVERAL = (
    r"Expected all tensors to be on the same device|different from other tensors on |"
    r"Input type \(torch\.(?:cuda\.)?\w+\) and weight type \(torch\.(?:cuda\.)?\w+\) should be the same"
)
"""Matches torch's errors about tensors on several devices."""

NO_DRIVER = r"\b0 active drivers\b"
"""Matches Triton's error about a kernel that is launched on a machine without a GPU."""

RECORDED_LAUNCHES = (
    "Leave capture= at its default: opbridge's own capture records launches of Triton kernels without a GPU. Or run "
    "this on a machine with one."
)

_MISSING = re.compile(
    r"Found no NVIDIA driver|not compiled with CUDA enabled|No CUDA GPUs are available|no CUDA-capable device|"
    r"CUDA driver version is insufficient|invalid device ordinal|No HIP GPUs are available"
)

_NO_KERNEL = re.compile(r"Could not run '(\w+::\w+(?:\.\w+)?)' with arguments from the 'CPU' backend")


def device_advice(error: BaseException) -> str:
    """What to do about an error for the devices of tensors, as sentences; "" for another error."""
    message = str(error)
    if _MISSING.search(message):
        return (
            "The model uses a CUDA device that this machine does not have. Create tensors on the device of an input "
            "(device=x.device) instead of 'cuda', and guard other calls with torch.cuda.is_available(); or run this on "
            "a machine with that device."
        )
    if re.search(NO_DRIVER, message):
        return f"A Triton kernel is launched, which requires a GPU. {RECORDED_LAUNCHES}"
    found = _NO_KERNEL.search(message)
    target = torch_operators.operator_object(found[1]) if found else None
    if target is not None and torch_operators.runs_on_cuda_only(target):
        name = target.name()
        return (
            f"The operator {name} has a kernel for CUDA devices only. Register the shape and dtype of its result "
            f'(@torch.library.register_fake("{name}")), so that it is captured without being run, or run this on a '
            "machine with a CUDA device."
        )
    if re.search(SEVERAL, message):
        return (
            "The tensors are on several devices. Move the example inputs to the device of the model (x.to(device)), or "
            "the model to theirs (model.to(device)), and create tensors in the model with device=x.device."
        )
    return ""
