"""PyTorch and ONNX both have an operator, and the mapping is missing, wrong, or not the one you want.

Two ways to say it: for one export, and for good.
"""

from __future__ import annotations

import torch
from onnxscript import opset18 as op

import opbridge


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.asinh(x)


def asinh(self):
    """asinh(Tensor self) -> Tensor"""
    return op.Asinh(self)


def main() -> None:
    args = (torch.randn(3, 4),)

    # For one export, exactly as torch.onnx.export takes it.
    program = opbridge.export(Model(), args, custom_translation_table={torch.ops.aten.asinh.default: asinh})
    print(program.plan)
    print([node.op_type for node in program.model.graph])

    # For good: from here on every export uses it, before any translation that comes with opbridge or torch.
    opbridge.translation("aten::asinh")(asinh)
    program = opbridge.export(Model(), args)
    print(program.verification)


if __name__ == "__main__":
    main()
