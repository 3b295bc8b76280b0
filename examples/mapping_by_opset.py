"""Different translations for different opsets.

The newest translation that is not newer than the requested opset is used.
"""

from __future__ import annotations

import math

import torch
from onnxscript import opset18, opset20

import opbridge


@opbridge.translation("aten::gelu", opset=18)
def gelu(self, approximate: str = "none"):
    """gelu(Tensor self, *, str approximate='none') -> Tensor, from operators that opset 18 has."""
    op = opset18
    if approximate == "tanh":
        cubed = op.Mul(self, op.Mul(self, self))
        inner = op.Mul(math.sqrt(2 / math.pi), op.Add(self, op.Mul(cubed, 0.044715)))
        return op.Mul(op.Mul(self, 0.5), op.Add(op.Tanh(inner), 1.0))
    return op.Mul(op.Mul(self, 0.5), op.Add(op.Erf(op.Mul(self, math.sqrt(0.5))), 1.0))


@opbridge.translation("aten::gelu", opset=20)
def gelu_20(self, approximate: str = "none"):
    """The same as one operator, which came with opset 20."""
    return opset20.Gelu(self, approximate=approximate)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x)


def main() -> None:
    torch.manual_seed(0)
    for opset in (18, 19, 20, 23):
        program = opbridge.export(Model(), (torch.randn(3, 4),), opset_version=opset)
        nodes = [node.op_type for node in program.model.graph]
        print(
            f"opset {opset}: {program.plan.rows[0].how}: {nodes}, {'verified' if program.verification.ok else 'wrong'}"
        )


if __name__ == "__main__":
    main()
