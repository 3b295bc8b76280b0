"""What releases of torch do differently, each asked of the torch that is installed.

Nothing compares releases: what one lacks, an earlier one may have been built with, and a later one may lack again. A
probe runs when its answer is first asked for, outside of all modes, and its answer is kept.

Checked on torch 2.13.0, 2.14.1 and 2.15.0.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import _disable_current_modes

__all__ = [
    "CAPABILITIES",
    "Capability",
    "asserts_valid_distributions",
    "attends_to_sizes_of_data",
    "clamps_bytes_by_any_bound",
    "counts_fractions",
    "describes_grouped_products",
    "describes_mkldnn_tensors",
    "exports_shapes_specs",
    "saturates_float8_e4m3fn",
]


@dataclass(frozen=True)
class Capability:
    """What some releases of torch can do, or do otherwise than others.

    Attributes:
        name: Its name.
        differs: What releases with it do, and what those without it do.
        since: The first release that it was seen in. For readers: nothing compares it.
        seen: How it was seen, which is what the probe does.
        probe: Whether the installed torch has it. It is to be cheap, and to leave nothing behind.
    """

    name: str
    differs: str
    since: str
    seen: str
    probe: Callable[[], bool]

    @functools.cached_property
    def present(self) -> bool:
        """Whether the installed torch has it."""
        with _disable_current_modes(), torch._C.DisableTorchFunction(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.probe()


CAPABILITIES: list[Capability] = []
"""All that is known to differ."""


def _capability(*, differs: str, since: str, seen: str) -> Callable[[Callable[[], bool]], Capability]:
    def made(probe: Callable[[], bool]) -> Capability:
        capability = Capability(probe.__name__, differs, since, seen, probe)
        CAPABILITIES.append(capability)
        return capability

    return made


@_capability(
    differs="torch.distributions asserts in a graph that arguments are valid; without it, it asks so by a Python `if`.",
    since="2.15",
    seen="The module of distributions has the function that asserts.",
)
def asserts_valid_distributions() -> bool:
    from torch.distributions import distribution

    return hasattr(distribution, "_all_true_or_runtime_assert")


@_capability(
    differs="Attention takes a size that only data decide; without it, it asks whether the size is 0, and is refused.",
    since="2.15",
    seen="Attention of a fake tensor with such a size gives a fake tensor.",
)
def attends_to_sizes_of_data() -> bool:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

    env = ShapeEnv()
    with FakeTensorMode(shape_env=env):
        x = torch.empty((1, 1, env.create_unbacked_symint(), 4), device="cpu")
        try:
            torch.nn.functional.scaled_dot_product_attention(x, x, x)
        except GuardOnDataDependentSymNode:
            return False
    return True


@_capability(
    differs="A tensor of uint8 is clamped by a negative bound as it is; without it, by the bound as a uint8.",
    since="2.15",
    seen="3, clamped to -2 and more, stays 3.",
)
def clamps_bytes_by_any_bound() -> bool:
    return torch.tensor([3], dtype=torch.uint8, device="cpu").clamp_min(-2).item() == 3


@_capability(
    differs="An `arange` of int64 is counted by its bounds as they are, as for all other integers; without it, the "
    "fractions of the bounds are cut off first.",
    since="2.14",
    seen="`arange(0.5)` has one element.",
)
def counts_fractions() -> bool:
    return torch.arange(0.5, dtype=torch.int64, device="cpu").numel() == 1


@_capability(
    differs="Grouped products of float32 and float16, which the CPU computes, have a shape; without it, only those of "
    "bfloat16 have one.",
    since="2.15",
    seen="A grouped product of float32 on the device meta gives a tensor.",
)
def describes_grouped_products() -> bool:
    x, weight = (torch.empty(shape, device="meta") for shape in ((16, 8), (1, 8, 16)))
    try:
        torch.ops.aten._grouped_mm(x, weight, torch.empty(1, dtype=torch.int32, device="meta"))
    except RuntimeError:
        return False
    return True


@_capability(
    differs="`to_mkldnn` of a fake tensor gives one; without it, it raises NotImplementedError.",
    since="2.14",
    seen="It is called.",
)
def describes_mkldnn_tensors() -> bool:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        try:
            torch.empty(1, device="cpu").to_mkldnn()
        except NotImplementedError:
            return False
    return True


@_capability(
    differs="torch.export takes a ShapesSpec; without it, torch.compile alone does, if torch has the class at all.",
    since="2.14",
    seen="The module of torch.export knows the class.",
)
def exports_shapes_specs() -> bool:
    import torch.export._trace as trace

    return hasattr(trace, "ShapesSpec")


@_capability(
    differs="A number beyond float8_e4m3fn becomes the largest number of the type; without it, NaN.",
    since="2.14",
    seen="1000, converted to float8_e4m3fn, is 448.",
)
def saturates_float8_e4m3fn() -> bool:
    return torch.tensor([1000.0], device="cpu").to(torch.float8_e4m3fn).float().item() == 448.0
