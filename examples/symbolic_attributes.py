"""A library's operator with attributes, mapped to an operator in a custom domain.

`custom_ops::foo_forward(x, y, attr1, attr2)` becomes `custom_domain::Foo` with a float and an integer attribute, and
the file imports version 2 of the domain. There is no kernel for Foo here: custom_opsets= declares that you have one,
and `program.unverified` gives the reason why the file was not compared with PyTorch.

python examples/symbolic_attributes.py
opbridge export examples/symbolic_attributes.py:build -o foo.onnx
"""

from __future__ import annotations

import torch
from torch.onnx.symbolic_helper import parse_args

import opbridge


@torch.library.custom_op("custom_ops::foo_forward", mutates_args=())
def foo_forward(x: torch.Tensor, y: torch.Tensor, attr1: float, attr2: int) -> torch.Tensor:
    return x * attr1 + y * attr2


@foo_forward.register_fake
def _(x, y, attr1, attr2):
    return torch.empty_like(x)


@parse_args("v", "v", "f", "i")
def symbolic_foo_forward(g, x, y, attr1, attr2):
    return g.op("custom_domain::Foo", x, y, attr1_f=attr1, attr2_i=attr2)


torch.onnx.register_custom_op_symbolic("custom_ops::foo_forward", symbolic_foo_forward, 9)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.custom_ops.foo_forward(x, y, 0.5, 3)


def build():
    """The model, example inputs, and the version of the custom domain."""
    return Model(), (torch.randn(3, 4), torch.randn(3, 4)), {"custom_opsets": {"custom_domain": 2}}


def main() -> None:
    torch.manual_seed(0)
    model, args, keywords = build()
    program = opbridge.export(model, args, **keywords)
    print(program.plan)
    (node,) = program.model.graph
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    assert (node.domain, node.op_type, attributes) == ("custom_domain", "Foo", {"attr1": 0.5, "attr2": 3})
    assert program.model.opset_imports["custom_domain"] == 2
    print(f"{node.domain}::{node.op_type} {attributes}, opset imports: {dict(program.model.opset_imports)}")
    print(f"not verified: {program.unverified}")


if __name__ == "__main__":
    main()
