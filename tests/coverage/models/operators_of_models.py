"""Operators of the models to sweep, in a file that is imported once, however many families are."""

from __future__ import annotations

import torch
from onnxscript import opset18 as op

import opbridge


@torch.library.custom_op("modelstest::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.library.custom_op("modelstest::tripled_if_large", mutates_args=())
def tripled_if_large(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 100, x * 3, x)


@unknown.register_fake
@tripled_if_large.register_fake
def _(x):
    return torch.empty_like(x)


@opbridge.translation("modelstest::tripled_if_large")
def never_tripled(x):
    """modelstest::tripled_if_large(Tensor x) -> Tensor"""
    return op.Identity(x)
