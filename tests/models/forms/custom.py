"""Operators and autograd functions of the user's own."""

from __future__ import annotations

import torch
from models.forms.form import floats, form
from onnxscript import opset18 as op
from torch import nn

__all__: list[str] = []


@torch.library.custom_op("forms::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    """x times a number."""
    return x * by


@scaled.register_fake
def _(x, by):
    return torch.empty_like(x)


scaled.register_autograd(
    lambda ctx, slope: (slope * ctx.by, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)
_TABLE = {"forms::scaled": lambda x, by: op.Mul(x, by)}


@form(floats("batch", 4), export={"custom_translation_table": _TABLE})
class CustomOperator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return scaled(self.linear(x).relu(), 0.5) + torch.ops.forms.scaled(x, 2.0)


@form(floats("batch", 4), export={"custom_translation_table": _TABLE})
def gradient_through_custom_operator(x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(scaled(x.sin(), 3.0).sum(), x)[0]


@form(floats("batch", 4), export={"custom_translation_table": _TABLE})
def gradient_penalty_of_custom_operator(x):
    x = x.detach().requires_grad_()
    slope = torch.autograd.grad(scaled(x.square(), 0.5).sum(), x, create_graph=True)[0]
    return torch.autograd.grad(scaled(slope, 2.0).square().sum(), x)[0]


class _Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        gate = x.sigmoid()
        return slope * (gate + x * gate * (1 - gate))


class _Clipped(torch.autograd.Function):
    """The identity, with a gradient that is not its own, so that a derivative of forward would differ."""

    @staticmethod
    def forward(ctx, x, limit):
        ctx.limit = limit
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        return slope.clamp(-ctx.limit, ctx.limit), None


class _Parts(torch.autograd.Function):
    """Several outputs, one of which has no gradient; with setup_context."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.relu(), (x > 0).sum(dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, slope, _):
        return slope * (ctx.saved_tensors[0] > 0)


@form(floats("batch", 4))
def autograd_function(x):
    return _Swish.apply(x) + 1


@form(floats("batch", 4))
def autograd_function_with_parts(x):
    return _Parts.apply(x * 2)


@form(floats("batch", 4))
def custom_backward(x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad((_Clipped.apply(x, 0.5) * 3 + _Swish.apply(x)).sum(), x)[0]


@form(floats("batch", 4))
def custom_backward_under_func(x):
    return torch.func.grad(lambda given: _Parts.apply(given)[0].square().sum())(x)


@form(floats("batch", 4))
def mapped_autograd_function(x):
    return torch.vmap(lambda row: _Parts.apply(row)[0])(x)
