"""Whole models in float16 and in bfloat16, for which ONNX Runtime has kernels of few operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from models.forms.form import Input, floats, form, integers
from torch import nn
from torch.nn import functional

__all__: list[str] = []

_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_TOLERANCES = {"float16": {"rtol": 1e-2, "atol": 1e-2}, "bfloat16": {"rtol": 6e-2, "atol": 6e-2}}
# One rounding step at the magnitude that the values have.
_FLOATS: dict[str, tuple[int | str, ...]] = {
    "sequence": ("batch", "length", 4),
    "rows": ("batch", 4),
    "image": ("batch", 2, 8, 8),
    "signal": ("batch", 2, "length"),
    "volume": ("batch", 2, 4, 4, 4),
}


class _Of(nn.Module):
    """A function as a module, with the layers that it uses."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleDict(layers)

    def forward(self, *given):
        return self.function(*self.layers.values(), *given)


def _net(name: str, given: tuple[Any, ...], make: Callable[[], nn.Module], **settings: Any) -> None:
    """Adds a net in both dtypes."""
    for dtype, kind in _DTYPES.items():
        inputs = [each if isinstance(each, Input) else floats(*_FLOATS[each], dtype=kind) for each in given]

        def build(kind: torch.dtype = kind) -> nn.Module:
            return make().to(kind).eval()

        build.__name__ = f"{name}_in_{dtype}"
        form(*inputs, builds=True, **_TOLERANCES[dtype], **settings)(build)


def _function(name: str, given: tuple[Any, ...], function: Callable[..., Any], **settings: Any) -> None:
    _net(name, given, lambda: _Of(function), **settings)


def _convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(4, 4, 2, stride=2),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )


_net("convolutions", ("image",), _convolutions)
_net("convolution1d", ("signal",), lambda: nn.Conv1d(2, 3, 3, padding=1))
_net("convolution3d", ("volume",), lambda: nn.Conv3d(2, 3, 3, padding=1))
_net("convolution_in_groups", ("image",), lambda: nn.Conv2d(2, 4, 3, groups=2, dilation=2))
_net("transformer", ("sequence",), lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, activation="gelu"))
_net(
    "decoder",
    ("sequence", "sequence"),
    lambda: nn.TransformerDecoderLayer(4, 2, 8, batch_first=True, norm_first=True),
)
_net("attention", ("sequence",), lambda: _Of(lambda layer, x: layer(x, x, x), layer=nn.MultiheadAttention(4, 2)))
_net("lstm", ("sequence",), lambda: nn.LSTM(4, 3, batch_first=True, num_layers=2))
_net("gru", ("sequence",), lambda: nn.GRU(4, 3, bidirectional=True))
_net("rnn", ("sequence",), lambda: nn.RNN(4, 3))
_net("lstm_cell", ("rows",), lambda: nn.LSTMCell(4, 3))
_net("layer_norm", ("sequence",), lambda: nn.LayerNorm(4))
_net("rms_norm", ("sequence",), lambda: nn.RMSNorm(4))
_net("group_norm", ("image",), lambda: nn.GroupNorm(2, 2))
_net("instance_norm", ("image",), lambda: nn.InstanceNorm2d(2, affine=True))
_net("batch_norm1d", ("rows",), lambda: nn.BatchNorm1d(4))
_net("embedding", (integers(9, "batch", "length"),), lambda: nn.Embedding(9, 4))
_net("bilinear", ("rows", "rows"), lambda: nn.Bilinear(4, 4, 3))
_net("prelu", ("image",), lambda: nn.PReLU(2))
_function("softmax", ("sequence",), lambda x: (x.softmax(-1), x.log_softmax(1), x.logsumexp(-1)))
_function(
    "max_pools",
    ("image",),
    lambda x: (
        functional.max_pool2d(x, 3, 2, 1),
        functional.adaptive_max_pool2d(x, 4),
        functional.lp_pool2d(x.abs(), 2, 2),
    ),
)
_function("max_pool_with_indices", ("image",), lambda x: functional.max_pool2d(x, 2, return_indices=True)[0])
_function(
    "average_pools", ("image",), lambda x: (functional.avg_pool2d(x, 3, 1, 1), functional.adaptive_avg_pool2d(x, 3))
)
_function("nearest", ("image",), lambda x: functional.interpolate(x, scale_factor=2))
_function("bilinear_resize", ("image",), lambda x: functional.interpolate(x, size=(5, 11), mode="bilinear"))
_function(
    "aligned_resize", ("image",), lambda x: functional.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True)
)
_function("bicubic_resize", ("image",), lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"))
_function("linear_resize", ("signal",), lambda x: functional.interpolate(x, scale_factor=2, mode="linear"))
_function("einsum", ("sequence", "sequence"), lambda x, y: torch.einsum("bik,bjk->bij", x, y))
_function("cumulative", ("sequence",), lambda x: (x.cumsum(1), x.cumprod(-1), x.cummax(1).values, x.logcumsumexp(1)))
_function("topk", ("sequence",), lambda x: x.topk(2, -1).values)
_function(
    "sorted_values",
    ("sequence",),
    lambda x: (x.sort(-1).values, x.sort(1, descending=True).values, x.median(-1).values),
)
_function("gathered", ("sequence",), lambda x: x.gather(-1, torch.zeros(x.shape, dtype=torch.int64)))
_function(
    "scattered",
    ("sequence",),
    lambda x: (
        torch.zeros_like(x).scatter(-1, torch.zeros(x.shape, dtype=torch.int64)[..., :1], x),
        torch.zeros_like(x).scatter_add(-1, torch.zeros(x.shape, dtype=torch.int64), x),
        torch.zeros_like(x).scatter_reduce(-1, torch.zeros(x.shape, dtype=torch.int64), x, "amax"),
    ),
)
_function(
    "indexed",
    ("sequence",),
    lambda x: (x[:, [0, -1]], x[..., torch.tensor([1, 3])], x.index_select(-1, torch.tensor([2]))),
)
_function("index_added", ("rows",), lambda x: x.index_add(1, torch.tensor([0, 0]), x[:, :2]))
_function(
    "masked", ("sequence",), lambda x: (x.masked_fill(x > 0, -1.0), torch.where(x > 0, x, x.exp()), x[x > 0].sum())
)
_function(
    "grid_sampled",
    ("image",),
    lambda x: functional.grid_sample(x, torch.zeros(x.shape[0], 3, 3, 2, dtype=x.dtype) + 0.3),
)
_function("affine_grid", ("image",), lambda x: functional.affine_grid(x[:, 0, :2, :3], (x.shape[0], 2, 3, 3)))
_function("trigonometric", ("rows",), lambda x: (x.sin(), x.cos(), x.tanh(), x.atan(), x.sinh(), torch.atan2(x, x + 3)))
_function(
    "exponential",
    ("rows",),
    lambda x: (x.exp(), x.expm1(), (x.abs() + 1).log(), x.abs().log1p(), x.exp2(), x.abs().sqrt()),
)
_function(
    "activations",
    ("rows",),
    lambda x: (
        functional.gelu(x),
        functional.gelu(x, approximate="tanh"),
        functional.silu(x),
        functional.mish(x),
        functional.hardswish(x),
        functional.selu(x),
        functional.celu(x),
        functional.softplus(x),
        functional.leaky_relu(x),
        functional.elu(x),
        functional.hardsigmoid(x),
        functional.softsign(x),
        functional.glu(x),
        functional.relu6(x),
        functional.logsigmoid(x),
    ),
)
_function(
    "special",
    ("rows",),
    lambda x: (torch.erf(x), torch.special.expit(x), torch.lgamma(x.abs() + 1), torch.special.i0(x)),
)
_function(
    "reductions",
    ("sequence",),
    lambda x: (
        x.sum(1),
        x.mean(-1),
        x.amax(1),
        x.amin(-1),
        x.prod(-1),
        x.var(-1),
        x.std(1),
        x.norm(dim=-1),
        x.argmax(-1),
        x.any(1),
        x.all(),
    ),
)
_function(
    "arithmetic",
    ("rows",),
    lambda x: (
        x / 3,
        x // 2,
        x % 2,
        x.pow(2),
        x.abs().pow(0.5),
        x.remainder(1.5),
        x.fmod(1.5),
        -x,
        x.round(),
        x.floor(),
        x.trunc(),
        x.sign(),
        x.reciprocal(),
    ),
)
_function(
    "compared",
    ("rows",),
    lambda x: (x > 0, x == x.round(), torch.maximum(x, -x), x.clamp(-0.5, 0.5), x.isnan(), torch.isclose(x, x)),
)
_function(
    "joined",
    ("sequence",),
    lambda x: (
        torch.cat([x, x * 2], 1),
        torch.stack([x, -x]),
        x.repeat(1, 2, 1),
        x.flip(1),
        x.roll(1, -1),
        x.split(2, -1),
        functional.pad(x, (1, 1), value=2.0),
        x.tril(),
    ),
)
_function(
    "padded",
    ("image",),
    lambda x: (
        functional.pad(x, (1, 2, 1, 2), mode="reflect"),
        functional.pad(x, (1, 2, 1, 2), mode="replicate"),
        functional.pad(x, (1, 2, 1, 2), mode="circular"),
    ),
)
_function(
    "unfolded",
    ("image",),
    lambda x: (
        functional.unfold(x, 2),
        x.unfold(2, 3, 2),
        functional.pixel_shuffle(x.repeat(1, 2, 1, 1), 2),
        functional.fold(functional.unfold(x, 2, stride=2), (8, 8), 2, stride=2),
    ),
)
_function(
    "distances",
    ("sequence", "sequence"),
    lambda x, y: (
        functional.cosine_similarity(x, x.flip(0), -1),
        functional.normalize(x, dim=-1),
        functional.pairwise_distance(x, x + 1),
    ),
)
_function(
    "products",
    ("sequence", "sequence"),
    lambda x, y: (
        x @ y.transpose(1, 2),
        torch.bmm(x, y.transpose(1, 2)),
        torch.baddbmm(torch.ones(1, 1, 1, dtype=x.dtype), x, y.transpose(1, 2)),
        x.addcmul(x, x),
        torch.outer(x[0, 0], x[0, 0]),
        torch.lerp(x, x * 2, 0.5),
    ),
)
_function(
    "losses",
    ("rows",),
    lambda x: (
        functional.mse_loss(x, x * 0),
        functional.l1_loss(x, x * 0),
        functional.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype)),
        functional.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.int64)),
    ),
)
_function(
    "causal_attention",
    ("sequence",),
    lambda x: functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], is_causal=True),
)
_function(
    "masked_attention",
    ("sequence",),
    lambda x: functional.scaled_dot_product_attention(
        x[:, None], x[:, None], x[:, None], attn_mask=torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    ),
)
_function(
    "made_numbers",
    ("rows",),
    lambda x: (
        x + torch.arange(4, dtype=x.dtype),
        torch.full_like(x, 0.1),
        x.new_zeros(2),
        torch.linspace(0, 1, 4).to(x),
        functional.one_hot(x.argmax(-1), 4).to(x),
    ),
)
_function(
    "converted",
    ("rows",),
    lambda x: (
        x.float().double().to(x.dtype),
        x.to(torch.int64),
        x.bool(),
        x.type(torch.float32) * 2,
        x.to(torch.float16) + x.to(torch.bfloat16),
    ),
)
