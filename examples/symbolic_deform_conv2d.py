"""A library's operator whose C++ schema is not its Python signature: torchvision.ops.deform_conv2d.

1. Without any registration it becomes DeformConv, from opset 19 on.
2. With a symbolic function, whose 14 parameters are those of the C++ schema, it becomes the node that this function
   creates. Without a kernel for this node, the export raises an error before it writes a file.
3. With the domain in custom_opsets=, the file is written, and `program.unverified` says why it is not verified.
4. With a kernel of that name, from deform_conv2d.cpp beside this file, the model is exported, run and verified.

python examples/symbolic_deform_conv2d.py
opbridge check examples/symbolic_deform_conv2d.py:build
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch.onnx.symbolic_helper import parse_args
from torchvision.ops import DeformConv2d

import opbridge


@parse_args("v", "v", "v", "v", "v", "i", "i", "i", "i", "i", "i", "i", "i", "b")
def symbolic_deform_conv2d(
    g,
    input,
    weight,
    offset,
    mask,
    bias,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dil_h,
    dil_w,
    n_weight_grps,
    n_offset_grps,
    use_mask,
):
    return g.op(
        "custom::deform_conv2d",
        input,
        weight,
        offset,
        mask,
        bias,
        stride_i=[stride_h, stride_w],
        padding_i=[pad_h, pad_w],
        dilation_i=[dil_h, dil_w],
        groups_i=n_weight_grps,
        offset_groups_i=n_offset_grps,
        use_mask_i=use_mask,
    )


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.where = torch.nn.Conv2d(3, 2 * 3 * 3, kernel_size=3, padding=1)
        self.deform = DeformConv2d(3, 8, kernel_size=3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.deform(image, self.where(image))


def build():
    """The model and example inputs."""
    return Model().eval(), (torch.randn(1, 3, 16, 16),)


def node_types(program: opbridge.Program) -> list[str]:
    return [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in program.model.graph]


def main() -> None:
    torch.manual_seed(0)
    model, args = build()
    for opset in (19, None):
        program = opbridge.export(model, args, opset_version=opset)
        assert "DeformConv" in node_types(program)
        seen = program.verification.summary()
        print(f"nothing registered, opset {program.plan.opset}: {node_types(program)}, {seen}")

    torch.onnx.register_custom_op_symbolic("torchvision::deform_conv2d", symbolic_deform_conv2d, 9)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "deform.onnx"
        try:
            opbridge.export(model, args, path)
        except opbridge.MissingOperators as error:
            print(f"\nregistered, without a kernel:\n{error}")
        assert not path.exists()
        print("no file was written\n")

        program = opbridge.export(model, args, path, custom_opsets={"custom": 1})
        assert path.exists() and "custom::deform_conv2d" in node_types(program)
        print(f"vouched for: {node_types(program)}\nnot verified: {program.unverified}\n")

        ops = opbridge.load(Path(__file__).with_name("deform_conv2d.cpp"))
        program = opbridge.export(model, args, path)
        print(f"with a kernel: {node_types(program)}, {program.verification.summary()}")

        session = opbridge.session(path, kernels=[ops.path])
        image = torch.randn(1, 3, 16, 16)
        (actual,) = session.run(None, {session.get_inputs()[0].name: image.numpy()})
        torch.testing.assert_close(torch.from_numpy(actual), model(image).detach(), rtol=1e-4, atol=1e-5)
        print("another image: equal to PyTorch")


if __name__ == "__main__":
    main()
