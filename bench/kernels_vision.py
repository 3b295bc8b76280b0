"""Sampling, interpolation, deformable attention, rotated boxes, suppression and pooling of regions, for kernels.py.

python bench/kernels.py --quick --only suppression
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx
import torch
import torchvision
from bound import Bound
from kernels_cases import THREADS, Case, Machine, Measured, Section, runner
from onnx import TensorProto, helper

import opbridge
from opbridge.kernels.builtin import load_builtin

__all__ = ["SECTIONS"]

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
_TYPES = {torch.float32: TensorProto.FLOAT, torch.int64: TensorProto.INT64}
F = torch.nn.functional


def model(
    operator: str,
    inputs: Sequence[torch.Tensor | None],
    outputs: Sequence[torch.Tensor],
    domain: str = "opbridge_ops",
    opset: int = 20,
    **attributes: object,
) -> bytes:
    """A model of one operator."""
    names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
    results = [f"y{i}" for i in range(len(outputs))]
    graph = helper.make_graph(
        [helper.make_node(operator, names, results, domain=domain, **attributes)],
        "one_node",
        [
            helper.make_tensor_value_info(name, _TYPES[value.dtype], value.shape)
            for name, value in zip(names, inputs, strict=True)
            if value is not None
        ],
        [
            helper.make_tensor_value_info(name, _TYPES[value.dtype], [None] * value.dim())
            for name, value in zip(results, outputs, strict=True)
        ],
    )
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return made.SerializeToString()


def compared(
    name: str,
    operator: str,
    inputs: Sequence[torch.Tensor | None],
    attributes: dict[str, object],
    eager: Callable[[], object],
    standard: Bound | None = None,
    tolerance: float = 1e-3,
) -> Case:
    """A case whose contenders give the same."""
    expected = eager()
    tensors = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    node = model(operator, inputs, tensors, **attributes)
    ours = getattr(load_builtin(), operator)
    contenders: dict[str, Callable[[], object]] = {
        "PyTorch": eager,
        "kernel in PyTorch": lambda: ours(*inputs, **attributes),
        "kernel": runner(node, inputs),
        "1 thread": runner(node, inputs, threads=1),
    }
    if standard is not None:
        contenders["standard"] = standard
    for contender in contenders.values():
        actual = contender.results() if isinstance(contender, Bound) else contender()
        for got, wanted in zip([actual] if isinstance(actual, torch.Tensor) else actual, tensors, strict=True):
            torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)
    return Case(name, contenders)


def row(case: Case, measured: Measured, machine: Machine) -> list[str]:
    others = [measured.seconds[name] for name in ("PyTorch", "standard") if name in measured.seconds]
    return [
        case.name,
        *(measured.ms(name) for name in ("PyTorch", "standard", "kernel in PyTorch", "kernel")),
        f"{min(others) / measured.seconds['kernel']:.1f}",
        measured.ratio("1 thread", "kernel"),
    ]


def sampling_cases() -> Iterator[Case]:
    for batch, channels, size, dims in (
        (1, 3, 512, 2),
        (8, 1, 256, 2),
        (4, 64, 64, 2),
        (1, 256, 100, 2),
        (2, 16, 32, 3),
    ):
        x = torch.randn(batch, channels, *[size] * dims)
        turn = (torch.eye(dims, dims + 1) * 0.9).repeat(batch, 1, 1)
        grid = F.affine_grid(turn, list(x.shape), align_corners=False)
        grid = grid + torch.randn_like(grid) * 0.02
        for mode, padding in ((0, 0), (0, 2), (1, 0), (2, 0)) if dims == 2 else ((0, 0), (1, 0)):
            words = {
                "mode": {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}[MODES[mode]],
                "padding_mode": PADDINGS[padding],
                "align_corners": 0,
            }
            eager = _sampled(x, grid, mode, padding)
            theirs = runner(model("GridSample", (x, grid), [eager()], "", **words), (x, grid))
            yield compared(
                f"{MODES[mode]}, {PADDINGS[padding]}, {batch} x {channels} x {'x'.join([str(size)] * dims)}",
                "grid_sample",
                (x, grid),
                {"interpolation_mode": mode, "padding_mode": padding, "align_corners": 0},
                eager,
                theirs if _same(theirs, eager) else None,
            )


def _sampled(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int) -> Callable[[], torch.Tensor]:
    return lambda: F.grid_sample(x, grid, MODES[mode], PADDINGS[padding], False)


def _same(standard: Bound, eager: Callable[[], torch.Tensor]) -> bool:
    """Whether ONNX Runtime's own operator computes the same; it rounds some points to other pixels."""
    return bool((standard.results()[0] - eager()).abs().gt(1e-3).float().mean() == 0)


def interpolation_cases() -> Iterator[Case]:
    for batch, channels, size, scale in ((1, 3, 256, 2.0), (1, 64, 64, 2.0), (2, 256, 32, 1.75), (1, 3, 1024, 0.5)):
        x, scales = torch.randn(batch, channels, size, size), torch.tensor([scale, scale])
        eager = _interpolated(x, scale)
        every = torch.tensor([1.0, 1.0, scale, scale])
        words = {"mode": "cubic", "cubic_coeff_a": -0.75, "coordinate_transformation_mode": "half_pixel"}
        inputs = (x, None, every)
        theirs = runner(model("Resize", inputs, [x], "", 18, **words), inputs)
        yield compared(
            f"{batch} x {channels} x {size}x{size} by {scale}",
            "upsample_bicubic",
            (x, scales),
            {"align_corners": 0},
            eager,
            theirs if _same(theirs, eager) else None,
        )


def _interpolated(x: torch.Tensor, scale: float) -> Callable[[], torch.Tensor]:
    return lambda: F.interpolate(x, scale_factor=(scale, scale), mode="bicubic")


class Attention(torch.nn.Module):
    """Multi-scale deformable attention by grid_sample, as on a CPU in mmcv."""

    def __init__(self, shapes: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.shapes = shapes

    def forward(self, value: torch.Tensor, locations: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        batch, _, heads, dim = value.shape
        queries = locations.shape[1]
        sampled = []
        for level, keys in enumerate(value.split([height * width for height, width in self.shapes], dim=1)):
            image = keys.permute(0, 2, 3, 1).reshape(batch * heads, dim, *self.shapes[level])
            grid = (2 * locations[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1)
            sampled.append(F.grid_sample(image, grid, align_corners=False))
        each = weights.transpose(1, 2).reshape(batch * heads, 1, queries, -1)
        total = (torch.cat(sampled, dim=-1) * each).sum(-1)
        return total.reshape(batch, heads * dim, queries).transpose(1, 2)


def attention_cases() -> Iterator[Case]:
    levels = [(64, 64), (32, 32), (16, 16), (8, 8)]
    keys = sum(height * width for height, width in levels)
    starts = torch.tensor([0, 4096, 5120, 5376])
    for batch, queries in ((2, 300), (1, keys)):
        value, weights = torch.randn(batch, keys, 8, 32), torch.rand(batch, queries, 8, 4, 4)
        locations = torch.rand(batch, queries, 8, 4, 4, 2)
        plain = Attention(levels)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plain.onnx"
            opbridge.export(plain, (value, locations, weights), path, verify=False)
            standard = runner(path.read_bytes(), (value, locations, weights))
        yield compared(
            f"attention: batch {batch}, {queries} queries, 8 heads of 32, 4 levels of 4 points",
            "ms_deform_attn",
            (value, torch.tensor(levels), starts, locations, weights),
            {},
            lambda plain=plain, v=value, o=locations, w=weights: plain(v, o, w),
            standard,
        )


def region_cases() -> Iterator[Case]:
    for channels, size, count, ratio, pooled in (
        (256, (50, 68), 300, 0, 7),
        (64, (200, 272), 500, 0, 7),
        (256, (50, 68), 300, 2, 14),
    ):
        x, start = torch.randn(1, channels, *size), torch.rand(count, 2) * torch.tensor([size[1], size[0]]) * 0.8
        extent = torch.rand(count, 2) * 20 + 1
        rois = torch.cat([torch.zeros(count, 1), start, start + extent], dim=1)
        given = {
            "spatial_scale": 1.0,
            "pooled_height": pooled,
            "pooled_width": pooled,
            "sampling_ratio": ratio,
            "aligned": 1,
        }
        words = {
            "output_height": pooled,
            "output_width": pooled,
            "sampling_ratio": ratio,
            "spatial_scale": 1.0,
            "coordinate_transformation_mode": "half_pixel",
        }
        image = torch.zeros(count, dtype=torch.int64)
        eager = _pooled(x, rois, pooled, ratio)
        theirs = (x, rois[:, 1:].contiguous(), image)
        name = f"{count} of {channels} x {size[0]}x{size[1]} to {pooled}x{pooled}, {ratio or 'adaptive'} samples"
        standard = runner(model("RoiAlign", theirs, [eager()], "", 16, **words), theirs)
        yield compared(f"regions: {name}", "roi_align", (x, rois), given, eager, standard)
        if ratio:
            angle = torch.rand(count, 1) * 3
            turned = torch.cat([rois[:, :1], start + extent / 2, extent, angle], dim=1)
            yield compared(
                f"rotated regions: {name}",
                "roi_align_rotated",
                (x, turned),
                given | {"clockwise": 1},
                lambda x=x, rois=turned, pooled=pooled, ratio=ratio: pooled_by_grid(x, rois, pooled, ratio),
            )


def _pooled(x: torch.Tensor, rois: torch.Tensor, pooled: int, ratio: int) -> Callable[[], torch.Tensor]:
    return lambda: torchvision.ops.roi_align(x, rois, (pooled, pooled), 1.0, ratio, True)


def pooled_by_grid(x: torch.Tensor, rois: torch.Tensor, pooled: int, ratio: int) -> torch.Tensor:
    """Rotated regions of one image by grid_sample: a point is clamped to the image unless it is a pixel beyond it."""
    height, width = x.shape[2:]
    steps = (torch.arange(pooled * ratio) + 0.5) / (pooled * ratio) - 0.5
    v, u = steps[:, None] * rois[:, 4, None, None], steps * rois[:, 3, None, None]
    cosine, sine = rois[:, 5, None, None].cos(), rois[:, 5, None, None].sin()
    px, py = u * cosine - v * sine + rois[:, 1, None, None] - 0.5, u * sine + v * cosine + rois[:, 2, None, None] - 0.5
    inside = (px >= -1) & (px <= width) & (py >= -1) & (py <= height)
    grid = torch.stack([(2 * px + 1) / width - 1, (2 * py + 1) / height - 1], dim=-1).flatten(0, 1)[None]
    samples = F.grid_sample(x, grid, padding_mode="border", align_corners=False)[0]
    samples = samples.unflatten(1, (len(rois), -1)) * inside
    return F.avg_pool2d(samples.transpose(0, 1), ratio)


def box_cases() -> Iterator[Case]:
    for count in (300, 2000):
        boxes = torch.rand(count, 5) * torch.tensor([800, 800, 60, 60, 3.0]) + torch.tensor([0, 0, 2, 2, 0.0])
        scores = torch.rand(count)
        upright = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:4], scores[:, None]], dim=1)
        yield compared(
            f"overlaps of {count} and {count} rotated boxes",
            "box_iou_rotated",
            (boxes, boxes),
            {"mode": "iou", "aligned": 0, "clockwise": 1},
            lambda boxes=boxes: torchvision.ops.box_iou(*[_degrees(boxes)] * 2, fmt="cxcywhr"),
        )
        yield compared(
            f"suppression of {count} rotated boxes",
            "nms_rotated",
            (boxes, scores, None),
            {"iou_threshold": 0.3, "clockwise": 1},
            lambda boxes=boxes, scores=scores: kept_of(
                torchvision.ops.box_iou(*[_degrees(boxes)] * 2, fmt="cxcywhr") > 0.3, scores
            ),
        )
        yield compared(
            f"suppression of {count} boxes in groups",
            "nms_match",
            (upright,),
            {"iou_threshold": 0.3},
            lambda dets=upright: groups_of(torchvision.ops.box_iou(dets[:, :4], dets[:, :4]) >= 0.3, dets[:, 4]),
        )


def _degrees(boxes: torch.Tensor) -> torch.Tensor:
    return torch.cat([boxes[:, :4], boxes[:, 4:] * (-180 / math.pi)], dim=1)


def kept_of(overlap: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Suppression, given what overlaps what, in PyTorch."""
    sizes = groups_of(overlap, scores)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), sizes[1].cumsum(0)[:-1]])
    return sizes[0][starts]


def groups_of(overlap: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    order = scores.argsort(descending=True, stable=True)
    overlap = overlap[order][:, order]
    left, groups = torch.ones(len(order), dtype=torch.bool), []
    for i in range(len(order)):
        if left[i]:
            members = overlap[i] & left
            members[i] = True
            groups.append(order[members])
            left &= ~members
    return torch.cat(groups), torch.tensor([len(group) for group in groups])


_HEADER = (
    "PyTorch, torchvision",
    "standard operators in ONNX Runtime",
    "kernel in PyTorch",
    "kernel in ONNX Runtime",
    "the faster of the others / kernel",
    f"1 thread / {THREADS} threads",
)
SECTIONS = [
    Section(
        "Sampling at points of a grid",
        ["ms", *_HEADER],
        sampling_cases,
        row,
        "- : ONNX Runtime's own kernel returns other values or does not exist.",
    ),
    Section("Bicubic interpolation", ["ms", *_HEADER], interpolation_cases, row),
    Section("Multi-scale deformable attention", ["ms", *_HEADER], attention_cases, row),
    Section("Pooling of regions", ["ms", *_HEADER], region_cases, row),
    Section("Rotated boxes and suppression", ["ms", *_HEADER], box_cases, row),
]
