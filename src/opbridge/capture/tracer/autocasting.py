"""Operators under autocast: the casts that it makes become operators of the graph."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.base.torch_private import torch_proxies
from opbridge.capture.tracer.recording import Recording

__all__ = ["call"]


def call(recorder: Recording, function: Any, args: Any, kwargs: Any) -> Any:
    """Records an operator that is called while autocast is on.

    1. An operator that autocast has a rule for is run by that rule, whose casts are recorded, and then the operator.
    2. A composite operator may call such an operator. Then what it calls is recorded; else it is recorded whole.
    """
    device = "cpu" if torch.is_autocast_enabled("cpu") else "cuda"
    if torch_proxies.is_below_autocast(device):
        return recorder.record(function, args, kwargs)
    if torch_proxies.has_autocast_rule(function, device):
        recorder.casts += 1
        with recorder.recording():
            return torch_proxies.call_autocast_rule(function, args, kwargs)
    if not torch_proxies.is_composite(function):
        return recorder.record(function, args, kwargs)
    before, last = recorder.casts, recorder.last_node()
    with recorder.recording():
        result = function.decompose(*args, **kwargs)
    if recorder.casts == before:
        recorder.erase_after(last)
        recorder.rebind(result, function, args, kwargs)
    return result
