"""Transformers: masks, caches and attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reported_models.report import Case, module, reported


class _Masked(nn.Module):
    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.mha1 = nn.MultiheadAttention(32, 4, batch_first=False)
        self.weights = weights

    def forward(self, x: Tensor, mask: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        if not self.weights:
            return self.mha1(x, x, x, attn_mask=mask, need_weights=False)[0]
        return self.mha1(x[:1], x, x, key_padding_mask=mask, average_attn_weights=False)


def _off_diagonal(n: int, batch: int = 1) -> tuple[Tensor, Tensor]:
    return torch.rand(n, batch, 32), torch.randint(0, 2, (n, n), dtype=torch.bool).fill_diagonal_(False)


@reported("pytorch/pytorch", 120075)
def attention_with_mask() -> Case:
    return Case(_Masked(False), _off_diagonal, (62,), [(5,), (80,)], ({0: "n"}, {0: "n", 1: "n"}))


@reported("pytorch/pytorch", 120075, "one query, padded keys, the weights of each head, dynamic batch")
def attention_with_padding() -> Case:
    def inputs(n: int, batch: int) -> tuple[Tensor, Tensor]:
        padding = torch.rand(batch, n) > 0.6
        padding[:, 0] = False
        return torch.rand(n, batch, 32), padding

    return Case(_Masked(True), inputs, (6, 2), [(1, 1), (9, 4)], ({0: "n", 1: "b"}, {0: "b", 1: "n"}))


class _Encoder(nn.Module):
    def __init__(self, nested: bool) -> None:
        super().__init__()
        self.emb = nn.Embedding(15, 24)
        layer = nn.TransformerEncoderLayer(24, nhead=4, dim_feedforward=24, dropout=0.2, batch_first=True)
        self.attn_layers = nn.TransformerEncoder(layer, num_layers=3, enable_nested_tensor=True)
        self.nested = nested

    def forward(self, x: Tensor) -> Tensor:
        if not self.nested:
            return self.attn_layers(self.emb(x))
        padding = x == 0
        out = self.attn_layers(self.emb(x), src_key_padding_mask=padding)
        out = out.masked_fill(padding[..., None], 0.0)
        return out.sum(1) / (~padding).sum(1, keepdim=True)


@reported("pytorch/pytorch", 110557)
def transformer_encoder() -> Case:
    return Case(
        _Encoder(False).eval(),
        lambda b, n: (torch.randint(0, 15, (b, n)),),
        (1, 3),
        [(1, 9), (3, 1)],
        ({0: "b", 1: "n"},),
    )


@reported("pytorch/pytorch", 110557, "padding found from the tokens, the mean over the rest")
def transformer_encoder_padded() -> Case:
    def tokens(b: int, n: int) -> tuple[Tensor]:
        x = torch.randint(1, 15, (b, n))
        x[1:, n // 2 + 1 :] = 0
        return (x,)

    return Case(_Encoder(True).eval(), tokens, (2, 6), [(1, 1), (3, 9)], ({0: "b", 1: "n"},))


def _causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return key <= query


def _vmapped(function, dimensions: list[tuple[int | None, ...]]):
    for each in dimensions:
        function = torch.vmap(function, in_dims=each, out_dims=0)
    return function


_INDEXES = [(None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)]


@reported("pytorch/pytorch", 172880)
def mask_by_nested_vmap() -> Case:
    def masked(scores: Tensor, padding: Tensor) -> Tensor:
        def allowed(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            result = query.new_ones((), dtype=torch.bool)
            for mask in (_causal, lambda b, h, q, k: padding[b, k]):
                result = result & mask(batch, head, query, key).to(result.device)
            return result

        b, _, q, k = scores.shape
        mask = _vmapped(allowed, _INDEXES)(torch.arange(b), torch.arange(1), torch.arange(q), torch.arange(k))
        return torch.softmax(scores.masked_fill(~mask, -1e4), -1)

    return Case(
        module(masked),
        lambda b, n: (torch.randn(b, 2, n, n), torch.rand(b, n) > 0.3),
        (2, 6),
        [(1, 3), (3, 11)],
        ({0: "b", 2: "n", 3: "n"}, {0: "b", 1: "n"}),
    )


@reported("pytorch/pytorch", 172880, "a sliding window or the same document, a cache before the queries")
def mask_of_window_and_documents() -> Case:
    def inputs(b: int, q: int, past: int) -> tuple[Tensor, Tensor]:
        n = q + past
        return torch.randn(b, 2, q, n), torch.randint(0, 3, (b, n)).sort(1).values

    def square(scores: Tensor, documents: Tensor) -> Tensor:
        b, _, q, k = scores.shape
        offset = k - q

        def allowed(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            query = query + offset
            window = (key <= query) & (key > query - 3)
            return window | (documents[batch, query] == documents[batch, key]) & (key <= query)

        mask = _vmapped(allowed, _INDEXES)(torch.arange(b), torch.arange(1), torch.arange(q), torch.arange(k))
        return torch.softmax(torch.where(mask, scores, torch.finfo(scores.dtype).min), -1)

    return Case(
        module(square), inputs, (2, 3, 4), [(1, 1, 6), (3, 5, 2)], ({0: "b", 2: "q", 3: "total"}, {0: "b", 1: "total"})
    )


@reported("pytorch/pytorch", 159973)
def attention_of_a_masked_row() -> Case:
    def inputs(b: int, n: int) -> tuple[Tensor, ...]:
        mask = torch.ones(b, 4, n, n).bool()
        mask[0, 0, 0, :] = False
        return torch.randn(b, 4, n, 16), torch.randn(b, 4, n, 16), torch.randn(b, 4, n, 16), mask

    sizes = {0: "b", 2: "n"}
    return Case(
        module(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m)),
        inputs,
        (2, 8),
        [(1, 3), (3, 11)],
        (sizes, sizes, sizes, {0: "b", 2: "n", 3: "n"}),
    )


@reported("pytorch/pytorch", 159973, "float16, causal beside the mask, every row of a batch masked, no queries")
def attention_of_masked_batches() -> Case:
    def attend(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
        causal = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=m[:, None, None] & causal, scale=0.3)

    def inputs(b: int, q: int, k: int) -> tuple[Tensor, ...]:
        mask = torch.rand(b, k) > 0.3
        mask[0] = False
        return torch.randn(b, 2, q, 8).half(), torch.randn(b, 2, k, 8).half(), torch.randn(b, 2, k, 8).half(), mask

    sizes = {0: "b", 2: "k"}
    return Case(
        module(attend),
        inputs,
        (2, 3, 5),
        [(1, 1, 4), (3, 6, 6), (2, 0, 3)],
        ({0: "b", 2: "q"}, sizes, sizes, {0: "b", 1: "k"}),
    )


@reported("pytorch/pytorch", 151762)
def grouped_queries() -> Case:
    sizes = {0: "b", 2: "n"}
    return Case(
        module(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)),
        lambda b, n: (torch.randn(b, 8, n, 16), torch.randn(b, 2, n, 16), torch.randn(b, 2, n, 16)),
        (2, 6),
        [(1, 1), (3, 12)],
        (sizes, sizes, sizes),
    )


@reported("pytorch/pytorch", 151762, "a cache of other length, a float mask, values of other width, opset 17")
def grouped_queries_cached() -> Case:
    def attend(q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, past_v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True), k, v

    def inputs(b: int, n: int, past: int) -> tuple[Tensor, ...]:
        return (
            torch.randn(b, 6, n, 16),
            torch.randn(b, 2, n, 16),
            torch.randn(b, 2, n, 8),
            torch.randn(b, 2, past, 16),
            torch.randn(b, 2, past, 8),
            torch.randn(b, 1, n, n + past),
        )

    new, old = {0: "b", 2: "n"}, {0: "b", 2: "past"}
    return Case(
        module(attend),
        inputs,
        (2, 3, 4),
        [(1, 1, 9), (3, 5, 0)],
        (new, new, new, old, old, {0: "b", 2: "n", 3: "total"}),
        opset=17,
    )


class _Cache(nn.Module):
    """Attention whose keys and values are kept in the module's own buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 16, 8))
        self.register_buffer("values", torch.zeros(1, 16, 8))
        self.project = nn.Linear(8, 24)

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        q, k, v = self.project(x).chunk(3, -1)
        first = start.item()
        torch._check_is_size(first)
        torch._check(first + x.shape[1] <= 16)
        self.keys[:, first : first + x.shape[1]] = k
        self.values[:, first : first + x.shape[1]] = v
        keys, values = self.keys[:, : first + x.shape[1]], self.values[:, : first + x.shape[1]]
        return torch.softmax(q @ keys.mT, -1) @ values


class _CacheGiven(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x: Tensor, positions: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.project(x).chunk(3, -1)
        keys = keys.index_copy(1, positions, k)
        values = values.clone()
        values[:, positions] = v
        mask = torch.arange(keys.shape[1])[None] <= positions[:, None]
        return torch.softmax((q @ keys.mT).masked_fill(~mask, -1e9), -1) @ values, keys, values


@reported("pytorch/pytorch", 135233)
def cache_in_buffers() -> Case:
    return Case(
        _Cache(),
        lambda n, start: (torch.randn(1, n, 8), torch.tensor(start)),
        (3, 2),
        [(1, 0), (5, 0)],
        ({1: "n"}, None),
    )


@reported("pytorch/pytorch", 135233, "the cache is given, index_copy and an index, dynamic batch and length")
def cache_given() -> Case:
    cache = {0: "b", 1: "length"}
    return Case(
        _CacheGiven(),
        lambda b, n, m: (torch.randn(b, n, 8), torch.arange(n) + 1, torch.randn(b, m, 8), torch.randn(b, m, 8)),
        (2, 3, 9),
        [(1, 1, 4), (3, 7, 8)],
        ({0: "b", 1: "n"}, {0: "n"}, cache, cache),
    )


class _TextAttention(nn.Module):
    """The attention of YOLO-World between an image and the embeddings of its classes."""

    def __init__(self, heads: int = 4, width: int = 32) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.guide = nn.Linear(16, width)
        self.register_buffer("text", torch.randn(1, 6, 16))
        self.bias = nn.Parameter(torch.zeros(heads))
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor, text: Tensor | None = None) -> Tensor:
        batch, _, height, width = x.shape
        guide = self.guide(self.text if text is None else text)
        guide = guide.view(guide.shape[0], -1, self.heads, self.width // self.heads).expand(batch, -1, -1, -1)
        embed = x.view(batch, self.heads, self.width // self.heads, height, width)
        scores = torch.einsum("bmchw,bnmc->bmhwn", embed, guide).max(dim=-1)[0]
        scores = (scores / (self.width // self.heads) ** 0.5 + self.bias[None, :, None, None]).sigmoid()
        out = self.conv(x).view(batch, self.heads, -1, height, width) * scores.unsqueeze(2)
        return out.view(batch, -1, height, width)


@reported("ultralytics/ultralytics", 13048)
def text_attention() -> Case:
    return Case(
        _TextAttention(),
        lambda b, h, w: (torch.randn(b, 32, h, w),),
        (1, 5, 6),
        [(3, 5, 6), (2, 9, 4)],
        ({0: "b", 2: "h", 3: "w"},),
    )


@reported("ultralytics/ultralytics", 13048, "the classes are an input, as many as the caller has, float16")
def text_attention_of_classes() -> Case:
    return Case(
        _TextAttention().half(),
        lambda b, n, h: (torch.randn(b, 32, h, h).half(), torch.randn(b, n, 16).half()),
        (2, 3, 5),
        [(1, 1, 4), (3, 8, 6)],
        ({0: "b", 2: "h", 3: "w"}, {0: "b", 1: "classes"}),
    )


@reported("roboflow/rf-detr", 949)
def proposals_of_levels() -> Case:
    def propose(memory: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        n, _, _ = memory.shape
        proposals, start = [], 0
        for level, (h, w) in enumerate(((6, 4), (3, 2))):
            mask = padding[:, start : start + h * w].view(n, h, w, 1)
            valid_h, valid_w = torch.sum(~mask[:, :, 0, 0], 1), torch.sum(~mask[:, 0, :, 0], 1)
            y, x = torch.meshgrid(torch.linspace(0, h - 1, h), torch.linspace(0, w - 1, w), indexing="ij")
            grid = torch.cat([x.unsqueeze(-1), y.unsqueeze(-1)], -1)
            scale = torch.cat([valid_w.unsqueeze(-1), valid_h.unsqueeze(-1)], 1).view(n, 1, 1, 2)
            grid = (grid.unsqueeze(0).expand(n, -1, -1, -1) + 0.5) / scale
            size = torch.ones_like(grid) * 0.05 * (2.0**level)
            proposals.append(torch.cat((grid, size), -1).view(n, -1, 4))
            start += h * w
        found = torch.cat(proposals, 1)
        valid = ((found > 0.01) & (found < 0.99)).all(-1, keepdim=True)
        found = torch.log(found / (1 - found))
        found = found.masked_fill(padding.unsqueeze(-1), float("inf")).masked_fill(~valid, float("inf"))
        return memory.masked_fill(padding.unsqueeze(-1), 0.0).masked_fill(~valid, 0.0), found

    def inputs(n: int) -> tuple[Tensor, Tensor]:
        padding = torch.zeros(n, 30, dtype=torch.bool)
        padding[:, 20:24] = padding[:, 28:30] = True
        return torch.randn(n, 30, 8), padding

    return Case(module(propose), inputs, (8,), [(1,), (3,)], ({0: "batch"}, {0: "batch"}))


@reported("roboflow/rf-detr", 949, "the sizes of the levels are an input, then the best proposals are gathered")
def proposals_of_given_levels() -> Case:
    def propose(memory: Tensor, shapes: Tensor) -> tuple[Tensor, Tensor]:
        n = memory.shape[0]
        proposals = []
        for level in range(2):
            h, w = shapes[level].tolist()
            y, x = torch.meshgrid(torch.linspace(0, h - 1, h), torch.linspace(0, w - 1, w), indexing="ij")
            grid = (torch.stack([x, y], -1) + 0.5) / torch.stack([shapes[level, 1], shapes[level, 0]])
            proposals.append(torch.cat([grid, torch.full_like(grid, 0.05 * 2.0**level)], -1).flatten(0, 1))
        found = torch.cat(proposals, 0).expand(n, -1, -1)
        best = memory.max(-1).values.topk(4, 1).indices
        return torch.gather(found, 1, best.unsqueeze(-1).repeat(1, 1, 4)), best

    def inputs(n: int, h: int, w: int) -> tuple[Tensor, Tensor]:
        shapes = torch.tensor([[2 * h, 2 * w], [h, w]])
        return torch.randn(n, 5 * h * w, 8), shapes

    return Case(module(propose), inputs, (2, 3, 2), [(1, 2, 2), (3, 4, 5)], ({0: "batch", 1: "queries"}, None))
