"""Sizes that a model calculates with: multiples, quotients, padding, windows, tables that grow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reported_models.report import Case, form, module


def of_rows(
    function: Callable[[Tensor], Any] | nn.Module, width: int = 4, others: Sequence[Sequence[int]] = ()
) -> Case:
    """A model of [batch, length, width]: the batch and the length are dynamic."""
    model = function if isinstance(function, nn.Module) else module(function)
    others = others or [(1, 5), (3, 12), (2, 1), (1, 8), (2, 31)]
    return Case(model, lambda b, n: (torch.randn(b, n, width),), (2, 7), others, ({0: "batch", 1: "length"},))


def of_images(
    function: Callable[[Tensor], Any] | nn.Module,
    channels: int = 4,
    others: Sequence[Sequence[int]] = ((1, 8, 8), (3, 11, 6), (1, 5, 16), (2, 24, 17)),
) -> Case:
    """A model of images: the batch, the height and the width are dynamic."""
    model = function if isinstance(function, nn.Module) else module(function)
    dynamic = ({0: "batch", 2: "h", 3: "w"},)
    return Case(model, lambda b, h, w: (torch.randn(b, channels, h, w),), (2, 9, 12), others, dynamic)


@form("sizes", "relative positions shifted by a padded view")
def relative_shift() -> Case:
    def forward(x: Tensor) -> Tensor:
        scores = x @ x.transpose(1, 2)
        batch, length, others = scores.shape
        padded = torch.cat([scores.new_zeros(batch, length, 1), scores], 2)
        return padded.view(batch, others + 1, length)[:, 1:].view_as(scores)

    return of_rows(forward)


@form("sizes", "windows of a padded image, and back to its size")
def windows() -> Case:
    def forward(image: Tensor) -> Tensor:
        x, size = image.permute(0, 2, 3, 1), 4
        b, h, w, c = x.shape
        below, right = (size - h % size) % size, (size - w % size) % size
        if below > 0 or right > 0:
            x = F.pad(x, (0, 0, 0, right, 0, below))
        rows, columns = h + below, w + right
        x = x.view(b, rows // size, size, columns // size, size, c).permute(0, 1, 3, 2, 4, 5)
        x = x.contiguous().view(-1, size * size, c)
        x = torch.softmax(x @ x.transpose(1, 2), -1) @ x
        b = x.shape[0] // (rows * columns // size // size)
        x = x.view(b, rows // size, columns // size, size, size, -1).permute(0, 1, 3, 2, 4, 5)
        x = x.contiguous().view(b, rows, columns, -1)
        if rows > h or columns > w:
            x = x[:, :h, :w, :].contiguous()
        return x

    return of_images(forward)


@form("sizes", "space to depth of an image that is cropped to even sizes")
def cropped_to_even() -> Case:
    def forward(x: Tensor) -> Tensor:
        h, w = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
        return F.pixel_unshuffle(x[..., :h, :w], 2)

    return of_images(forward)


@form("sizes", "attention in chunks of a padded sequence")
def chunks_of_padded() -> Case:
    def forward(x: Tensor) -> Tensor:
        length, size = x.shape[1], 4
        extra = -length % size
        x = F.pad(x, (0, 0, 0, extra))
        chunks = x.reshape(x.shape[0], x.shape[1] // size, size, x.shape[2])
        chunks = torch.softmax(chunks @ chunks.mT, -1) @ chunks
        return chunks.reshape(x.shape)[:, :length]

    return of_rows(forward)


@form("sizes", "a mask of the lengths after two convolutions, by their formula")
def lengths_after_convolutions() -> Case:
    class Extractor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Conv1d(4, 4, 3, 2), nn.Conv1d(4, 4, 2, 2)])

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
                lengths = torch.div(lengths - layer.kernel_size[0], layer.stride[0], rounding_mode="floor") + 1
            mask = torch.zeros(x.shape[0], x.shape[2], dtype=torch.long)
            mask[(torch.arange(x.shape[0]), lengths - 1)] = 1
            kept = mask.flip([-1]).cumsum(-1).flip([-1]).bool()
            x = x.transpose(1, 2)
            x[~kept] = 0
            return x

    def inputs(batch: int, length: int) -> tuple[Tensor, Tensor]:
        return torch.randn(batch, 4, length), torch.randint(7, length + 1, (batch,))

    dynamic = ({0: "batch", 2: "length"}, {0: "batch"})
    return Case(Extractor(), inputs, (2, 20), [(1, 7), (3, 33), (4, 64)], dynamic)


@form("sizes", "a U-Net whose skips are padded by half of the difference")
def padded_skips() -> Case:
    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
            self.up, self.last = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(8, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            skip = self.first(x)
            x = self.up(self.second(F.max_pool2d(skip, 2)))
            rows, columns = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            return self.last(torch.cat([skip, x], dim=1))

    return of_images(UNet())


@form("sizes", "scaled to the size of a skip, over three levels")
def scaled_to_skips() -> Case:
    class Pyramid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList(nn.Conv2d(4, 4, 3, stride=2, padding=1) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            levels = [x]
            for layer in self.down:
                levels.append(torch.relu(layer(levels[-1])))
            x = levels.pop()
            while levels:
                skip = levels.pop()
                x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=True) + skip
            return x

    return of_images(Pyramid())


@form("sizes", "ALiBi's distances")
def alibi() -> Case:
    def forward(x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[1], device=x.device)
        distances = (positions[None, :] - positions[:, None]).abs().neg()
        slopes = torch.tensor([2.0**-i for i in range(1, 3)])
        scores = (x @ x.mT)[:, None] + slopes[:, None, None] * distances
        return torch.softmax(scores, -1) @ x[:, None]

    return of_rows(forward)


@form("sizes", "a table of positions that grows when a sequence is longer")
def growing_table() -> Case:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.grow(10)

        def grow(self, length: int) -> None:
            angles = torch.arange(length)[:, None] / 100.0 ** torch.arange(0, 1, 0.5)
            self.table = torch.cat([angles.sin(), angles.cos()], 1)

        def forward(self, x: Tensor) -> Tensor:
            if x.size(1) > self.table.size(0):
                self.grow(x.size(1))
            return x + self.table[: x.size(1)]

    return of_rows(Positions())


@form("sizes", "frames that overlap, and their sum by fold")
def overlapping_frames() -> Case:
    def forward(x: Tensor) -> Tensor:
        signal = x[..., 0]
        frames = signal.unfold(1, 4, 2) * torch.hann_window(4)
        length = (frames.shape[1] - 1) * 2 + 4
        return F.fold(frames.transpose(1, 2), (1, length), (1, 4), stride=(1, 2))[:, 0, 0]

    return of_rows(forward, others=[(1, 4), (3, 12), (2, 5), (2, 31)])


@form("sizes", "pooled to half of the height and a third of the width")
def pooled_to_quotients() -> Case:
    return of_images(lambda x: F.adaptive_avg_pool2d(x, (x.shape[-2] // 2, x.shape[-1] // 3)))


@form("sizes", "even and odd steps, merged by the parity of the length")
def even_and_odd() -> Case:
    def forward(x: Tensor) -> Tensor:
        length = x.shape[1]
        if length % 2 == 1:
            x = torch.cat([x, x[:, -1:]], 1)
        even, odd = x[:, 0::2], x[:, 1::2]
        return torch.stack([even + odd, even - odd], 2).flatten(1, 2)[:, :length]

    return of_rows(forward)


@form("sizes", "pairs of tokens merged, the last one padded where it is single")
def merged_pairs() -> Case:
    class Merging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.reduce = nn.LayerNorm(8), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            b, n, c = x.shape
            if n % 2:
                x = F.pad(x, (0, 0, 0, 1))
            return self.reduce(self.norm(x.view(b, -1, 2 * c)))

    return of_rows(Merging())


@form("sizes", "pooled by 2 until one step is left")
def pooled_to_one() -> Case:
    def forward(x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        while x.shape[-1] > 1:
            x = F.avg_pool1d(x, 2, ceil_mode=True)
        return x[..., 0]

    return of_rows(forward)


@form("sizes", "layer_norm over all but the batch")
def norm_over_sizes() -> Case:
    return of_rows(lambda x: F.layer_norm(x, x.shape[1:]))


@form("sizes", "landmarks of a sequence that is padded to a multiple of their number")
def landmarks() -> Case:
    def forward(x: Tensor) -> Tensor:
        b, n, c = x.shape
        x = F.pad(x, (0, 0, (3 - n % 3) % 3, 0))
        means = x.reshape(b, 3, x.shape[1] // 3, c).mean(2)
        attended = torch.softmax(x @ means.mT, -1) @ means
        return attended[:, -n:]

    return of_rows(forward)


@form("sizes", "a projection of the length by a part of a table")
def low_rank() -> Case:
    class Linformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(40, 3))

        def forward(self, x: Tensor) -> Tensor:
            keys = torch.einsum("bnd,nk->bkd", x, self.table[: x.shape[1]])
            return torch.softmax(x @ keys.mT, -1) @ keys

    return of_rows(Linformer())


@form("sizes", "rolled by half of the length")
def rolled() -> Case:
    return of_rows(lambda x: torch.roll(x, x.shape[1] // 2, 1) + torch.roll(x, -(x.shape[1] // 3), dims=1))


@form("sizes", "a causal mask between two lengths")
def causal_between() -> Case:
    def forward(x: Tensor, memory: Tensor) -> Tensor:
        n, m = x.shape[1], memory.shape[1]
        mask = torch.ones(n, m, dtype=torch.bool).tril(diagonal=m - n)
        scores = (x @ memory.mT).masked_fill(~mask, -1e4)
        return torch.softmax(scores, -1) @ memory

    def inputs(batch: int, n: int, m: int) -> tuple[Tensor, Tensor]:
        return torch.randn(batch, n, 4), torch.randn(batch, m, 4)

    dynamic = ({0: "batch", 1: "n"}, {0: "batch", 1: "m"})
    return Case(module(forward), inputs, (2, 3, 7), [(1, 5, 5), (3, 1, 9), (2, 4, 2)], dynamic)


@form("sizes", "coordinates between -1 and 1, beside the channels")
def coordinates() -> Case:
    def forward(x: Tensor) -> Tensor:
        b, _, h, w = x.shape
        rows = torch.arange(h, dtype=x.dtype) / max(h - 1, 1) * 2 - 1
        columns = torch.linspace(-1, 1, w)
        grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij")).expand(b, -1, -1, -1)
        return torch.cat([x, grid], 1)

    return of_images(forward)


@form("sizes", "an affine grid of the image's size")
def affine() -> Case:
    def forward(x: Tensor) -> Tensor:
        theta = torch.tensor([[0.9, 0.1, 0.0], [-0.1, 0.8, 0.2]]).expand(x.shape[0], -1, -1)
        return F.grid_sample(x, F.affine_grid(theta, list(x.size()), align_corners=False), align_corners=False)

    return of_images(forward)


@form("sizes", "the centre of a skip, cropped to the size of another image")
def centre_crop() -> Case:
    class Crop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(4, 4, 3)

        def forward(self, x: Tensor) -> Tensor:
            y = self.convolution(F.max_pool2d(x, 2))
            top, left = (x.shape[2] - y.shape[2]) // 2, (x.shape[3] - y.shape[3]) // 2
            return torch.cat([x[:, :, top : top + y.shape[2], left : left + y.shape[3]], y], 1)

    return of_images(Crop(), others=((1, 8, 8), (3, 11, 6), (1, 6, 16), (2, 24, 17)))


@form("sizes", "a Haar wavelet, reflected at odd sizes, and back")
def wavelet() -> Case:
    def forward(x: Tensor) -> Tensor:
        b, n, c = x.shape
        x = F.pad(x.transpose(1, 2), (0, n % 2), mode="replicate")
        low, high = (x[..., ::2] + x[..., 1::2]) / 2, (x[..., ::2] - x[..., 1::2]) / 2
        high = torch.where(high.abs() > 0.2, high, torch.zeros_like(high))
        both = torch.empty(b, c, x.shape[-1])
        both[..., ::2], both[..., 1::2] = low + high, low - high
        return both[..., :n].transpose(1, 2)

    return of_rows(forward)


@form("sizes", "a transposed convolution with the size of its input asked for")
def asked_output_size() -> Case:
    class Sampled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Conv1d(4, 4, 3, stride=2, padding=1)
            self.up = nn.ConvTranspose1d(4, 4, 3, stride=2, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            x = x.transpose(1, 2)
            return self.up(self.down(x), output_size=x.size())

    return of_rows(Sampled(), others=[(1, 5), (3, 12), (1, 8), (2, 31)])


@form("sizes", "a spectrogram and its inverse of the same length")
def spectrogram() -> Case:
    def forward(x: Tensor) -> Tensor:
        window = torch.hann_window(8)
        spectrum = torch.stft(x[..., 0], 8, 2, window=window, return_complex=True)
        louder = torch.view_as_complex(torch.view_as_real(spectrum) * 2)
        return torch.istft(louder, 8, 2, window=window, length=x.shape[1])

    return of_rows(forward, others=[(1, 9), (3, 12), (2, 31)])


@form("sizes", "a multiple of 8 as height, patches of 4 and a table of positions that is scaled")
def scaled_positions() -> Case:
    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(4, 6, 4, stride=4)
            self.positions = nn.Parameter(torch.randn(1, 1 + 9, 6))
            self.token = nn.Parameter(torch.randn(1, 1, 6))

        def forward(self, x: Tensor) -> Tensor:
            b, _, h, w = x.shape
            x = torch.cat([self.token.expand(b, -1, -1), self.patches(x).flatten(2).mT], 1)
            side = int(math.sqrt(self.positions.shape[1] - 1))
            if (h // 4, w // 4) == (side, side):
                return x + self.positions
            table = self.positions[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
            table = F.interpolate(table, size=(h // 4, w // 4), mode="bicubic", align_corners=False)
            return x + torch.cat([self.positions[:, :1], table.permute(0, 2, 3, 1).flatten(1, 2)], 1)

    eighth = torch.export.Dim("eighth", max=64)
    dynamic = ({0: "batch", 2: 8 * eighth, 3: "w"},)
    others = ((1, 8, 8), (3, 32, 17), (1, 24, 12), (2, 40, 13))
    return Case(Patches(), lambda b, h, w: (torch.randn(b, 4, h, w),), (2, 16, 20), others, dynamic)


@form("sizes", "every second of the heads' tokens, by einops-like views")
def heads_of_grids() -> Case:
    def forward(x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        tokens = x.view(b, 2, c // 2, h * w).transpose(2, 3)
        scores = torch.softmax(tokens @ tokens.mT / math.sqrt(c // 2), -1)
        mixed = (scores @ tokens).transpose(2, 3).reshape(b, c, h, w)
        return mixed[..., ::2, :].repeat_interleave(2, 2)[..., :h, :]

    return of_images(forward)


@form("sizes", "a loop over the rows of a batch")
def rows_of_batch() -> Case:
    def forward(x: Tensor) -> Tensor:
        return torch.stack([x[i] / x[i].abs().amax().clamp(min=1e-3) for i in range(x.shape[0])])

    return of_rows(forward)


@form("sizes", "in steps of a third of the length")
def stepped() -> Case:
    def forward(x: Tensor) -> Tensor:
        step = max(x.shape[1] // 3, 1)
        return torch.cat([each.mean(1, keepdim=True) for each in x.split(step, 1)], 1)

    return of_rows(forward)


@form("sizes", "the median of the neighbours, by unfold of a reflected image")
def neighbours() -> Case:
    def forward(x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        patches = F.unfold(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3).view(b, c, 9, h, w)
        return patches.median(2).values

    return of_images(forward)


@form("sizes", "squeeze and excitation with the size in the scale")
def mean_by_size() -> Case:
    def forward(x: Tensor) -> Tensor:
        scale = 1.0 / (x.shape[2] * x.shape[3]) ** 0.5
        return x * torch.sigmoid(x.sum((2, 3), keepdim=True) * scale)

    return of_images(forward)


@form("sizes", "the shorter side decides how an image is scaled")
def shorter_side() -> Case:
    def forward(x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        if h < w:  # noqa: SIM108 - the form is an if statement on sizes
            size = (8, int(8 * w / h))
        else:
            size = (int(8 * h / w), 8)
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)

    return of_images(forward)
