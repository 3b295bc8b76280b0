"""Dynamic and deformable convolution, for kernels.py."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torchvision
from kernels_cases import THREADS, Case, Machine, Measured, Section, one_node, runner

import opbridge
from opbridge.kernels.builtin import load_builtin

__all__ = ["SECTIONS"]

TAPS = 31


class DynamicConvolution(torch.nn.Module):
    """As PyTorch computes it: the taps unfolded, and einsum."""

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        batch, channels, time = x.shape
        heads, taps = weight.shape[1:3]
        padded = torch.nn.functional.pad(x, (taps // 2, taps - 1 - taps // 2))
        windows = padded.unfold(2, taps, 1).reshape(batch, heads, channels // heads, time, taps)
        return torch.einsum("bhctk,bhkt->bhct", windows, weight).reshape(batch, channels, time)


def dynamic_cases() -> Iterator[Case]:
    ops, plain = load_builtin(), DynamicConvolution()
    for batch, channels, heads, time in ((16, 512, 8, 32), (1, 256, 8, 512)):
        x, weight = torch.randn(batch, channels, time), torch.randn(batch, heads, TAPS, time).softmax(2)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plain.onnx"
            opbridge.export(plain, (x, weight), path, verify=False)
            standard = runner(path.read_bytes(), (x, weight))
        node = one_node("dynamic_conv", (x, weight), padding_l=TAPS // 2)
        kernel, single = runner(node, (x, weight)), runner(node, (x, weight), threads=1)
        grad = torch.randn_like(x)
        contenders: dict[str, Callable[[], object]] = {
            "PyTorch": lambda x=x, weight=weight: plain(x, weight),
            "standard": standard,
            "kernel in PyTorch": lambda x=x, weight=weight: ops.dynamic_conv(x, weight, TAPS // 2),
            "kernel": kernel,
            "1 thread": single,
            "backward": lambda x=x, w=weight, g=grad: ops.dynamic_conv_backward(g, x, w, TAPS // 2),
        }
        expected = plain(x, weight)
        found = [each.results()[0] for each in (standard, kernel, single)]
        for actual in (*found, contenders["kernel in PyTorch"]()):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        name = f"B {batch}, C {channels}, H {heads}, K {TAPS}, T {time}"
        bytes_ = 4.0 * (2 * x.numel() + weight.numel())
        yield Case(name, contenders, flops=2.0 * x.numel() * TAPS, bytes=bytes_)


def dynamic_row(case: Case, measured: Measured, machine: Machine) -> list[str]:
    least = machine.least(case.flops, case.bytes)
    return [
        case.name,
        *(measured.ms(name) for name in ("PyTorch", "standard", "kernel in PyTorch", "kernel", "backward")),
        measured.ratio("PyTorch", "kernel"),
        f"{measured.seconds['kernel'] / least:.1f}",
        measured.ratio("1 thread", "kernel"),
    ]


def deform_cases() -> Iterator[Case]:
    ops, vision = load_builtin(), torchvision.ops.deform_conv2d
    for channels, size in ((64, 64), (256, 32), (128, 100)):
        x, weight = torch.randn(1, channels, size, size), torch.randn(channels, channels, 3, 3) / channels**0.5 / 3
        offset, mask = torch.randn(1, 18, size, size), torch.rand(1, 9, size, size)
        given = (x, weight, offset, None, mask)
        theirs = runner(one_node("DeformConv", given, "", 19, pads=[1] * 4, kernel_shape=[3, 3]), given)
        ours = (x, weight, offset, mask)
        both = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1, "offset_groups": 1}
        node = one_node("deform_conv2d", ours, **both)
        kernel, single = runner(node, ours), runner(node, ours, threads=1)
        contenders: dict[str, Callable[[], object]] = {
            "torchvision": lambda x=x, o=offset, w=weight, m=mask: vision(x, o, w, padding=1, mask=m),
            "DeformConv": theirs,
            "kernel in PyTorch": lambda ours=ours: ops.deform_conv2d(*ours, None, padding=[1, 1]),
            "kernel": kernel,
            "1 thread": single,
            "conv2d": lambda x=x, weight=weight: torch.nn.functional.conv2d(x, weight, padding=1),
        }
        expected = contenders["torchvision"]()
        found = [each.results()[0] for each in (theirs, kernel, single)]
        for actual in (*found, contenders["kernel in PyTorch"]()):
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
        yield Case(f"{channels} channels, {size}x{size}", contenders)


def deform_row(case: Case, measured: Measured, machine: Machine) -> list[str]:
    columns = ("torchvision", "DeformConv", "kernel in PyTorch", "kernel", "conv2d")
    return [
        case.name,
        *(measured.ms(name) for name in columns),
        measured.ratio("torchvision", "kernel"),
        measured.ratio("DeformConv", "kernel"),
        measured.ratio("1 thread", "kernel"),
    ]


SECTIONS = [
    Section(
        "Dynamic convolution over time",
        [
            "ms",
            "PyTorch: unfold, einsum",
            "the same in ONNX Runtime",
            "kernel in PyTorch",
            "kernel in ONNX Runtime",
            "both gradients",
            "PyTorch / kernel",
            "kernel / least",
            f"1 thread / {THREADS} threads",
        ],
        dynamic_cases,
        dynamic_row,
        "The minimum time is the larger of the times for its operations and for its bytes at the machine's peak speed.",
    ),
    Section(
        "Deformable convolution",
        [
            "ms",
            "torchvision",
            "ONNX Runtime's DeformConv",
            "kernel in PyTorch",
            "kernel in ONNX Runtime",
            "a plain conv2d",
            "torchvision / kernel",
            "DeformConv / kernel",
            f"1 thread / {THREADS} threads",
        ],
        deform_cases,
        deform_row,
        "With masks, 3x3 taps and the same number of output channels. The plain convolution computes less and is shown "
        "for comparison.",
    ),
]
