"""A symbolic function registered with torch.onnx.register_custom_op_symbolic, unchanged.

torch.onnx ignores it today. With opbridge the plan names it, and the file contains the Asinh node that it creates, at
the default opset and at opset 9.

python examples/symbolic_asinh.py
opbridge check examples/symbolic_asinh.py:build
"""

from __future__ import annotations

import torch

import opbridge


def asinh(g, x, *, out=None):
    return g.op("Asinh", x)


torch.onnx.register_custom_op_symbolic("aten::asinh", asinh, 9)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.asinh(x)


def build():
    """The model and example inputs."""
    return Model(), (torch.randn(3, 4),)


def main() -> None:
    torch.manual_seed(0)
    model, args = build()
    (row,) = opbridge.check(model, args).rows
    print(f"{row.operator}: {row.how}")
    for opset in (None, 9):
        program = opbridge.export(model, args, opset_version=opset)
        nodes = [node.op_type for node in program.model.graph]
        assert nodes == ["Asinh"], nodes
        print(f"opset {program.model.opset_imports['']}: {nodes}, {program.verification.summary()}")


if __name__ == "__main__":
    main()
