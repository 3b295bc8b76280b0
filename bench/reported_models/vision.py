"""Images: regions, grids, folds, detection and its post-processing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

from reported_models.report import Case, module, reported


def _boxes(*shape: int) -> Tensor:
    corner = torch.rand(*shape, 2) * 8
    return torch.cat([corner, corner + torch.rand(*shape, 2) * 8 + 1], -1)


@reported("pytorch/pytorch", 175732)
def roi_align() -> Case:
    def align(x: Tensor, rois: Tensor) -> Tensor:
        return torchvision.ops.roi_align(x, rois, (3, 3), spatial_scale=0.5, sampling_ratio=2, aligned=True)

    return Case(
        module(align),
        lambda b, n: (torch.randn(b, 4, 16, 16), torch.cat([torch.randint(0, b, (n, 1)).float(), _boxes(n)], 1)),
        (2, 5),
        [(1, 1), (3, 8)],
        ({0: "b"}, {0: "n"}),
    )


@reported(
    "pytorch/pytorch", 175732, "a list of boxes for each image, adaptive sampling, levels by area, none on one level"
)
def roi_align_levels() -> Case:
    def align(fine: Tensor, coarse: Tensor, boxes: Tensor) -> Tensor:
        area = torchvision.ops.box_area(boxes)
        level = (area > 30).long()
        out = fine.new_zeros(boxes.shape[0], 4, 2, 2)
        for index, feature in enumerate((fine, coarse)):
            chosen = torch.where(level == index)[0]
            out[chosen] = torchvision.ops.roi_align(feature, [boxes[chosen]], 2, 1.0 / (index + 1), -1)
        return out

    return Case(
        module(align),
        lambda n, h: (torch.randn(1, 4, 2 * h, 2 * h), torch.randn(1, 4, h, h), _boxes(n)),
        (6, 9),
        [(1, 9), (9, 9)],
        (None, None, {0: "n"}),
    )


def _selected(predictions: Tensor, limit: int) -> Tensor:
    boxes, scores = predictions[:, :4], predictions[:, 4]
    kept = scores > 0.3
    boxes, scores = boxes[kept], scores[kept]
    found = torchvision.ops.nms(boxes, scores, 0.5)
    if found.shape[0] < limit:
        chosen = torch.cat([boxes[found], scores[found, None]], 1)
        return F.pad(chosen, (0, 0, 0, limit - found.shape[0]))
    found = found[:limit]
    return torch.cat([boxes[found], scores[found, None]], 1)


@reported("open-edge-platform/geti", 5073)
def nms_stage() -> Case:
    return Case(
        module(lambda predictions: _selected(predictions, 200)),
        lambda n: (torch.cat([_boxes(n), torch.rand(n, 1)], 1),),
        (300,),
        [(20,), (900,)],
        ({0: "n"},),
    )


@reported("open-edge-platform/geti", 5073, "each image of a dynamic batch, by class, nothing found")
def nms_of_batch() -> Case:
    def select(boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        found, counts = [], []
        for each, score in zip(boxes, scores, strict=True):
            best, label = score.max(-1)
            kept = best > 0.6
            best, label, each = best[kept], label[kept], each[kept]
            order = torchvision.ops.batched_nms(each, best, label, 0.5)[:10]
            rows = torch.cat([each[order], best[order, None], label[order, None].float()], 1)
            counts.append(torch.tensor(rows.shape[0]))
            found.append(F.pad(rows, (0, 0, 0, 10 - rows.shape[0])))
        return torch.stack(found), torch.stack(counts)

    return Case(
        module(select),
        lambda b, n: (_boxes(b, n), torch.rand(b, n, 3) * 0.8),
        (2, 20),
        [(1, 3), (3, 50)],
        ({0: "b", 1: "n"}, {0: "b", 1: "n"}),
    )


class _Detector(nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        from torchvision.models.detection import FasterRCNN
        from torchvision.models.detection.rpn import AnchorGenerator

        backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 8, 1), nn.ReLU())
        backbone.out_channels = 8
        anchors = AnchorGenerator(((16, 32),), ((0.5, 1.0),))
        pool = torchvision.ops.MultiScaleRoIAlign(["0"], 3, 2)
        self.model = FasterRCNN(
            backbone,
            3,
            rpn_anchor_generator=anchors,
            box_roi_pool=pool,
            box_detections_per_img=20,
            rpn_post_nms_top_n_test=30,
            **options,
        )

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        found = self.model([image])[0]
        return found["boxes"], found["labels"], found["scores"]


@reported("pytorch/vision", 9462)
def faster_rcnn() -> Case:
    model = _Detector(min_size=64, max_size=96, box_score_thresh=0.3).eval()
    return Case(model, lambda h, w: (torch.rand(3, h, w),), (64, 80), [(64, 80)])


@reported("pytorch/vision", 9462, "dynamic height and width")
def faster_rcnn_dynamic() -> Case:
    model = _Detector(min_size=64, max_size=96, box_score_thresh=0.3).eval()
    return Case(model, lambda h, w: (torch.rand(3, h, w),), (64, 80), [(50, 90), (70, 60)], ({1: "h", 2: "w"},))


@reported("ChaoningZhang/MobileSAM", 176)
def mask_postprocessing() -> Case:
    def process(masks: Tensor, orig_im_size: Tensor) -> Tensor:
        masks = F.interpolate(masks, size=(64, 64), mode="bilinear", align_corners=False)
        size = orig_im_size.to(torch.float32)
        scale = 64 / torch.max(size)
        prepadded = torch.floor(scale * size + 0.5).to(torch.int64)
        masks = masks[..., : prepadded[0], : prepadded[1]]
        size = orig_im_size.to(torch.int64)
        h, w = size[0], size[1]
        return F.interpolate(masks, size=(h, w), mode="bilinear", align_corners=False)

    return Case(
        module(process),
        lambda n, h, w: (torch.randn(n, 1, 16, 16), torch.tensor([h, w], dtype=torch.float32)),
        (2, 30, 40),
        [(1, 50, 20), (3, 9, 90)],
        ({0: "n"}, None),
    )


@reported("ChaoningZhang/MobileSAM", 176, "sizes as Python numbers, boxes of the masks, int64 sizes")
def mask_boxes() -> Case:
    def process(masks: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        h, w = (int(each) for each in size)
        masks = F.interpolate(masks, size=(h, w), mode="bilinear", align_corners=True) > 0
        rows, columns = masks.any(-1), masks.any(-2)
        ys, xs = torch.arange(h), torch.arange(w)
        top = torch.where(rows, ys, h).amin(-1)
        bottom = torch.where(rows, ys, -1).amax(-1)
        left = torch.where(columns, xs, w).amin(-1)
        right = torch.where(columns, xs, -1).amax(-1)
        boxes = torch.stack([left, top, right, bottom], -1)
        return masks, boxes * (right >= left)[..., None]

    return Case(
        module(process),
        lambda n, h, w: (torch.randn(n, 1, 8, 8) - 0.5, torch.tensor([h, w])),
        (2, 30, 40),
        [(1, 50, 20), (3, 9, 90)],
        ({0: "n"}, None),
    )


@reported("pytorch/pytorch", 43795)
def aligned_boxes() -> Case:
    def align(boxes: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        zero = torch.as_tensor(0.0).float()
        w = (boxes[:, 2] * 1.2).ceil()
        h = (boxes[:, 3] * 1.2).ceil()
        x = (boxes[:, 0] - w / 2).floor()
        cond = x < 0
        index = torch.nonzero(cond).view(-1)
        w = torch.scatter(w, 0, index, w[index] + x[index])
        x = torch.where(cond, zero, x)
        over = x + w - size[1]
        w = torch.where(over > 0, w - over, w)
        scale = 32.0 / torch.min(torch.stack((w, h), 1), 1)[0].clamp(min=1)
        return torch.stack((x, w, h), 1), (scale * w).round().long().max()

    return Case(
        module(align),
        lambda n: (torch.rand(n, 4) * 30, torch.tensor([40, 50])),
        (4,),
        [(1,), (9,)],
        ({0: "n"}, None),
    )


@reported("pytorch/pytorch", 43795, "then each box is cut out of the image and resized")
def cropped_boxes() -> Case:
    def crop(image: Tensor, boxes: Tensor) -> Tensor:
        crops = []
        for box in boxes.long():
            x, y, w, h = box.tolist()
            crops.append(F.interpolate(image[None, :, y : y + h, x : x + w], size=(4, 4), mode="bilinear"))
        return torch.cat(crops)

    def inputs(n: int, size: int) -> tuple[Tensor, Tensor]:
        corner = torch.randint(0, size // 2, (n, 2))
        return torch.rand(3, size, size), torch.cat([corner, torch.randint(1, size // 2, (n, 2))], 1).float()

    return Case(module(crop), inputs, (3, 20), [(1, 16), (5, 33)], ({1: "h", 2: "w"}, {0: "n"}))


@reported("pytorch/pytorch", 105134)
def embedding_concat() -> Case:
    def concat(x: Tensor, y: Tensor) -> Tensor:
        b, c1, h1, w1 = x.size()
        _, c2, h2, w2 = y.size()
        s = int(h1 / h2)
        x = F.unfold(x, kernel_size=s, dilation=1, stride=s)
        x = x.view(b, c1, -1, h2, w2)
        z = torch.zeros(b, c1 + c2, x.size(2), h2, w2)
        for i in range(x.size(2)):
            z[:, :, i, :, :] = torch.cat((x[:, :, i, :, :], y), 1)
        z = z.view(b, -1, h2 * w2)
        return F.fold(z, kernel_size=s, output_size=(h1, w1), stride=s)

    return Case(
        module(concat),
        lambda b, h: (torch.randn(b, 4, 2 * h, 2 * h), torch.randn(b, 6, h, h)),
        (3, 4),
        [(1, 4), (5, 4)],
        ({0: "b"}, {0: "b"}),
    )


@reported("pytorch/pytorch", 105134, "dynamic height and width, overlapping patches, normalized by their count")
def overlapping_patches() -> Case:
    def blend(x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        patches = F.unfold(x, 4, stride=2, padding=1)
        patches = patches * torch.hann_window(4, periodic=False).outer(torch.ones(4)).flatten().repeat(3)[None, :, None]
        count = F.fold(torch.ones_like(patches), (h, w), 4, stride=2, padding=1)
        return F.fold(patches, (h, w), 4, stride=2, padding=1) / count

    return Case(
        module(blend),
        lambda b, h, w: (torch.randn(b, 3, h, w),),
        (2, 8, 6),
        [(1, 4, 4), (3, 6, 12)],
        ({0: "b", 2: "h", 3: "w"},),
    )


@reported("pytorch/pytorch", 41423)
def fold() -> Case:
    return Case(
        nn.Fold(output_size=(4, 5), kernel_size=(2, 2)),
        lambda b: (torch.randn(b, 3 * 2 * 2, 12),),
        (1,),
        [(4,)],
        ({0: "batch"},),
        opset=12,
    )


@reported("pytorch/pytorch", 41423, "the size is that of another input, dilation, float64")
def fold_to_size_of_other() -> Case:
    def folded(x: Tensor, like: Tensor) -> Tensor:
        return F.fold(x, like.shape[-2:], (2, 3), dilation=2, padding=1)

    return Case(
        module(folded),
        lambda b, h, w: (torch.randn(b, 12, h * (w - 2), dtype=torch.double), torch.randn(h, w)),
        (1, 5, 7),
        [(2, 4, 5), (3, 8, 6)],
        ({0: "b", 1: None, 2: "n"}, {0: "h", 1: "w"}),
    )


@reported("tiny-smart/dysample", 5)
def dynamic_upsampling() -> Case:
    class DySample(nn.Module):
        def __init__(self, scale: int = 2, groups: int = 2) -> None:
            super().__init__()
            self.scale, self.groups = scale, groups
            self.offset = nn.Conv2d(8, 2 * groups * scale**2, 1)
            h = torch.arange((-scale + 1) / 2, (scale - 1) / 2 + 1) / scale
            start = torch.stack(torch.meshgrid([h, h], indexing="ij")).transpose(1, 2)
            self.register_buffer("init_pos", start.repeat(1, groups, 1).reshape(1, -1, 1, 1))

        def forward(self, x: Tensor) -> Tensor:
            offset = self.offset(x) * 0.25 + self.init_pos
            b, _, h, w = offset.shape
            offset = offset.view(b, 2, -1, h, w)
            coords_h, coords_w = torch.arange(h) + 0.5, torch.arange(w) + 0.5
            coords = torch.stack(torch.meshgrid([coords_w, coords_h], indexing="ij")).transpose(1, 2)
            coords = coords.unsqueeze(1).unsqueeze(0).type(x.dtype)
            normalizer = torch.tensor([w, h], dtype=x.dtype).view(1, 2, 1, 1, 1)
            coords = 2 * (coords + offset) / normalizer - 1
            coords = F.pixel_shuffle(coords, self.scale).permute(0, 2, 3, 4, 1).contiguous().flatten(0, 1)
            x = x.reshape(b * self.groups, -1, h, w)
            out = F.grid_sample(x, coords, mode="bilinear", align_corners=False, padding_mode="border")
            return out.reshape(b, -1, self.scale * h, self.scale * w)

    return Case(
        DySample(),
        lambda b, h, w: (torch.randn(b, 8, h, w),),
        (1, 5, 6),
        [(2, 4, 3), (3, 8, 9)],
        ({0: "b", 2: "h", 3: "w"},),
    )


@reported("tiny-smart/dysample", 5, "the scale is an input")
def upsampling_by_input() -> Case:
    def upsample(x: Tensor, scale: Tensor) -> Tensor:
        b, _, h, w = x.shape
        s = int(scale)
        ys = (torch.arange(h * s) + 0.5) / (h * s) * 2 - 1
        xs = (torch.arange(w * s) + 0.5) / (w * s) * 2 - 1
        grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij")[::-1], -1)
        return F.grid_sample(
            x, grid.expand(b, -1, -1, -1), mode="bicubic", align_corners=False, padding_mode="reflection"
        )

    return Case(
        module(upsample),
        lambda b, h, s: (torch.randn(b, 2, h, h), torch.tensor(s)),
        (2, 4, 2),
        [(1, 3, 1), (3, 5, 4)],
        ({0: "b", 2: "h", 3: "w"}, None),
    )


@reported("pytorch/pytorch", 96449)
def spatial_transformer() -> Case:
    localize = nn.Linear(4, 6)

    def transform(x: Tensor) -> Tensor:
        theta = localize(x.mean((2, 3))).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)

    return Case(
        module(transform), lambda b, h: (torch.randn(b, 4, h, h),), (1, 6), [(2, 6), (3, 6)], ({0: "batch"},), opset=16
    )


@reported("pytorch/pytorch", 96449, "volumes of dynamic depth, nearest, float16")
def volume_transformer() -> Case:
    def transform(x: Tensor, theta: Tensor) -> Tensor:
        grid = F.affine_grid(theta, (x.shape[0], x.shape[1], x.shape[2] + 1, x.shape[3], 4), align_corners=True)
        return F.grid_sample(x, grid, mode="nearest", padding_mode="border", align_corners=True)

    return Case(
        module(transform),
        lambda b, d: (torch.randn(b, 2, d, 3, 4), torch.randn(b, 3, 4)),
        (1, 5),
        [(2, 2), (3, 7)],
        ({0: "b", 2: "depth"}, {0: "b"}),
    )


@reported("ultralytics/ultralytics", 16391)
def pooling_by_size() -> Case:
    def pool(x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        stride = (h // 4, w // 4)
        kernel = (h - 3 * stride[0], w - 3 * stride[1])
        return F.avg_pool2d(x, kernel, stride)

    return Case(
        module(pool),
        lambda b, h, w: (torch.randn(b, 3, h, w),),
        (1, 16, 16),
        [(2, 9, 21), (1, 4, 7)],
        ({0: "b", 2: "h", 3: "w"},),
    )


@reported("ultralytics/ultralytics", 16391, "adaptive pooling to a pyramid, whose largest level follows the size")
def pyramid_by_size() -> Case:
    def pyramid(x: Tensor) -> Tensor:
        levels = [F.adaptive_avg_pool2d(x, each).flatten(2) for each in (1, 3, (x.shape[2] // 2, x.shape[3] // 2))]
        levels.append(F.adaptive_max_pool2d(x, (2, 3)).flatten(2))
        return torch.cat(levels, 2)

    return Case(
        module(pyramid),
        lambda b, h, w: (torch.randn(b, 3, h, w),),
        (1, 12, 12),
        [(2, 9, 7), (1, 3, 14)],
        ({0: "b", 2: "h", 3: "w"},),
    )


@reported("pytorch/vision", 7541)
def circular_convnext() -> Case:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 4, 4, padding_mode="circular"),
        nn.Conv2d(8, 8, 7, padding=3, groups=8, padding_mode="circular"),
        nn.GELU(),
        nn.Conv2d(8, 4, 1, padding_mode="circular"),
    )
    return Case(
        model,
        lambda b, h, w: (torch.randn(b, 3, h, w),),
        (1, 32, 32),
        [(2, 16, 24), (3, 44, 12)],
        ({0: "b", 2: "h", 3: "w"},),
    )


@reported("pytorch/vision", 7541, "transposed and 3D, reflect and replicate beside circular, opset 17")
def padded_volumes() -> Case:
    model = nn.Sequential(
        nn.Conv3d(2, 4, 3, padding=(1, 2, 0), padding_mode="circular"),
        nn.Conv3d(4, 4, 3, padding=1, padding_mode="reflect"),
        nn.ReplicationPad3d((1, 0, 2, 1, 0, 3)),
        nn.ConvTranspose3d(4, 2, 3, stride=2, output_padding=1),
    )
    return Case(
        model,
        lambda b, d, h: (torch.randn(b, 2, d, h, 5),),
        (1, 4, 6),
        [(2, 3, 4), (1, 7, 5)],
        ({0: "b", 2: "d", 3: "h"},),
        opset=17,
    )


@reported("microsoft/onnxscript", 2539)
def dynamic_padding() -> Case:
    conv = nn.Conv2d(3, 4, 3, padding=1)

    def padded(x: Tensor) -> Tensor:
        _, _, h, w = x.shape
        bottom, right = (-h) % 8, (-w) % 8
        x = F.pad(x, (0, right, 0, bottom), mode="replicate")
        x = F.interpolate(F.max_pool2d(conv(x), 4), scale_factor=4, mode="nearest")
        return x[:, :, :h, :w]

    return Case(
        module(padded), lambda h, w: (torch.randn(1, 3, h, w),), (13, 20), [(8, 16), (21, 9)], ({2: "h", 3: "w"},)
    )


@reported("microsoft/onnxscript", 2539, "amounts from the data, reflect where there is room and zeros where not")
def padding_by_data() -> Case:
    def padded(x: Tensor, margin: Tensor) -> Tensor:
        amount = int(margin.max())
        if amount < x.shape[-1]:
            return F.pad(x, (amount, amount), mode="reflect")
        return F.pad(x, (amount, amount))

    return Case(
        module(padded),
        lambda n, m: (torch.randn(2, n), torch.tensor([0, m])),
        (7, 3),
        [(4, 0), (3, 9), (12, 2)],
        ({1: "n"}, None),
    )


@reported("pytorch/pytorch", 144860)
def channel_group_view() -> Case:
    def group(x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        x = x.view(b, c, h * w).transpose(1, 2)
        return torch.softmax(x @ x.transpose(1, 2), -1) @ x

    return Case(
        module(group),
        lambda b, h, w: (torch.randn(b, 8, h, w),),
        (1, 4, 5),
        [(2, 1, 3), (3, 6, 2)],
        ({0: "b", 2: "h", 3: "w"},),
    )


@reported("pytorch/pytorch", 144860, "windows of a dynamic image, shifted, padded to whole windows")
def shifted_windows() -> Case:
    def windows(x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        x = F.pad(x, (0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4)).roll((-2, -2), (2, 3))
        hp, wp = x.shape[2:]
        x = x.view(b, c, hp // 4, 4, wp // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, c)
        x = torch.softmax(x @ x.mT, -1) @ x
        x = x.view(b, hp // 4, wp // 4, 4, 4, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, hp, wp)
        return x.roll((2, 2), (2, 3))[:, :, :h, :w]

    return Case(
        module(windows),
        lambda b, h, w: (torch.randn(b, 8, h, w),),
        (1, 8, 10),
        [(2, 3, 4), (3, 9, 13)],
        ({0: "b", 2: "h", 3: "w"},),
    )
