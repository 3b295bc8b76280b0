"""Code for the old exporter: symbolic functions of one operator for several opsets.

The newest one that is not newer than the requested opset is used. examples/mapping_by_opset.py is the modern form.

python examples/symbolic_by_opset.py
"""

from __future__ import annotations

import torch
from torch.onnx import register_custom_op_symbolic

import opbridge


def hardswish_9(g, x):
    """x * clip(x / 6 + 1/2, 0, 1): HardSigmoid has been there since opset 1."""
    return g.op("Mul", x, g.op("HardSigmoid", x, alpha_f=1 / 6, beta_f=0.5))


def hardswish_14(g, x):
    """One operator, which came with opset 14."""
    return g.op("HardSwish", x)


register_custom_op_symbolic("aten::hardswish", hardswish_9, 9)
register_custom_op_symbolic("aten::hardswish", hardswish_14, 14)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.hardswish(x)


def main() -> None:
    torch.manual_seed(0)
    expected = {9: ["HardSigmoid", "Mul"], 13: ["HardSigmoid", "Mul"], 14: ["HardSwish"], 20: ["HardSwish"]}
    for opset, wanted in expected.items():
        program = opbridge.export(Model(), (3 * torch.randn(3, 4),), opset_version=opset)
        nodes = [node.op_type for node in program.model.graph]
        assert nodes == wanted, nodes
        print(f"opset {opset}: {program.plan.rows[0].how}: {nodes}, {program.verification.summary()}")


if __name__ == "__main__":
    main()
