"""Which operators does a model use, which are missing, and how can each be exported?

The whole model is checked without exporting it; then a translation is registered for one operator, first a wrong one.
"""

from __future__ import annotations

import torch
from onnxscript import opset18 as op

import opbridge


@torch.library.custom_op("shop::discount", mutates_args=())
def discount(price: torch.Tensor, rate: torch.Tensor, floor: float) -> torch.Tensor:
    return (price * (1 - rate)).clamp(min=floor)


@discount.register_fake
def _(price, rate, floor):
    return torch.empty_like(price)


@torch.library.custom_op("shop::round_up", mutates_args=())
def round_up(price: torch.Tensor) -> torch.Tensor:
    return price.ceil()


@round_up.register_fake
def _(price):
    return torch.empty_like(price)


class Model(torch.nn.Module):
    def forward(self, price: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        cheaper = torch.ops.shop.discount(price, rate, 1.0)
        return torch.ops.shop.round_up(cheaper).sum()


def build():
    """The model and example inputs."""
    return Model(), (torch.rand(4) * 10, torch.rand(4))


def main() -> None:
    torch.manual_seed(0)
    model, args = build()
    print(opbridge.check(model, args))
    try:
        opbridge.export(model, args)
    except opbridge.MissingOperators as error:
        print(f"\nexport says the same, for all of them at once:\n{error}\n")

    # A translation whose parameters do not match the operator is reported as such, not as missing.
    swapped = {"shop::discount": lambda rate, price: op.Mul(price, op.Sub(1.0, rate)), "shop::round_up": op.Ceil}
    print(opbridge.check(model, args, custom_translation_table=swapped))

    @opbridge.translation("shop::discount")
    def translate_discount(price, rate, floor: float):
        return op.Max(op.Mul(price, op.Sub(1.0, rate)), floor)

    @opbridge.translation("shop::round_up")
    def translate_round_up(price):
        return op.Ceil(price)

    program = opbridge.export(model, args)
    print(f"\n{program.plan}\n{program.verification}")


if __name__ == "__main__":
    main()
