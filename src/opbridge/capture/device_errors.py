"""What to do where a model fails for the devices of its tensors."""

from __future__ import annotations

import re

__all__ = ["SEVERAL", "device_advice"]

SEVERAL = (
    r"Expected all tensors to be on the same device|different from other tensors on |"
    r"Input type \(torch\.(?:cuda\.)?\w+\) and weight type \(torch\.(?:cuda\.)?\w+\) should be the same"
)
"""Matches torch's errors about tensors on several devices."""

_MISSING = re.compile(
    r"Found no NVIDIA driver|not compiled with CUDA enabled|No CUDA GPUs are available|no CUDA-capable device|"
    r"CUDA driver version is insufficient|invalid device ordinal|No HIP GPUs are available"
)

_NO_KERNEL = re.compile(r"Could not run '(\w+::\w+)(?:\.\w+)?' with arguments from the 'CPU' backend")


def device_advice(error: BaseException) -> str:
    """What to do about an error for the devices of tensors, as sentences; "" for another error."""
    message = str(error)
    if _MISSING.search(message):
        return (
            "The model uses a CUDA device that this machine does not have. Create tensors on the device of an input "
            "(device=x.device) instead of 'cuda', and guard other calls with torch.cuda.is_available(); or run this on "
            "a machine with that device."
        )
    found = _NO_KERNEL.search(message)
    if found:
        return (
            f"The operator {found[1]} has no kernel for the CPU. Register the shape and dtype of its result "
            f'(@torch.library.register_fake("{found[1]}")), so that it is captured without being run, or run this on a '
            "machine with the device that it has a kernel for."
        )
    if re.search(SEVERAL, message):
        return (
            "The tensors are on several devices. Move the example inputs to the device of the model (x.to(device)), or "
            "the model to theirs (model.to(device)), and create tensors in the model with device=x.device."
        )
    return ""
