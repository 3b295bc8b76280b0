"""More sizes that models calculate with: signals, windows, pyramids, pairs and paddings of other kinds."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reported_models.report import Case, form
from reported_models.sizes import of_images, of_rows


@form("more sizes", "relative positions from the middle of a table")
def middle_of_table() -> Case:
    class Relative(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(1, 79, 4))

        def forward(self, x: Tensor) -> Tensor:
            n, middle = x.shape[1], self.table.shape[1] // 2
            near = self.table[:, middle - n + 1 : middle + n]
            scores = torch.einsum("bnd,cmd->bnm", x, near)
            return scores[:, :, n - 1 :].softmax(-1) @ x

    return of_rows(Relative())


@form("more sizes", "T5's relative buckets")
def relative_buckets() -> Case:
    class Buckets(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Embedding(16, 2)

        def forward(self, x: Tensor) -> Tensor:
            n = x.shape[1]
            relative = torch.arange(n)[None, :] - torch.arange(n)[:, None]
            buckets = (relative > 0).long() * 8
            distance = relative.abs()
            large = 4 + (torch.log(distance.float() / 4) / math.log(32 / 4) * 4).long()
            large = torch.min(large, torch.full_like(large, 7))
            buckets = buckets + torch.where(distance < 4, distance, large)
            bias = self.bias(buckets).permute(2, 0, 1)
            return ((x @ x.mT)[:, None] + bias).softmax(-1) @ x[:, None]

    return of_rows(Buckets())


@form("more sizes", "a long convolution by FFT of twice the length")
def long_convolution() -> Case:
    class Convolution(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.filter = nn.Parameter(torch.randn(4, 40))

        def forward(self, x: Tensor) -> Tensor:
            n = x.shape[1]
            signal = torch.fft.rfft(x.mT, n=2 * n)
            kernel = torch.fft.rfft(self.filter[:, :n], n=2 * n)
            return torch.fft.irfft(signal * kernel, n=2 * n)[..., :n].mT

    return of_rows(Convolution())


@form("more sizes", "padded to the next power of two")
def power_of_two() -> Case:
    def forward(x: Tensor) -> Tensor:
        n = x.shape[1]
        target = 2 ** math.ceil(math.log2(n))
        return F.pad(x, (0, 0, 0, target - n)).cumsum(1)

    return of_rows(forward)


@form("more sizes", "frequencies of the length's spectrum")
def frequencies() -> Case:
    def forward(x: Tensor) -> Tensor:
        spectrum = torch.fft.fft(x, dim=1)
        return torch.fft.ifft(spectrum * torch.fft.fftfreq(x.shape[1])[None, :, None].abs(), dim=1).real

    return of_rows(forward)


@form("more sizes", "a causal convolution with dilations, chomped")
def chomped() -> Case:
    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=2 * d, dilation=d) for d in (1, 2, 4))

        def forward(self, x: Tensor) -> Tensor:
            x = x.mT
            for layer in self.layers:
                x = torch.relu(layer(x)[..., : -layer.padding[0]]) + x
            return x.mT

    return of_rows(Causal())


@form("more sizes", "three chunks of a dynamic length")
def three_chunks() -> Case:
    return of_rows(lambda x: torch.stack([each.sum(1) for each in torch.tensor_split(x, 3, dim=1)], 1))


@form("more sizes", "chunks of a dynamic length, of which there may be fewer")
def some_chunks() -> Case:
    return of_rows(lambda x: torch.cat([each.mean(1, keepdim=True) for each in x.chunk(4, dim=1)], 1))


@form("more sizes", "attention to neighbours, by unfold of a padded sequence")
def local_attention() -> Case:
    def forward(x: Tensor) -> Tensor:
        keys = F.pad(x, (0, 0, 2, 2)).unfold(1, 5, 1)
        valid = F.pad(torch.ones(x.shape[1]), (2, 2)).unfold(0, 5, 1) > 0
        scores = torch.einsum("bnd,bndk->bnk", x, keys).masked_fill(~valid, float("-inf"))
        return torch.einsum("bnk,bndk->bnd", scores.softmax(-1), keys)

    return of_rows(forward)


@form("more sizes", "a pyramid by halves, and back to the size")
def pyramid() -> Case:
    def forward(x: Tensor) -> Tensor:
        levels = [x]
        for _ in range(2):
            levels.append(F.interpolate(levels[-1], scale_factor=0.5, mode="bilinear", align_corners=False))
        return sum(F.interpolate(each, size=x.shape[-2:], mode="nearest") for each in levels)

    return of_images(forward)


@form("more sizes", "spatial pyramid pooling, with windows by ceil and floor")
def spatial_pyramid() -> Case:
    def forward(x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        found = []
        for bins in (1, 2, 4):
            window = (math.ceil(h / bins), math.ceil(w / bins))
            stride = (math.floor(h / bins), math.floor(w / bins))
            found.append(F.max_pool2d(x, window, stride).amax((2, 3)))
        return torch.cat(found, 1)

    return of_images(forward)


@form("more sizes", "anchors of a feature map's cells")
def anchors() -> Case:
    def forward(image: Tensor) -> Tensor:
        features = F.max_pool2d(image, 4, ceil_mode=True)
        h, w = features.shape[-2:]
        y, x = torch.meshgrid(torch.arange(h) * 4 + 2, torch.arange(w) * 4 + 2, indexing="ij")
        centres = torch.stack([x, y, x, y], -1).reshape(-1, 1, 4)
        sizes = torch.tensor([[-2, -2, 2, 2], [-4, -2, 4, 2]])
        boxes = (centres + sizes).reshape(-1, 4)
        limits = torch.tensor([image.shape[3], image.shape[2]] * 2)
        return torch.minimum(boxes.clamp(min=0), limits)

    return of_images(forward)


@form("more sizes", "a warp by a flow, in pixels")
def warp() -> Case:
    def forward(x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        y, z = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        places = torch.stack([z, y]).float()[None] + x[:, :2]
        scale = torch.tensor([max(w - 1, 1), max(h - 1, 1)]).view(1, 2, 1, 1)
        return F.grid_sample(x, (places * 2 / scale - 1).permute(0, 2, 3, 1), align_corners=True)

    return of_images(forward)


@form("more sizes", "all pairs of pixels, pooled")
def all_pairs() -> Case:
    def forward(x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        flat = x.flatten(2)
        volume = (flat.mT @ flat / math.sqrt(c)).reshape(b * h * w, 1, h, w)
        return F.avg_pool2d(volume, 2, stride=2).view(b, h, w, h // 2, w // 2)

    return of_images(forward)


@form("more sizes", "a cost volume of shifted images")
def cost_volume() -> Case:
    def forward(x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1)
        volume = x.new_zeros(x.shape[0], 4, x.shape[2], x.shape[3])
        for shift in range(4):
            if shift > 0:
                volume[:, shift, :, shift:] = (left[..., shift:] * right[..., :-shift]).mean(1)
            else:
                volume[:, shift] = (left * right).mean(1)
        return volume

    return of_images(forward)


@form("more sizes", "attention along one axis after the other")
def axial_attention() -> Case:
    class Axial(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.MultiheadAttention(4, 2, batch_first=True)
            self.columns = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            b, c, h, w = x.shape
            y = x.permute(0, 2, 3, 1).reshape(b * h, w, c)
            y = self.rows(y, y, y, need_weights=False)[0].view(b, h, w, c)
            y = y.permute(0, 2, 1, 3).reshape(b * w, h, c)
            y = self.columns(y, y, y, need_weights=False)[0].view(b, w, h, c)
            return y.permute(0, 3, 2, 1)

    return of_images(Axial())


@form("more sizes", "pairs of fields, above the diagonal")
def pairs() -> Case:
    def forward(x: Tensor) -> Tensor:
        i, j = torch.triu_indices(x.shape[1], x.shape[1], offset=1)
        return (x[:, i] * x[:, j]).sum(-1)

    return of_rows(forward, others=[(1, 5), (3, 12), (1, 8), (2, 2)])


@form("more sizes", "the nearest points, at most eight")
def nearest() -> Case:
    def forward(x: Tensor) -> Tensor:
        k = min(8, x.shape[1])
        index = torch.cdist(x, x).topk(k, largest=False).indices
        near = x.gather(1, index.flatten(1)[..., None].expand(-1, -1, x.shape[2]))
        return near.view(x.shape[0], x.shape[1], k, x.shape[2]).amax(2)

    return of_rows(forward)


@form("more sizes", "a graph's edges to the nearest points")
def edge_convolution() -> Case:
    def forward(x: Tensor) -> Tensor:
        b, n, c = x.shape
        index = (-torch.cdist(x, x)).topk(3, dim=-1)[1]
        index = (index + torch.arange(b).view(-1, 1, 1) * n).view(-1)
        near = x.reshape(b * n, -1)[index].view(b, n, 3, c)
        middle = x.view(b, n, 1, c).expand(-1, -1, 3, -1)
        return torch.cat([near - middle, middle], 3).amax(2)

    return of_rows(forward, others=[(1, 5), (3, 12), (1, 8), (2, 31)])


@form("more sizes", "a checkerboard")
def checkerboard() -> Case:
    def forward(x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        even = (torch.arange(h)[:, None] + torch.arange(w)) % 2 == 0
        return torch.where(even, x, -x)

    return of_images(forward)


@form("more sizes", "another branch for large images, by their area")
def by_area() -> Case:
    def forward(x: Tensor) -> Tensor:
        if x.shape[2] * x.shape[3] > 100:
            x = F.avg_pool2d(x, 2)
        return x.mean((2, 3))

    return of_images(forward)


@form("more sizes", "the longer side decides the padding to a square")
def squared() -> Case:
    def forward(x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        side = max(h, w)
        top, left = (side - h) // 2, (side - w) // 2
        x = F.pad(x, (left, side - w - left, top, side - h - top))
        return F.adaptive_avg_pool2d(x, 4)

    return of_images(forward)


@form("more sizes", "eyes, diagonals and triangles of the length")
def diagonals() -> Case:
    def forward(x: Tensor) -> Tensor:
        n = x.shape[1]
        scores = x @ x.mT - torch.eye(n) + torch.diag_embed(x[..., 0])
        scores = scores + torch.zeros(n, n).fill_diagonal_(2.0) + torch.tril(torch.ones(n, n), -1)
        return scores.triu(-1)

    return of_rows(forward)


@form("more sizes", "means over all that came before")
def running_means() -> Case:
    return of_rows(lambda x: x.cumsum(1) / torch.arange(1, x.shape[1] + 1).view(1, -1, 1))


@form("more sizes", "learnt queries for each of a batch")
def latents() -> Case:
    class Perceiver(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.latents = nn.Parameter(torch.randn(3, 4))
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            latents = self.latents.unsqueeze(0).repeat(x.shape[0], 1, 1)
            both = torch.cat([x, latents], 1)
            return self.attention(latents, both, both)[0]

    return of_rows(Perceiver())


@form("more sizes", "positions interpolated to the length")
def interpolated_positions() -> Case:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(1, 4, 10))

        def forward(self, x: Tensor) -> Tensor:
            table = self.table
            if table.shape[-1] != x.shape[1]:
                table = F.interpolate(table, size=x.shape[1], mode="linear", align_corners=True)
            return x + table.mT

    return of_rows(Positions())


@form("more sizes", "blocks of a padded sequence with the ones beside them")
def blocks_and_neighbours() -> Case:
    def forward(x: Tensor) -> Tensor:
        b, n, c = x.shape
        size = 4
        padded = F.pad(x, (0, 0, 0, -n % size))
        blocks = padded.reshape(b, -1, size, c)
        around = F.pad(blocks, (0, 0, 0, 0, 1, 1))
        keys = torch.cat([around[:, :-2], around[:, 1:-1], around[:, 2:]], 2)
        scores = torch.einsum("bkqc,bkvc->bkqv", blocks, keys)
        return torch.einsum("bkqv,bkvc->bkqc", scores.softmax(-1), keys).reshape(b, -1, c)[:, :n]

    return of_rows(forward)


@form("more sizes", "tokens merged by a third, the rest kept")
def merged_tokens() -> Case:
    def forward(x: Tensor) -> Tensor:
        n = x.shape[1]
        r = min(n // 3, (n - 1) // 2)
        if r <= 0:
            return x
        even, odd = x[:, ::2], x[:, 1::2]
        best, place = (even @ odd.mT).max(-1)
        order = best.argsort(dim=-1, descending=True)
        kept, merged = order[:, r:], order[:, :r]
        source = even.gather(1, merged[..., None].expand(-1, -1, x.shape[2]))
        into = place.gather(1, merged)[..., None].expand(-1, -1, x.shape[2])
        odd = odd.scatter_reduce(1, into, source, reduce="mean")
        return torch.cat([even.gather(1, kept[..., None].expand(-1, -1, x.shape[2])), odd], 1)

    return of_rows(forward)


@form("more sizes", "total variation of neighbouring pixels")
def total_variation() -> Case:
    def forward(x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        rows = (x[..., 1:, :] - x[..., :-1, :]).abs().sum((1, 2, 3)) / ((h - 1) * w)
        columns = (x[..., 1:] - x[..., :-1]).abs().sum((1, 2, 3)) / (h * (w - 1))
        return rows + columns

    return of_images(forward)


@form("more sizes", "a recurrence over pairs of steps")
def recurrence_of_pairs() -> Case:
    def forward(x: Tensor) -> Tensor:
        state, found = x[:, 0], []
        for i in range(x.shape[1] - 1):
            state = torch.tanh(state + x[:, i + 1] - x[:, i])
            found.append(state)
        return torch.stack(found, 1) if found else x[:, :0]

    return of_rows(forward)


@form("more sizes", "tiles of an image, each through a layer, put together")
def tiles() -> Case:
    class Tiles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            rows = []
            for top in range(0, x.shape[2], 4):
                row = [self.layer(x[:, :, top : top + 4, left : left + 4]) for left in range(0, x.shape[3], 4)]
                rows.append(torch.cat(row, 3))
            return torch.cat(rows, 2)

    return of_images(Tiles())
