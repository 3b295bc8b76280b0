"""The gradients of common layers, with respect to their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from models.forms.form import Input, floats, form, integers
from torch import nn
from torch.autograd import grad
from torch.nn import functional

__all__: list[str] = []

_SEQUENCE = floats("batch", "length", 4)
_IMAGE = floats("batch", 2, 8, 8)


class _Gradient(nn.Module):
    """The value of a layer, and the gradient of a loss that no normalisation makes constant."""

    def __init__(self, layer: Callable[..., Any]) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x):
        x = x.detach().requires_grad_()
        value = self.layer(x)
        return value, grad(value.sin().sum(), x)[0]


def _layer(name: str, given: Input, make: Callable[[], Callable[..., Any]], **settings: Any) -> None:
    def build() -> nn.Module:
        return _Gradient(make()).eval()

    build.__name__ = f"gradient_of_{name}"
    form(given, builds=True, **settings)(build)


def _function(name: str, given: Input, function: Callable[..., Any], **settings: Any) -> None:
    _layer(name, given, lambda: function, **settings)


_layer("linear", _SEQUENCE, lambda: nn.Linear(4, 3))
_layer("bilinear", _SEQUENCE, lambda: _Pair(nn.Bilinear(4, 4, 3)))
_layer("conv1d", floats("batch", 3, 9), lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1))
_layer("conv1d_of_any_length", floats("batch", 2, "length"), lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1))
_layer("conv2d_in_groups", _IMAGE, lambda: nn.Conv2d(2, 4, 3, groups=2, dilation=2, bias=False))
_layer("conv3d", floats("batch", 1, 4, 5, 6), lambda: nn.Conv3d(1, 2, 2, stride=(1, 2, 3)))
_layer("transposed_conv2d", _IMAGE, lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1))
_layer("layer_norm", _SEQUENCE, lambda: nn.LayerNorm(4))
_layer("layer_norm_without_weights", _SEQUENCE, lambda: nn.LayerNorm(4, elementwise_affine=False))
_layer("rms_norm", _SEQUENCE, lambda: nn.RMSNorm(4))
_layer("batch_norm", _IMAGE, lambda: nn.BatchNorm2d(2))
_layer("group_norm", floats("batch", 4, 3, 3), lambda: nn.GroupNorm(2, 4))
_layer("instance_norm", _IMAGE, lambda: nn.InstanceNorm2d(2, affine=True))
_layer("multi_head_attention", _SEQUENCE, lambda: _Attention())
_layer("prelu", _SEQUENCE, lambda: nn.PReLU())
_layer("max_pool1d", floats("batch", 2, 8), lambda: nn.MaxPool1d(2))
_layer("max_pool2d", _IMAGE, lambda: nn.MaxPool2d(3, stride=2, padding=1))
_layer("avg_pool2d", _IMAGE, lambda: nn.AvgPool2d(3, stride=2, padding=1))
_layer("avg_pool1d", floats("batch", 2, 8), lambda: nn.AvgPool1d(2))
_layer("adaptive_avg_pool2d", _IMAGE, lambda: nn.AdaptiveAvgPool2d(4))
_layer("adaptive_max_pool2d", _IMAGE, lambda: nn.AdaptiveMaxPool2d(4))
_layer("global_avg_pool2d", _IMAGE, lambda: nn.AdaptiveAvgPool2d(1))
_layer("upsample_nearest", _IMAGE, lambda: nn.Upsample(scale_factor=2))
_layer("upsample_bilinear", _IMAGE, lambda: nn.Upsample(scale_factor=2, mode="bilinear"))
_layer("pixel_shuffle", floats("batch", 4, 3, 3), lambda: nn.PixelShuffle(2))
_layer("reflection_pad2d", _IMAGE, lambda: nn.ReflectionPad2d(2))
_layer("replication_pad2d", _IMAGE, lambda: nn.ReplicationPad2d(1))

_POINTWISE = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "mish": functional.mish,
    "elu": functional.elu,
    "leaky_relu": functional.leaky_relu,
    "hardswish": functional.hardswish,
    "hardtanh": functional.hardtanh,
    "hardsigmoid": functional.hardsigmoid,
    "softplus": functional.softplus,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "log_sigmoid": functional.logsigmoid,
    "softshrink": functional.softshrink,
    "exp_and_log": lambda x: (x.exp() + 1).log(),
    "sin_and_cos": lambda x: x.sin() * x.cos(),
    "sqrt_and_rsqrt": lambda x: (x.square() + 1).sqrt() + (x.abs() + 1).rsqrt(),
    "pow": lambda x: (x.abs() + 0.5).pow(1.5) + x.pow(3),
    "erf": torch.erf,
    "atan2": lambda x: torch.atan2(x, x.flip(0) + 3),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "maximum": lambda x: torch.maximum(x, x.flip(-1)),
    "where": lambda x: torch.where(x > 0, x, x.exp()),
    "division": lambda x: x / (x.square() + 1),
    "glu": lambda x: functional.glu(x, -1),
}
for _name, _of in _POINTWISE.items():
    _function(_name, _SEQUENCE, _of)

_REDUCTIONS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(1),
    "mean": lambda x: x.mean(1),
    "variance": lambda x: x.var(-1) + x.std(-1),
    "norm": lambda x: x.norm(dim=-1),
    "normalised": lambda x: functional.normalize(x, dim=-1),
    "logsumexp": lambda x: x.logsumexp(1),
    "amax": lambda x: x.amax(-1),
    "max": lambda x: x.max(-1).values,
    "sorted": lambda x: x.sort(-1).values,
    "topk": lambda x: x.topk(2, -1).values,
    "prod": lambda x: x.prod(-1),
    "cumsum": lambda x: x.cumsum(1),
    "cosine_similarity": lambda x: functional.cosine_similarity(x, x.flip(-1), dim=-1),
    "einsum": lambda x: torch.einsum("bik,bjk->bij", x, x),
    "matmul": lambda x: x @ x.transpose(1, 2),
}
for _name, _of in _REDUCTIONS.items():
    _function(_name, _SEQUENCE, _of)

_SHAPES = {
    "index": lambda x: x[:, 0] * x[:, -1],
    "index_of_list": lambda x: x[:, [0, 2, 0]],
    "gather": lambda x: x.gather(-1, x.argsort(-1)[..., :2]),
    "index_select": lambda x: x.index_select(-1, torch.tensor([3, 1, 1])),
    "masked_fill": lambda x: x.masked_fill(x > 0.5, 0.0),
    "cat_and_stack": lambda x: torch.stack([torch.cat([x, x.square()], 1)] * 2),
    "split": lambda x: torch.mul(*x.split(2, -1)),
    "pad": lambda x: functional.pad(x, (1, 2, 0, 1)),
    "roll_and_flip": lambda x: x.roll(1, 1) * x.flip(0),
    "unfold": lambda x: x.unfold(-1, 2, 1),
    "repeat_and_expand": lambda x: x.repeat(1, 2, 1) + x[:, :1].expand(-1, 2 * x.shape[1], -1),
    "tril": lambda x: (x @ x.transpose(1, 2)).tril(),
    "diagonal": lambda x: (x.transpose(1, 2) @ x).diagonal(dim1=1, dim2=2),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(-1, x.argsort(-1), x),
    "index_add": lambda x: torch.zeros_like(x).index_add(-1, torch.tensor([0, 0, 1, 2]), x),
}
for _name, _of in _SHAPES.items():
    _function(_name, _SEQUENCE, _of)

_function("bilinear_interpolation", _IMAGE, lambda x: functional.interpolate(x, size=(5, 11), mode="bilinear"))
_function("bicubic_interpolation", _IMAGE, lambda x: functional.interpolate(x, size=(5, 11), mode="bicubic"))
_function("causal_attention", floats("batch", 2, "length", 4), lambda x: _causal(x))


def _causal(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x, x, x, is_causal=True)


class _Pair(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x, x.flip(-1))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


@form(floats("batch", 2, 6, 6), integers(3, "batch"))
class GradientsOfParametersOfConvolution(nn.Module):
    """The gradient of a loss with respect to each parameter of a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1),
            nn.GroupNorm(2, 4),
            nn.SiLU(),
            nn.Conv2d(4, 4, 3, groups=2),
            nn.Flatten(),
            nn.Linear(4, 3),
        )

    def forward(self, image, target):
        return grad(functional.cross_entropy(self.net(image), target), list(self.net.parameters()))


@form(integers(7, "batch", "length"))
class GradientOfEmbeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4, padding_idx=0)
        self.norm = nn.LayerNorm(4)

    def forward(self, ids):
        loss = self.norm(self.embedding(ids)).exp().mean()
        return grad(loss, [self.embedding.weight, self.norm.weight, self.norm.bias])


@form(floats("batch", 2, 6, 6))
class SecondDerivativeOfConvolution(nn.Module):
    """A gradient penalty of an image critic."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, 3, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 1))

    def forward(self, image):
        image = image.detach().requires_grad_()
        slope = grad(self.net(image).sum(), image, create_graph=True)[0]
        return grad(slope.square().sum(), image)[0]


_LOSSES = {
    "mse": lambda x: functional.mse_loss(x, x.detach().flip(-1)),
    "smooth_l1": lambda x: functional.smooth_l1_loss(x, x.detach().flip(-1)),
    "huber": lambda x: functional.huber_loss(x, x.detach().flip(-1), delta=0.5),
    "l1": lambda x: functional.l1_loss(x, x.detach().flip(-1)),
    "cross_entropy": lambda x: functional.cross_entropy(x.flatten(0, 1), x.detach().flatten(0, 1).argmin(-1)),
    "binary_cross_entropy": lambda x: functional.binary_cross_entropy_with_logits(x, (x > 0).float().flip(-1)),
    "kl_div": lambda x: functional.kl_div(x.log_softmax(-1), x.detach().softmax(-1).flip(-1), reduction="batchmean"),
}
for _name, _of in _LOSSES.items():
    _function(f"{_name}_loss", _SEQUENCE, _of)
