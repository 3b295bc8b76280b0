"""Bicubic upsampling whose scale is an input of the model.

`forward` needs the scale as Python numbers and calls `.tolist()`, which a capture cannot follow; `symbolic` passes the
tensor itself to Resize. The exported model supports other scales than the example's and still agrees with PyTorch.

python examples/symbolic_resize.py
"""

from __future__ import annotations

import torch
from torch.nn.functional import interpolate

import opbridge


class Bicubic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, image, scales):
        return interpolate(image, scale_factor=scales.tolist()[-2:], mode="bicubic", align_corners=False)

    @staticmethod
    def symbolic(g, image, scales):
        return g.op(
            "Resize",
            image,
            g.op("Constant", value_t=torch.tensor([], dtype=torch.float32)),
            scales,
            coordinate_transformation_mode_s="pytorch_half_pixel",
            cubic_coeff_a_f=-0.75,
            mode_s="cubic",
        )


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sharpen = torch.nn.Conv2d(3, 3, kernel_size=3, padding=1)

    def forward(self, image: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return torch.relu(Bicubic.apply(self.sharpen(image), scales))


def build():
    """The model and example inputs: an image, and the scales of its four dimensions."""
    return Model().eval(), (torch.rand(1, 3, 12, 10), torch.tensor([1.0, 1.0, 2.0, 2.0]))


def main() -> None:
    torch.manual_seed(0)
    model, args = build()
    for opset in (11, None):
        program = opbridge.export(model, args, opset_version=opset)
        nodes = [node.op_type for node in program.model.graph]
        print(f"opset {program.plan.opset}: {nodes}, {program.verification.summary()}")
        session = program.session()
        for height, width in ((3.0, 3.0), (1.25, 4.0)):
            image, scales = torch.rand(1, 3, 12, 10), torch.tensor([1.0, 1.0, height, width])
            (result,) = session.run(None, {"image": image.numpy(), "scales": scales.numpy()})
            torch.testing.assert_close(torch.from_numpy(result), model(image, scales), rtol=1e-4, atol=1e-5)
            print(f"  scale {height} x {width}: {result.shape}, equal to PyTorch")


if __name__ == "__main__":
    main()
