"""Code for the old exporter: SELU as an ONNX function, called with g.onnxscript_op.

The file contains the function and one call to it. examples/onnxscript_function.py is the modern form, without `g`.

python examples/symbolic_onnxscript.py
"""

from __future__ import annotations

import onnxscript
import torch
from onnxscript import opset15 as op

import opbridge

custom_opset = onnxscript.values.Opset(domain="custom-onnx-script", version=1)


@onnxscript.script(custom_opset)
def Selu(X):
    alpha = 1.6732632423543772
    gamma = 1.0507009873554805
    alphaX = op.CastLike(alpha, X)
    gammaX = op.CastLike(gamma, X)
    negative = op.Min(alphaX * op.Exp(X) - alphaX, op.CastLike(0.0, X))
    return gammaX * (op.Max(X, op.CastLike(0.0, X)) + negative)


def custom_selu(g, X):
    return g.onnxscript_op(Selu, X).setType(X.type())


torch.onnx.register_custom_op_symbolic("aten::selu", custom_selu, 9)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.selu(x)


def build():
    """The model, example inputs, and the version of the function's domain."""
    return Model(), (torch.randn(3, 4),), {"custom_opsets": {"custom-onnx-script": 1}}


def main() -> None:
    torch.manual_seed(0)
    model, args, keywords = build()
    program = opbridge.export(model, args, **keywords)
    print(program.plan)
    functions = [f"{domain}::{name}" for domain, name, _ in program.model.functions]
    nodes = [f"{node.domain}::{node.op_type}" for node in program.model.graph]
    assert functions == nodes == ["custom-onnx-script::Selu"], (functions, nodes)
    print(f"functions: {functions}\nnodes: {nodes}\n{program.verification}")


if __name__ == "__main__":
    main()
