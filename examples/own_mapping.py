"""PyTorch and ONNX both have an operator, but the mapping is missing, wrong, or not the one you want.

There are two ways to change it: for a single export, and for the whole process.
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
    torch.manual_seed(0)
    args = (torch.randn(3, 4),)

    # For a single export, as in torch.onnx.export.
    program = opbridge.export(Model(), args, custom_translation_table={torch.ops.aten.asinh.default: asinh})
    print(program.plan)
    print([node.op_type for node in program.model.graph])

    # For the whole process: every later export uses it in preference to the translations of opbridge and torch.
    opbridge.translation("aten::asinh")(asinh)
    program = opbridge.export(Model(), args)
    print(program.verification)


if __name__ == "__main__":
    main()
