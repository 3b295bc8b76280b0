"""An operator composed of ONNX operators, exported as an ONNX function in a custom domain.

The file contains the function once and a call for each use; a runtime may run the call with its own kernel.
"""

from __future__ import annotations

import onnxscript
import torch
from onnxscript import opset18 as op

import opbridge

domain = onnxscript.values.Opset("custom-onnx-script", 1)


@onnxscript.script(domain)
def Selu(X):
    """selu(x) = gamma * (max(x, 0) + min(alpha * (exp(x) - 1), 0))"""
    alpha = 1.6732632423543772
    gamma = 1.0507009873554805
    zero = op.CastLike(0.0, X)
    negative = op.CastLike(alpha, X) * (op.Exp(X) - op.CastLike(1.0, X))
    return op.CastLike(gamma, X) * (op.Max(X, zero) + op.Min(negative, zero))


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.selu(x) + torch.selu(-x)


def main() -> None:
    torch.manual_seed(0)
    program = opbridge.export(
        Model(),
        (torch.randn(3, 4),),
        custom_translation_table={torch.ops.aten.selu.default: Selu},
        custom_opsets={"custom-onnx-script": 1},
    )
    print(program.plan)
    print(f"functions: {[f'{domain}::{name}' for domain, name, _ in program.model.functions]}")
    print(f"nodes: {[f'{node.domain}::{node.op_type}' for node in program.model.graph]}")
    print(program.verification)


if __name__ == "__main__":
    main()
