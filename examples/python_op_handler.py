"""Several torch.autograd.Functions with one handler, registered for prim::PythonOp.

The handler receives the Function's class name, and sets the type of the result from the Function's node. Both
documented spellings work: "prim::PythonOp", and "::prim_PythonOp" from before torch 1.11.

python examples/python_op_handler.py
"""

from __future__ import annotations

import torch
from torch.onnx.symbolic_helper import _unimplemented

import opbridge


class MyClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, least):
        ctx.save_for_backward(x)
        return x.clamp(min=least)


class MyRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)


def symbolic_python_op(g, *args, **kwargs):
    node = g.original_node
    name = kwargs["name"]
    if name == "MyClip":
        result = g.op("Clip", args[0], g.op("Constant", value_t=torch.tensor(float(args[1]))))
    elif name == "MyRelu":
        result = g.op("Relu", args[0])
    else:
        return _unimplemented("prim::PythonOp", "unknown node kind: " + name)
    result.setType(node.output().type())
    return result


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return MyClip.apply(MyRelu.apply(x) - 2, -1)


def build():
    """The model and example inputs, with the handler registered."""
    torch.onnx.register_custom_op_symbolic("prim::PythonOp", symbolic_python_op, 1)
    return Model(), (3 * torch.randn(3, 4),)


def main() -> None:
    torch.manual_seed(0)
    for spelling in ("prim::PythonOp", "::prim_PythonOp"):
        torch.onnx.register_custom_op_symbolic(spelling, symbolic_python_op, 1)
        program = opbridge.export(Model(), (3 * torch.randn(3, 4),))
        nodes = [node.op_type for node in program.model.graph]
        assert "Clip" in nodes and "Relu" in nodes, nodes
        print(f"{spelling}: {nodes}\n{program.plan}\n{program.verification}\n")
        torch.onnx.unregister_custom_op_symbolic(spelling, 1)


if __name__ == "__main__":
    main()
