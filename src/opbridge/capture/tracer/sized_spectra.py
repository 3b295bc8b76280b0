"""`torch.istft` to a symbolic length, which torch takes as a plain number."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.capture.tracer.tensors_as_numbers import number

__all__ = ["inverse_stft"]


def inverse_stft(
    input: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> torch.Tensor | None:
    """What `torch.istft` gives: the whole signal, of which the length is cut out; None where that is a plain number."""
    wanted = number(length)
    if not isinstance(wanted, torch.SymInt):
        return None
    torch._check(wanted > 0, lambda: "istft() requires a length greater than 0")
    whole = torch.istft(input, n_fft, hop_length, win_length, window, False, normalized, onesided, None, return_complex)
    first = n_fft // 2 if center else 0
    missing = torch.sym_max(first + wanted - whole.shape[-1], 0)
    return torch.nn.functional.pad(whole, (0, missing)).narrow(-1, first, wanted)
