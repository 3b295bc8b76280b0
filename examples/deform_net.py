"""A backbone, a deformable convolution and a nearest-prototype head: a model that torch.onnx does not support.

python examples/deform_net.py
opbridge check examples/deform_net.py:build
opbridge export examples/deform_net.py:build -o deform.onnx
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import torchvision
from torch import Tensor, nn
from torchvision.ops import DeformConv2d

import opbridge


class DeformNet(nn.Module):
    """Classifies an image by the prototype that its features are nearest to."""

    def __init__(self, classes: int = 10, channels: int = 128) -> None:
        super().__init__()
        resnet = torchvision.models.resnet18(weights=None)
        self.backbone = nn.Sequential(*list(resnet.children())[:-2])
        # Two offsets and one mask value for each of the 3 x 3 sampling points of the kernel.
        self.where = nn.Conv2d(512, 3 * 3 * 3, kernel_size=3, padding=1)
        self.deform = DeformConv2d(512, channels, kernel_size=3, padding=1)
        self.prototypes = nn.Parameter(torch.randn(classes, channels))

    def embed(self, image: Tensor) -> Tensor:
        """The features of each image, (images, channels)."""
        features = self.backbone(image)
        offset_y, offset_x, mask = self.where(features).chunk(3, dim=1)
        features = self.deform(features, torch.cat((offset_y, offset_x), dim=1), mask.sigmoid())
        return torch.relu_(features).mean(dim=(2, 3))

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        distance = torch.cdist(self.embed(image), self.prototypes)
        return {"distance": distance, "nearest": distance.argmin(dim=1)}


def build() -> tuple[nn.Module, tuple[Tensor, ...], dict]:
    """The model, example inputs, and what varies: the number of images."""
    torch.manual_seed(0)
    model = DeformNet().eval()
    with torch.no_grad():  # one image represents each class
        model.prototypes.copy_(model.embed(torch.randn(10, 3, 128, 128)))
    return model, (torch.randn(2, 3, 128, 128),), {"dynamic_shapes": {"image": {0: "batch"}}}


def main() -> None:
    model, args, keywords = build()
    print(opbridge.check(model, args, **keywords))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "deform.onnx"
        program = opbridge.export(model, args, path, **keywords)
        print(program.verification)
        image = torch.randn(5, 3, 128, 128)
        distance, nearest = opbridge.session(path).run(None, {"image": image.numpy()})
        print(f"five images: distances {distance.shape}, nearest prototypes {nearest.tolist()}")


if __name__ == "__main__":
    main()
