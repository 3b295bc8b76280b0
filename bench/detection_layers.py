"""Layers of detectors as detectron2 and mmcv have them, written with the kernels of torchvision.ops.

    opbridge models --family bench/detection_layers.py:entries --dynamic all

They are not in the package, as its own code is no code of a model. They are plain PyTorch: pooling of regions from
several levels, anchors and box codings, proposals, suppression with data-dependent counts, deformable and modulated
convolutions, pasted masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary

__all__ = ["entries"]

_BATCH = Size(2, (1, 3))
_MAPS = {"batch": _BATCH, "height": Size(16, (12, 24)), "width": Size(20, (16, 12))}
_REGIONS = {**_MAPS, "boxes": Size(7, (5, 11))}
_BOXES = {"boxes": Size(24, (17, 40))}
_CHANNELS, _CLASSES = 8, 4


def entries() -> Iterator[ModelEntry]:
    """The layers, by the name that they have in the packages."""
    for name, (make, draw, sizes) in _LAYERS.items():
        yield ModelEntry(name, partial(_case, make, draw, sizes))


def _case(make: Callable[[], nn.Module], draw: Callable[..., Inputs], sizes: Mapping[str, Size]) -> Case:
    return vary(make(), draw, sizes)


def _features(batch: int, height: int, width: int) -> Tensor:
    return torch.randn(batch, _CHANNELS, height, width)


def _maps(batch: int, height: int, width: int) -> Inputs:
    return Inputs((_features(batch, height, width),))


def _pyramid(batch: int, height: int, width: int) -> list[Tensor]:
    """Three levels, each half as large as the one before, rounded up."""
    sides = [(-(-height // 2**i), -(-width // 2**i)) for i in range(3)]
    return [_features(batch, *side) for side in sides]


def _levels(batch: int, height: int, width: int) -> Inputs:
    return Inputs((_pyramid(batch, height, width),))


def _corners(count: int, width: float, height: float) -> Tensor:
    low = torch.rand(count, 2) * torch.tensor([0.6 * width, 0.6 * height])
    return torch.cat([low, low + 1 + torch.rand(count, 2) * torch.tensor([0.3 * width, 0.3 * height])], 1)


def _rois(batch: int, boxes: int, width: float, height: float) -> Tensor:
    """Boxes with the number of their image before them."""
    return torch.cat([torch.randint(0, batch, (boxes, 1)).float(), _corners(boxes, width, height)], 1)


def _pooled(batch: int, height: int, width: int, boxes: int) -> Inputs:
    return Inputs((_features(batch, height, width), _rois(batch, boxes, 4 * width, 4 * height)))


def _pooled_pyramid(batch: int, height: int, width: int, boxes: int) -> Inputs:
    return Inputs((_pyramid(batch, height, width), _rois(batch, boxes, 4 * width, 4 * height)))


def _listed(height: int, width: int, boxes: int) -> Inputs:
    """One image with its boxes as a list of one."""
    return Inputs((_features(1, height, width), [_corners(boxes, 4 * width, 4 * height)]))


def _scored(boxes: int) -> Inputs:
    return Inputs((_corners(boxes, 64, 64), torch.rand(boxes)))


def _scored_by_class(boxes: int) -> Inputs:
    return Inputs((_corners(boxes, 64, 64), torch.rand(boxes), torch.randint(0, _CLASSES, (boxes,))))


def _class_scores(boxes: int) -> Inputs:
    return Inputs((_corners(boxes, 64, 64), torch.randn(boxes, _CLASSES + 1).softmax(1)))


def _images_of_boxes(batch: int, boxes: int) -> Inputs:
    low = torch.rand(batch, boxes, 2) * 40
    return Inputs((torch.cat([low, low + 1 + torch.rand(batch, boxes, 2) * 20], 2), torch.rand(batch, boxes)))


def _two_sets(boxes: int) -> Inputs:
    return Inputs((_corners(boxes, 64, 64), _corners(5, 64, 64)))


def _anchored(boxes: int) -> Inputs:
    return Inputs((_corners(boxes, 64, 64), 0.3 * torch.randn(boxes, 4)))


def _masks(boxes: int) -> Inputs:
    return Inputs((torch.rand(boxes, 14, 14), _corners(boxes, 40, 40)))


class RoIAlign(nn.Module):
    """As in detectron2 and mmcv: aligned, of one level."""

    def __init__(self, ratio: int = 0, mode: str = "align") -> None:
        super().__init__()
        self.ratio, self.mode = ratio, mode

    def forward(self, features: Tensor, rois: Tensor) -> Tensor:
        import torchvision.ops as ops

        if self.mode == "align":
            return ops.roi_align(features, rois, (7, 7), 0.25, self.ratio, aligned=True)
        if self.mode == "pool":
            return ops.roi_pool(features, rois, (7, 7), 0.25)
        if self.mode == "ps_align":
            return ops.ps_roi_align(features, rois, (2, 2), 0.25, 2)
        return ops.ps_roi_pool(features, rois, (2, 2), 0.25)


class ROIPooler(nn.Module):
    """detectron2's: each box is pooled from the level that its area asks for, and results are put where it was."""

    def forward(self, levels: list[Tensor], rois: Tensor) -> Tensor:
        import torchvision.ops as ops

        areas = (rois[:, 3] - rois[:, 1]) * (rois[:, 4] - rois[:, 2])
        assigned = torch.floor(1 + torch.log2(areas.sqrt() / 16 + 1e-8)).clamp(0, len(levels) - 1).to(torch.int64)
        pooled = levels[0].new_zeros(rois.shape[0], _CHANNELS, 7, 7)
        for i, features in enumerate(levels):
            chosen = torch.nonzero(assigned == i).squeeze(1)
            pooled.index_put_((chosen,), ops.roi_align(features, rois[chosen], (7, 7), 0.25 / 2**i, 2, aligned=True))
        return pooled


class SingleRoIExtractor(ROIPooler):
    """mmdetection's: as above, with a mask and only where a level has boxes."""

    def forward(self, levels: list[Tensor], rois: Tensor) -> Tensor:
        import torchvision.ops as ops

        scale = torch.sqrt((rois[:, 3] - rois[:, 1]) * (rois[:, 4] - rois[:, 2]))
        assigned = torch.floor(torch.log2(scale / 16 + 1e-6)).clamp(min=0, max=len(levels) - 1).long()
        pooled = levels[0].new_zeros(rois.size(0), _CHANNELS, 7, 7)
        for i, features in enumerate(levels):
            mask = assigned == i
            chosen = mask.nonzero(as_tuple=False).squeeze(1)
            if chosen.numel() > 0:
                pooled[chosen] = ops.roi_align(features, rois[chosen], (7, 7), 0.25 / 2**i, 0, aligned=True)
        return pooled


class DeformConv(nn.Module):
    """mmcv's DeformConv2dPack and ModulatedDeformConv2dPack: the offsets come from a convolution of the input."""

    def __init__(self, modulated: bool, groups: int = 1, dilation: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.modulated, self.dilation, self.stride = modulated, dilation, stride
        self.groups = groups
        size = (3 if modulated else 2) * 9 * groups
        self.offsets = nn.Conv2d(_CHANNELS, size, 3, stride, dilation, dilation)
        self.weight = nn.Parameter(torch.randn(6, _CHANNELS // groups, 3, 3) * 0.1)
        if groups > 1:
            self.weight = nn.Parameter(torch.randn(2 * groups, _CHANNELS // groups, 3, 3) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        import torchvision.ops as ops

        out = self.offsets(x)
        mask = None
        if self.modulated:
            first, second, mask = torch.chunk(out, 3, dim=1)
            out, mask = torch.cat((first, second), 1), torch.sigmoid(mask)
        return ops.deform_conv2d(x, out, self.weight, None, self.stride, self.dilation, self.dilation, mask)


class AnchorGenerator(nn.Module):
    """detectron2's anchors of a pyramid: grids of the levels' sizes, shifted."""

    def __init__(self) -> None:
        super().__init__()
        for i in range(3):
            size = 16.0 * 2**i
            cells = [[-size * r, -size / r, size * r, size / r] for r in (0.5, math.sqrt(0.5), 1.0)]
            self.register_buffer(f"cells_{i}", torch.tensor(cells) / 2)

    def forward(self, levels: list[Tensor]) -> list[Tensor]:
        found = []
        for i, features in enumerate(levels):
            height, width = features.shape[-2:]
            stride = 4 * 2**i
            xs = torch.arange(0, width * stride, stride, dtype=torch.float32, device=features.device)
            ys = torch.arange(0, height * stride, stride, dtype=torch.float32, device=features.device)
            y, x = torch.meshgrid(ys, xs, indexing="ij")
            shifts = torch.stack((x.reshape(-1), y.reshape(-1), x.reshape(-1), y.reshape(-1)), dim=1)
            cells = getattr(self, f"cells_{i}")
            found.append((shifts.view(-1, 1, 4) + cells.view(1, -1, 4)).reshape(-1, 4))
        return found


def _decoded(anchors: Tensor, deltas: Tensor) -> Tensor:
    """detectron2's Box2BoxTransform.apply_deltas."""
    widths, heights = anchors[:, 2] - anchors[:, 0], anchors[:, 3] - anchors[:, 1]
    x, y = anchors[:, 0] + 0.5 * widths, anchors[:, 1] + 0.5 * heights
    dx, dy = deltas[:, 0::4] / 10, deltas[:, 1::4] / 10
    dw, dh = (torch.clamp(deltas[:, i::4] / 5, max=math.log(1000.0 / 16)) for i in (2, 3))
    x, y = dx * widths[:, None] + x[:, None], dy * heights[:, None] + y[:, None]
    w, h = torch.exp(dw) * widths[:, None], torch.exp(dh) * heights[:, None]
    return torch.stack((x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h), dim=-1).reshape(deltas.shape)


class ProposalNetwork(nn.Module):
    """detectron2's RPN at inference: the best boxes of each level, clipped, without empty ones, suppressed."""

    def __init__(self, most: int = 12) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(_CHANNELS, _CHANNELS, 3, 1, 1)
        self.objectness = nn.Conv2d(_CHANNELS, 3, 1)
        self.deltas = nn.Conv2d(_CHANNELS, 12, 1)
        self.anchors = AnchorGenerator()
        self.most = most

    def forward(self, levels: list[Tensor]) -> list[Tensor]:
        import torchvision.ops as ops

        anchors = self.anchors(levels)
        boxes, scores, numbers = [], [], []
        for i, features in enumerate(levels):
            hidden = functional.relu(self.convolution(features))
            logits = self.objectness(hidden).permute(0, 2, 3, 1).flatten(1)
            deltas = self.deltas(hidden)
            deltas = deltas.view(deltas.shape[0], -1, 4, *deltas.shape[-2:]).permute(0, 3, 4, 1, 2).flatten(1, -2)
            count = min(logits.shape[1], self.most)
            best, order = logits.topk(count, dim=1)
            spread = anchors[i].unsqueeze(0).expand(deltas.shape[0], -1, -1).reshape(-1, 4)
            decoded = _decoded(spread, deltas.reshape(-1, 4)).view(deltas.shape[0], -1, 4)
            boxes.append(decoded[torch.arange(deltas.shape[0]).unsqueeze(1), order])
            scores.append(best)
            numbers.append(torch.full((count,), i, dtype=torch.int64))
        every, all_scores, level = torch.cat(boxes, 1), torch.cat(scores, 1), torch.cat(numbers)
        height, width = levels[0].shape[-2] * 4, levels[0].shape[-1] * 4
        results = []
        for one, own in zip(every, all_scores, strict=True):
            clipped = ops.clip_boxes_to_image(one, (height, width))
            kept = ops.remove_small_boxes(clipped, 1e-3)
            clipped, own, its = clipped[kept], own[kept], level[kept]
            kept = ops.batched_nms(clipped, own, its, 0.7)[: self.most]
            results.append(clipped[kept])
        return results


class FastRCNNInference(nn.Module):
    """detectron2's fast_rcnn_inference_single_image: scores above a threshold, suppressed by class, the best ones."""

    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        import torchvision.ops as ops

        valid = torch.isfinite(boxes).all(dim=1) & torch.isfinite(scores).all(dim=1)
        if not valid.all():
            boxes, scores = boxes[valid], scores[valid]
        scores = scores[:, :-1]
        boxes = ops.clip_boxes_to_image(boxes, (64, 64)).view(-1, 1, 4).expand(-1, scores.shape[1], 4)
        mask = scores > 0.15
        where = mask.nonzero()
        boxes, scores = boxes[mask], scores[mask]
        keep = ops.batched_nms(boxes, scores, where[:, 1], 0.5)[:10]
        return boxes[keep], scores[keep], where[keep][:, 1]


class MulticlassNMS(nn.Module):
    """mmdetection's multiclass_nms."""

    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        import torchvision.ops as ops

        classes = scores.size(1) - 1
        every = boxes[:, None].expand(scores.size(0), classes, 4).reshape(-1, 4)
        own = scores[:, :-1].reshape(-1)
        labels = torch.arange(classes, dtype=torch.long).view(1, -1).expand(scores.size(0), -1).reshape(-1)
        found = (own > 0.15).nonzero(as_tuple=False).squeeze(1)
        every, own, labels = every[found], own[found], labels[found]
        if every.numel() == 0:
            return torch.cat([every, own[:, None]], -1), labels
        shifted = every + labels.to(every)[:, None] * (every.max() + 1)
        keep = ops.nms(shifted, own, 0.5)[:10]
        return torch.cat([every[keep], own[keep][:, None]], -1), labels[keep]


class CenterNetHead(nn.Module):
    """CenterNet: peaks of a heat map, the best of all classes, with the sizes that are gathered there."""

    def __init__(self) -> None:
        super().__init__()
        self.heat = nn.Conv2d(_CHANNELS, _CLASSES, 1)
        self.sizes = nn.Conv2d(_CHANNELS, 2, 1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heat = self.heat(features).sigmoid()
        peaks = functional.max_pool2d(heat, 3, 1, 1)
        heat = heat * (peaks == heat)
        batch, _, height, width = heat.shape
        scores, at = heat.view(batch, -1).topk(5)
        classes, at = at // (height * width), at % (height * width)
        y, x = (at // width).float(), (at % width).float()
        sizes = self.sizes(features).flatten(2).transpose(1, 2).gather(1, at.unsqueeze(-1).expand(-1, -1, 2))
        corners = torch.stack([x - sizes[..., 0], y - sizes[..., 1], x + sizes[..., 0], y + sizes[..., 1]], -1)
        return corners, scores, classes


class MatrixNMS(nn.Module):
    """SOLO's mask_matrix_nms: scores decay with the overlap of masks."""

    def forward(self, masks: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        order = scores.argsort(descending=True)[:20]
        masks, scores, labels = masks[order] > 0.5, scores[order], labels[order]
        flat = masks.flatten(1).float()
        areas = flat.sum(1)
        inner = flat @ flat.T
        count = len(labels)
        overlap = (inner / (areas + areas[:, None] - inner + 1e-6)).triu(diagonal=1)
        same = (labels.expand(count, count) == labels.expand(count, count).T).triu(diagonal=1)
        most = (overlap * same).max(0)[0].expand(count, count).T
        decay = torch.exp(-2 * (overlap * same) ** 2) / torch.exp(-2 * most**2)
        return scores * decay.min(0)[0]


def _labelled_masks(boxes: int) -> Inputs:
    return Inputs((torch.rand(boxes, 12, 12), torch.rand(boxes), torch.randint(0, _CLASSES, (boxes,))))


def _soft_nms(boxes: Tensor, scores: Tensor) -> Tensor:
    """Gaussian soft suppression, box by box, in place."""
    import torchvision.ops as ops

    scores = scores.clone()
    overlap = ops.box_iou(boxes, boxes)
    kept = torch.zeros_like(scores)
    for _ in range(boxes.shape[0]):
        best = scores.argmax()
        kept[best] = scores[best]
        scores = scores * torch.exp(-(overlap[best] ** 2) / 0.5)
        scores[best] = -1
    return kept


def _paste_masks(masks: Tensor, boxes: Tensor) -> Tensor:
    """detectron2's _do_paste_mask on an image of 48 by 40, with grid_sample."""
    x0, y0, x1, y1 = torch.split(boxes, 1, dim=1)
    ys = (torch.arange(0, 40, dtype=torch.float32) + 0.5 - y0) / (y1 - y0) * 2 - 1
    xs = (torch.arange(0, 48, dtype=torch.float32) + 0.5 - x0) / (x1 - x0) * 2 - 1
    count = masks.shape[0]
    grid_x = xs[:, None, :].expand(count, ys.size(1), xs.size(1))
    grid_y = ys[:, :, None].expand(count, ys.size(1), xs.size(1))
    found = functional.grid_sample(masks[:, None], torch.stack([grid_x, grid_y], dim=3), align_corners=False)
    return found[:, 0] >= 0.5


def _tight_masks(masks: Tensor, boxes: Tensor) -> Tensor:
    """As above, only where boxes are: the region is a value of the data."""
    x0, y0 = torch.clamp(boxes.min(dim=0).values.floor()[:2] - 1, min=0).to(dtype=torch.int32)
    x1 = torch.clamp(boxes[:, 2].max().ceil() + 1, max=48).to(dtype=torch.int32)
    y1 = torch.clamp(boxes[:, 3].max().ceil() + 1, max=40).to(dtype=torch.int32)
    ys = (torch.arange(int(y0), int(y1), dtype=torch.float32) + 0.5 - boxes[:, 1:2]) / (boxes[:, 3:] - boxes[:, 1:2])
    xs = (torch.arange(int(x0), int(x1), dtype=torch.float32) + 0.5 - boxes[:, :1]) / (boxes[:, 2:3] - boxes[:, :1])
    count = masks.shape[0]
    grid_x = (xs * 2 - 1)[:, None, :].expand(count, ys.size(1), xs.size(1))
    grid_y = (ys * 2 - 1)[:, :, None].expand(count, ys.size(1), xs.size(1))
    return functional.grid_sample(masks[:, None], torch.stack([grid_x, grid_y], dim=3), align_corners=False)


def _per_image_nms(boxes: Tensor, scores: Tensor) -> list[Tensor]:
    """The number of kept boxes is each image's own."""
    import torchvision.ops as ops

    return [one[ops.nms(one, own, 0.5)] for one, own in zip(boxes, scores, strict=True)]


def _nested_masks(boxes: int) -> Inputs:
    masks = torch.zeros(boxes, 20, 24, dtype=torch.bool)
    for i in range(boxes):
        masks[i, i % 8 : i % 8 + 4, i % 10 : i % 10 + 7] = True
    return Inputs((masks,))


class CarafeUpsample(nn.Module):
    """mmcv's CARAFE, written with unfold: each pixel is a weighted sum of its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = nn.Conv2d(_CHANNELS, 4 * 9, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        kernels = functional.pixel_shuffle(self.kernels(x), 2)
        kernels = kernels.view(batch, 9, 2 * height, 2 * width).softmax(dim=1)
        parts = functional.unfold(x, 3, padding=1).view(batch, channels * 9, height, width)
        parts = functional.interpolate(parts, scale_factor=2, mode="nearest")
        parts = parts.view(batch, channels, 9, 2 * height, 2 * width)
        return (parts * kernels.unsqueeze(1)).sum(2)


class MultiScaleDeformableAttention(nn.Module):
    """mmcv's multi_scale_deformable_attn_pytorch of a pyramid, with queries of the pyramid itself."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.offsets = nn.Linear(_CHANNELS, _CHANNELS), nn.Linear(_CHANNELS, 2 * 3 * 2 * 2)
        self.weights = nn.Linear(_CHANNELS, 2 * 3 * 2)

    def forward(self, levels: list[Tensor]) -> Tensor:
        shapes = [level.shape[-2:] for level in levels]
        flat = torch.cat([level.flatten(2).transpose(1, 2) for level in levels], 1)
        batch, total, _ = flat.shape
        value = self.value(flat).view(batch, total, 2, _CHANNELS // 2)
        offsets = self.offsets(flat).view(batch, total, 2, 3, 2, 2) * 0.05
        weights = self.weights(flat).view(batch, total, 2, 6).softmax(-1).view(batch, total, 2, 3, 2)
        points = torch.cat(
            [
                torch.stack(
                    torch.meshgrid(torch.linspace(0.1, 0.9, h), torch.linspace(0.1, 0.9, w), indexing="ij")[::-1], -1
                ).reshape(-1, 2)
                for h, w in shapes
            ]
        )
        grids = 2 * (points[None, :, None, None, None] + offsets) - 1
        parts = value.split([h * w for h, w in shapes], dim=1)
        sampled = []
        for i, (h, w) in enumerate(shapes):
            part = parts[i].flatten(2).transpose(1, 2).reshape(batch * 2, _CHANNELS // 2, h, w)
            grid = grids[:, :, :, i].transpose(1, 2).flatten(0, 1)
            sampled.append(functional.grid_sample(part, grid, align_corners=False))
        weights = weights.transpose(1, 2).reshape(batch * 2, 1, total, 6)
        out = (torch.stack(sampled, dim=-2).flatten(-2) * weights).sum(-1)
        return out.view(batch, _CHANNELS, total).transpose(1, 2).contiguous()


class _Calling(nn.Module):
    """A module that calls a function, of a module if there is one."""

    def __init__(self, function: Callable[..., object], module: nn.Module | None = None, **fixed: object) -> None:
        super().__init__()
        self.module, self.function, self.fixed = module, function, fixed

    def forward(self, first: object, second: object = None, third: object = None) -> object:
        given = [each for each in (self.module, first, second, third) if each is not None]
        return self.function(*given, **self.fixed)


def _ops(name: str, **options: object) -> Callable[[], nn.Module]:
    """A module or a function of torchvision.ops."""

    def make() -> nn.Module:
        import torchvision.ops as ops

        thing = getattr(ops, name)
        return thing(**options) if isinstance(thing, type) else _Calling(thing, **options)

    return make


def _fpn() -> nn.Module:
    import torchvision.ops as ops

    pyramid = ops.FeaturePyramidNetwork([_CHANNELS] * 3, 6)
    return _Calling(lambda module, levels: module({str(i): level for i, level in enumerate(levels)}), pyramid)


def _multi_scale() -> nn.Module:
    import torchvision.ops as ops

    pooler = ops.MultiScaleRoIAlign(["0", "1", "2"], 7, 2)
    return _Calling(
        lambda module, levels, rois: module(
            {str(i): level for i, level in enumerate(levels)},
            [rois[:, 1:]],
            [(4 * levels[0].shape[-2], 4 * levels[0].shape[-1])],
        ),
        pooler,
    )


def _one_image(height: int, width: int, boxes: int) -> Inputs:
    return Inputs((_pyramid(1, height, width), _rois(1, boxes, 4 * width, 4 * height)))


_ONE = {"height": Size(16, (12, 24)), "width": Size(20, (16, 12)), "boxes": Size(7, (5, 11))}
_Row = tuple[Callable[[], nn.Module], Callable[..., Inputs], Mapping[str, Size]]
_LAYERS: Mapping[str, _Row] = {
    "RoIAlign": (RoIAlign, _pooled, _REGIONS),
    "RoIAlign, sampling_ratio=2": (partial(RoIAlign, 2), _pooled, _REGIONS),
    "RoIPool": (partial(RoIAlign, 0, "pool"), _pooled, _REGIONS),
    "PSRoIAlign": (partial(RoIAlign, 0, "ps_align"), _pooled, _REGIONS),
    "PSRoIPool": (partial(RoIAlign, 0, "ps_pool"), _pooled, _REGIONS),
    "RoIAlign, list of boxes": (_ops("RoIAlign", output_size=5, spatial_scale=0.25, sampling_ratio=2), _listed, _ONE),
    "MultiScaleRoIAlign": (_multi_scale, _one_image, _ONE),
    "ROIPooler": (ROIPooler, _pooled_pyramid, _REGIONS),
    "SingleRoIExtractor": (SingleRoIExtractor, _pooled_pyramid, _REGIONS),
    "DeformConv2dPack": (partial(DeformConv, False), _maps, _MAPS),
    "ModulatedDeformConv2dPack": (partial(DeformConv, True), _maps, _MAPS),
    "ModulatedDeformConv2dPack, groups": (partial(DeformConv, True, 2, 2, 2), _maps, _MAPS),
    "FeaturePyramidNetwork": (_fpn, _levels, _MAPS),
    "AnchorGenerator": (AnchorGenerator, _levels, _MAPS),
    "RPN": (ProposalNetwork, _levels, _MAPS),
    "fast_rcnn_inference": (FastRCNNInference, _class_scores, _BOXES),
    "multiclass_nms": (MulticlassNMS, _class_scores, _BOXES),
    "CenterNetHead": (CenterNetHead, _maps, _MAPS),
    "mask_matrix_nms": (MatrixNMS, _labelled_masks, _BOXES),
    "soft_nms": (partial(_Calling, _soft_nms), _scored, _BOXES),
    "paste_masks": (partial(_Calling, _paste_masks), _masks, _BOXES),
    "paste_masks, tight": (partial(_Calling, _tight_masks), _masks, _BOXES),
    "nms": (_ops("nms", iou_threshold=0.5), _scored, _BOXES),
    "batched_nms": (_ops("batched_nms", iou_threshold=0.5), _scored_by_class, _BOXES),
    "nms, each image": (partial(_Calling, _per_image_nms), _images_of_boxes, {"batch": _BATCH, **_BOXES}),
    "Box2BoxTransform": (partial(_Calling, _decoded), _anchored, _BOXES),
    "generalized_box_iou": (_ops("generalized_box_iou"), _two_sets, _BOXES),
    "complete_box_iou_loss": (
        _ops("complete_box_iou_loss", reduction="mean"),
        lambda boxes: Inputs((_corners(boxes, 64, 64), _corners(boxes, 64, 64))),
        _BOXES,
    ),
    "masks_to_boxes": (_ops("masks_to_boxes"), _nested_masks, _BOXES),
    "CARAFE": (CarafeUpsample, _maps, _MAPS),
    "MultiScaleDeformableAttention": (MultiScaleDeformableAttention, _levels, _MAPS),
    "sigmoid_focal_loss": (
        _ops("sigmoid_focal_loss", reduction="sum"),
        lambda boxes: Inputs((torch.randn(boxes, _CLASSES), torch.randint(0, 2, (boxes, _CLASSES)).float())),
        _BOXES,
    ),
    "FrozenBatchNorm2d": (_ops("FrozenBatchNorm2d", num_features=_CHANNELS), _maps, _MAPS),
    "StochasticDepth": (_ops("StochasticDepth", p=0.5, mode="row"), _maps, _MAPS),
    "DropBlock2d": (_ops("DropBlock2d", p=0.5, block_size=3), _maps, _MAPS),
}
