"""A torch.autograd.Function with a static `symbolic`, unchanged.

torch.onnx traces `forward` today and ignores `symbolic`. opbridge keeps the Function as one operator, and the file
contains the nodes that `symbolic` creates: Constant, Mul, Add. `forward` computes the same with other operators, so
that the two can be distinguished.

python examples/function_symbolic.py
opbridge check examples/function_symbolic.py:build
"""

from __future__ import annotations

import torch

import opbridge


class MyAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a + a + b

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad, grad

    @staticmethod
    def symbolic(g, a, b):
        two = g.op("Constant", value_t=torch.tensor([2.0]))
        return g.op("Add", g.op("Mul", a, two), b)


class Model(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return MyAdd.apply(a, b)


def build():
    """The model and example inputs."""
    return Model(), (torch.randn(3, 4), torch.randn(3, 4))


def main() -> None:
    torch.manual_seed(0)
    model, args = build()
    program = opbridge.export(model, args)
    print(program.plan)
    nodes = [node.op_type for node in program.model.graph]
    assert nodes == ["Constant", "Mul", "Add"], nodes
    print(f"nodes: {nodes}\n{program.verification}")


if __name__ == "__main__":
    main()
