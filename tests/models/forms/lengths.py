"""Sizes as Python's numbers: lengths, ranges, tables that are kept on a module, numbers of elements."""

from __future__ import annotations

import functools
import math

import numpy
import torch
from models.forms.form import floats, form, integers
from torch import nn
from torch.nn import functional

__all__: list[str] = []

_X = floats("batch", 4)
_SEQUENCE = floats("batch", "length", 4)
_IMAGE = floats("batch", 2, "length", 6)


@form(_SEQUENCE)
def length_of_tensor(x):
    return x.new_zeros(len(x), 2), x / len(x[0])


@form(_SEQUENCE)
def table_of_range(x):
    """Positions as a list of Python's numbers, of which there are as many as the example is long."""
    positions = torch.tensor(list(range(x.shape[1])), dtype=torch.float32)
    return x * positions[:, None]


@form(_SEQUENCE)
def table_of_relative_positions(x):
    length = x.shape[1]
    at = torch.arange(length, 0, -1.0) if length else torch.zeros(0)
    ranges = [at[i] for i in range(1)]
    relative = torch.arange(-length + 1, length)
    return functional.embedding(relative + length - 1, torch.arange(60.0).view(30, 2)), ranges[0] + x


@form(_IMAGE)
class CachedAnchors(nn.Module):
    """ultralytics' head: anchors are made again where the shape of the input is another one."""

    def __init__(self) -> None:
        super().__init__()
        self.shape = None
        self.anchors = torch.empty(0)

    def forward(self, x):
        shape = x.shape
        if self.shape != shape:
            height, width = x.shape[-2:]
            sy, sx = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
            self.anchors = torch.stack((sx, sy), -1).view(-1, 2).transpose(0, 1)
            self.shape = shape
        return x.flatten(2) + self.anchors


@form(_IMAGE)
class CachedAnchorsOfEarlierRun(CachedAnchors):
    """The shape that is kept is that of the example."""

    def __init__(self) -> None:
        super().__init__()
        self(torch.zeros(3, 2, 5, 6))


@form(_IMAGE)
class CachedGrids(nn.Module):
    """YOLOv5's head: a list of grids by level."""

    def __init__(self) -> None:
        super().__init__()
        self.grids = [torch.empty(0)] * 2

    def forward(self, x):
        levels = [x, x[..., ::2]]
        for i, level in enumerate(levels):
            if self.grids[i].shape[0:2] != level.shape[2:4]:
                ys, xs = torch.arange(level.shape[2]), torch.arange(level.shape[3])
                self.grids[i] = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), -1).float()
            levels[i] = level + self.grids[i].sum(-1)
        return levels


@form(_SEQUENCE)
class CachedRotaryTable(nn.Module):
    """A table that grows with the longest sequence so far."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        self.register_buffer("table", torch.empty(0), persistent=False)

    def forward(self, x):
        if x.shape[1] > self.longest:
            self.longest = x.shape[1]
            self.table = torch.outer(torch.arange(self.longest).float(), torch.ones(4)).cos()
        return x * self.table[: x.shape[1]]


@form(_SEQUENCE)
class LongEnoughTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(16, 4))

    def forward(self, x):
        if x.shape[1] > self.table.shape[0]:
            raise ValueError("The sequence is too long.")
        return x + self.table[: x.size(1)].unsqueeze(0)


@form(_SEQUENCE)
class CachedMask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None or self.mask.size(0) != x.size(1):
            self.mask = torch.full((x.size(1), x.size(1)), -math.inf).triu(1)
        return (x @ x.transpose(1, 2) + self.mask).softmax(-1)


@form(_SEQUENCE)
def numbers_of_elements(x):
    return x / x.numel(), x.new_ones(x.numel()), x[0].nelement() * x.sum(), math.prod(x.shape[1:]) + x


@form(_SEQUENCE)
def sizes_by_name(x):
    batch, *rest = x.shape
    length, width = rest
    return (
        x.view(batch * length, width).view(batch, -1),
        x.reshape(*x.shape[:-1], 2, -1),
        x.view(torch.Size([batch, length * width])),
    )


@form(_SEQUENCE)
def sizes_of_tensors(x):
    size = torch.tensor(x.shape[1], dtype=torch.float32)
    return x / size.sqrt(), x * torch.tensor(x.shape).prod(), torch.as_tensor([x.shape[0], 2])


@form(_SEQUENCE)
def arithmetic_of_lengths(x):
    length = x.shape[1]
    half, rest = divmod(length, 2)
    return (
        x[:, :half],
        x[:, -half:] if rest >= 0 else x,
        x * math.sqrt(length),
        x.new_zeros(math.ceil(length / 2), math.floor(length * 1.5), length // 3 + 1),
        x.new_zeros(max(length - 3, 1), min(length, 2), abs(-length)),
    )


@form(_SEQUENCE)
def scale_of_length(x):
    return x * x.shape[1] ** -0.5 + math.log(x.shape[1] + 1) + math.log(x.shape[1], 10) + math.floor(x.shape[1] / 2)


@form(_SEQUENCE)
def padded_to_multiple(x):
    size = x.shape[1]
    pad = math.ceil(size / 4) * 4 - size
    return functional.pad(x, (0, 0, 0, pad)).view(x.shape[0], -1, 4, 4).mean(2)


@form(_SEQUENCE)
def split_by_sizes(x):
    first, second = x.split([2, x.shape[1] - 2], dim=1)
    left, right = torch.split(x, [1, 3], dim=-1)
    return first, second, left + right[..., :1], torch.tensor_split(x, (1, 3), dim=2)[1], x.narrow(1, 1, x.shape[1] - 1)


@form(
    floats("batch", 2, "length", "length"),
    others=({"batch": 1, "length": 4}, {"batch": 2, "length": 8}, {"batch": 4, "length": 7}),
)
def resized_to_another(x):
    y = functional.avg_pool2d(x, 2, ceil_mode=True)
    return functional.interpolate(y, size=x.shape[-2:], mode="bilinear"), functional.adaptive_avg_pool2d(x, 2)


@form(
    floats("batch", 2, "length", "length"),
    others=({"batch": 1, "length": 4}, {"batch": 2, "length": 8}, {"batch": 4, "length": 7}),
)
def padded_to_same(x):
    """TensorFlow's "same": the padding follows from the size."""
    pads = [max((math.ceil(size / 2) - 1) * 2 + 3 - size, 0) for size in x.shape[-2:]]
    x = functional.pad(x, (pads[1] // 2, pads[1] - pads[1] // 2, pads[0] // 2, pads[0] - pads[0] // 2))
    return functional.max_pool2d(x, 3, 2)


@form(
    floats("batch", 2, "length", "length"),
    others=({"batch": 1, "length": 4}, {"batch": 2, "length": 8}, {"batch": 4, "length": 7}),
)
def windows(x):
    """Swin: windows of a padded image, shifted."""
    size = 3
    height, width = x.shape[2:]
    x = functional.pad(x, (0, -width % size, 0, -height % size)).permute(0, 2, 3, 1).roll((-1, -1), (1, 2))
    batch, padded_height, padded_width, channels = x.shape
    parts = x.view(batch, padded_height // size, size, padded_width // size, size, channels)
    parts = parts.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, channels)
    back = (parts * 2).view(batch, padded_height // size, padded_width // size, size, size, channels)
    back = back.permute(0, 1, 3, 2, 4, 5).reshape(batch, padded_height, padded_width, channels)
    return back.roll((1, 1), (1, 2))[:, :height, :width]


@form(_SEQUENCE, _SEQUENCE)
def compared_shapes(x, y):
    if x.shape != y.shape or x.ndim != 3 or x.shape[-1] % 2:
        raise ValueError(f"{x.shape} and {y.shape}")
    return x + y if x.size() == y.size() else x


@form(_SEQUENCE)
def broadcast_shapes(x):
    shape = torch.broadcast_shapes(x.shape, (1, 4))
    return (
        torch.ones(shape) + torch.broadcast_to(x[:, :1], shape),
        x.expand(2, *x.shape),
        x[:, :1].expand(-1, x.shape[1], -1),
    )


@form(_X)
def rows_by_comprehension(x):
    return torch.stack([x[:, i] * i for i in range(x.shape[-1])], dim=1), [each.sum() for each in x.split(2, dim=1)]


@form(_SEQUENCE, integers(3, "batch"))
def ids_beside_sizes(x, ids):
    flat = x.flatten(0, 1)
    at = ids.clamp(max=x.shape[1] - 1) + torch.arange(x.shape[0]) * x.shape[1]
    return flat.index_select(0, at), flat[at]


@form(floats("batch", 4), example={"batch": 3}, others=({"batch": 1}, {"batch": 2}, {"batch": 8}))
def flags_of_size(x):
    is_single = x.shape[0] == 1
    return x * 2 if not is_single else x + x


@form(floats("batch", 1, 4))
def squeezed_by_default(x):
    return x.squeeze(1), x.squeeze(dim=(1,)), x.mean(1).unsqueeze(-1)


@form(floats("batch", 2, 6, 6))
class AnchorsOfLevels(nn.Module):
    """A detector's head: levels of several strides, flattened and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList([nn.Conv2d(2, 6, 3, stride, 1) for stride in (1, 2)])

    def forward(self, x):
        boxes = []
        for stride, layer in zip((1, 2), self.levels, strict=True):
            found = layer(x)
            batch, channels, height, width = found.shape
            at = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy"), -1).view(-1, 2)
            found = found.view(batch, channels, -1).permute(0, 2, 1)
            boxes.append(torch.cat([(found[..., :2] + at) * stride, found[..., 2:].sigmoid()], dim=-1))
        return torch.cat(boxes, dim=1)


@form(_SEQUENCE)
def numbers_of_sizes(x):
    """Sizes through Python's own types."""
    batch, length = int(x.shape[0]), int(x.shape[1] * 0.5)
    scale = float(x.shape[1]) * (2 if isinstance(batch, int) and type(length) is int else 3)
    return (
        x[:, :length] * scale,
        x.new_zeros([int(size) * 2 for size in x.shape[:2]]),
        x.new_ones(list(map(int, x.shape))),
    )


@form(_SEQUENCE)
def roots_of_sizes(x):
    length = x.shape[1]
    return (
        x.new_zeros(int(math.sqrt(length)), int(length**0.5)),
        x * math.log2(length) * math.exp(-length),
        x.new_zeros(int(math.log2(length + 1))),
        x.new_zeros(int(numpy.ceil(length / 2)), int(numpy.floor(numpy.sqrt(length)))),
    )


@form(_SEQUENCE)
def lists_of_sizes(x):
    """Lists that are as long as the sequence."""
    every, ones_before = list(range(x.shape[1])), [-1]
    second = list(range(0, x.shape[1], 2))
    ones = torch.tensor([1.0] * x.shape[1])
    lengths = torch.tensor([x.shape[1]] * x.shape[0])
    joined = ones_before + every[1:][::2]
    later = torch.tensor(joined[1:]) + joined[0]
    return x[:, second], x * ones[:, None] * lengths[:, None, None], later, torch.tensor(range(len(every), 0, -1))


@form(_SEQUENCE)
def products_of_sizes(x):
    return (
        x.view(x.shape.numel()),
        x.reshape(x.shape[:2].numel(), -1) / x.size().numel(),
        x.reshape(int(numpy.prod(x.shape[:2])), -1),
    )


@form(_SEQUENCE)
def evenly_spaced(x):
    """`linspace`, whose operator takes a plain number of steps."""
    length = x.shape[1]
    return x + torch.linspace(-1, 1, length)[:, None], torch.linspace(
        0.5, length - 0.5, steps=length, dtype=torch.float64
    )


@form(_IMAGE)
def affine_grid_of_sizes(x):
    theta = torch.tensor([[[1.0, 0.2, 0.1], [0.0, 0.9, 0.0]]]).expand(x.shape[0], -1, -1)
    return functional.grid_sample(x, functional.affine_grid(theta, x.shape, align_corners=False), align_corners=False)


_TABLES: dict = {}


@form(_SEQUENCE)
def table_of_module(x):
    """A table for each size, in a dict of the Python module."""
    key = (x.shape[1], x.dtype)
    if key not in _TABLES:
        _TABLES[key] = torch.arange(x.shape[1], dtype=x.dtype)
    return x * _TABLES[key][:, None]


@functools.lru_cache
def _positions(length):
    return torch.arange(length).float()


@form(_SEQUENCE)
def table_of_function(x):
    return x * _positions(x.shape[1])[:, None]


class KeptTable(nn.Module):
    """A table, and what it is for, which is that of an earlier run on the example's sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.key = None
        self.tables: dict = {}
        self.table = torch.empty(0)
        self(torch.zeros(3, 5, 4))


@form(_SEQUENCE)
class KeptForLength(KeptTable):
    def forward(self, x):
        if self.key != x.shape[1]:
            self.key, self.table = x.shape[1], torch.arange(x.shape[1]).float()
        return x * self.table[:, None]


@form(_SEQUENCE)
class KeptForSizes(KeptTable):
    def forward(self, x):
        if self.key != (x.shape[0], x.shape[1]):
            self.key, self.table = (x.shape[0], x.shape[1]), torch.arange(x.shape[1]).float()
        return x * self.table[:, None]


@form(_SEQUENCE)
class KeptInDict(KeptTable):
    def forward(self, x):
        if x.shape not in self.tables:
            self.tables[x.shape] = torch.arange(x.shape[1]).float()
        return x * self.tables[x.shape][:, None]


@form(_SEQUENCE)
class KeptByText(KeptTable):
    def forward(self, x):
        key = f"{x.shape[1]:d} of {x.shape[2]}"
        if key not in self.tables:
            self.tables[key] = torch.arange(x.shape[1]).float()
        return x * self.tables[key][:, None]


@form(_SEQUENCE)
class KeptForLongest(KeptTable):
    def forward(self, x):
        if self.key is None or x.shape[1] > self.key:
            self.key, self.table = x.shape[1], torch.arange(x.shape[1]).float()
        return x * self.table[: x.shape[1], None]


@form(_SEQUENCE)
def loop_over_length(x):
    """A loop that each pass depends on."""
    state = torch.zeros_like(x[:, 0])
    for position in range(x.shape[1]):
        state = torch.tanh(state + x[:, position])
    return state


@form(_SEQUENCE)
def loop_over_batch(x):
    return torch.stack([row.softmax(-1) for row in x])


@form(_SEQUENCE)
def as_many_turns_as_half_the_length(x):
    found = torch.zeros_like(x)
    for i in range(x.shape[1] // 2):
        x = x * 0.5
        found = found + x * i
    return found


@form(_IMAGE)
def as_many_turns_as_the_larger_size(image):
    """kornia's distance transform: what is reached grows until the far end of the image is."""
    reached, found = image.clamp(0, 1), torch.zeros_like(image)
    for i in range(math.ceil(max(image.shape[2], image.shape[3]) / 2)):
        padded = functional.pad(reached, (1, 1, 1, 1), mode="replicate")
        near = functional.conv2d(padded.reshape(-1, 1, *padded.shape[2:]), torch.full((1, 1, 3, 3), 0.1)).view_as(image)
        is_near = near > 0.3
        found = found + (i * 2 + near) * is_near.to(image.dtype)
        reached = torch.where(is_near, torch.ones_like(reached), reached)
    return found


@form(_SEQUENCE)
class BlocksOfWhichTheLastMayBeShorter(nn.Module):
    """transformers' MiniMax: each block of a sequence is weighted within it, and the blocks before it are a state."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Buffer(torch.rand(2, 2))

    def forward(self, x):
        state, found = x.new_zeros(x.shape[0], x.shape[2]), []
        for i in range((x.shape[1] + 1) // 2):
            start = i * 2
            end = min(start + 2, x.shape[1])
            block = x[:, start:end]
            found.append(self.weights[: end - start, : end - start] @ block + state[:, None])
            state = state * 0.5 + block.sum(1)
        return torch.cat(found, 1)


@form(_SEQUENCE)
def a_range_of_one_step(x):
    """transformers' Encodec without chunks: the chunk is as long as the sound."""
    length = x.shape[1]
    found = [x[:, begin : begin + length].cumsum(1) for begin in range(0, length, length)]
    for begin in range(length, length * 3, length):
        found.append(x * begin)
    if found[0].shape[1] - found[-1].shape[1] > 0:
        found[-1] = functional.pad(found[-1], (0, 0, 0, 1))
    return torch.stack(found)
