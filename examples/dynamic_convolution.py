"""A convolution over time whose weights depend on the input, as in Lite Transformer.

opbridge_ops::dynamic_conv is a PyTorch operator with a gradient, one node of the file, a kernel in ONNX Runtime on the
CPU and on CUDA devices, and a plug-in of TensorRT. The encoder layer here, dynamic convolution and a feed-forward part,
each with its residual connection, is trained for a few steps, exported, and compared with PyTorch on other lengths than
the example's; on a CUDA device too, where there is one. At last it is exported for TensorRT.

python examples/dynamic_convolution.py
opbridge check examples/dynamic_convolution.py:build
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import onnxruntime
import torch
from torch import nn
from torch.export import Dim

import opbridge
from opbridge.kernels.builtin import load_builtin

ops = load_builtin()


class DynamicConvolution(nn.Module):
    """Each channel is convolved with the weights of its head, which a linear layer makes at each moment."""

    def __init__(self, channels: int, heads: int, taps: int) -> None:
        super().__init__()
        self.heads, self.taps = heads, taps
        self.enter = nn.Linear(channels, 2 * channels)
        self.weights = nn.Linear(channels, heads * taps)
        self.leave = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, _ = x.shape
        x = nn.functional.glu(self.enter(x))
        weights = self.weights(x).view(batch, time, self.heads, self.taps).softmax(dim=-1).permute(0, 2, 3, 1)
        # Every tap but the last one reads earlier steps: padding_l = taps - 1 makes it causal, taps // 2 centres it.
        x = ops.dynamic_conv(x.transpose(1, 2), weights, self.taps // 2)
        return self.leave(x.transpose(1, 2))


class EncoderLayer(nn.Module):
    def __init__(self, channels: int = 32, heads: int = 4, taps: int = 7) -> None:
        super().__init__()
        self.convolution = DynamicConvolution(channels, heads, taps)
        self.feed_forward = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.ReLU(), nn.Linear(4 * channels, channels)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norms[0](x + self.convolution(x))
        return self.norms[1](x + self.feed_forward(x))


def build():
    """The model, example inputs, and which of their sizes may be others."""
    sizes = {"dynamic_shapes": {"x": {0: Dim("batch"), 1: Dim("time", min=2)}}}
    return EncoderLayer().eval(), (torch.randn(2, 20, 32),), sizes


def train(model: nn.Module, steps: int = 20) -> tuple[float, float]:
    """The loss before and after a few steps towards the reversed sequence."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.randn(8, 20, 32)
    losses = []
    for _ in range(steps):
        loss = (model(x) - x.flip(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


def on_cuda(model: nn.Module, path: Path) -> None:
    """PyTorch and ONNX Runtime on a CUDA device, where they have one."""
    x = torch.randn(3, 50, 32)
    expected = model(x).detach()
    if torch.cuda.is_available():
        found = copy.deepcopy(model).cuda()(x.cuda()).detach().cpu()
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(str(ops.path))
        session = onnxruntime.InferenceSession(path, options, providers=["CUDAExecutionProvider"])
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-3, atol=1e-3)


def for_tensorrt(model: nn.Module, path: Path) -> None:
    """The layer for TensorRT, whose parser finds the plug-in of the convolution by the attributes of its node."""
    _, args, export = build()
    program = opbridge.export(model, args, path, target="tensorrt:10.15", **export)
    (node,) = (each for each in program.model.graph if each.domain == "opbridge_ops")
    attributes = {name: each.value for name, each in node.attributes.items()}
    print(f"for TensorRT: {node.op_type} {attributes}")
    for finding in program.findings:
        print(f"{finding.rule}: {finding.message} {finding.remedy}")


def main() -> None:
    torch.manual_seed(0)
    model, args, export = build()
    before, after = train(model)
    print(f"trained: loss {before:.3f} -> {after:.3f}")
    assert after < before

    folder = Path(tempfile.mkdtemp())
    program = opbridge.export(model, args, folder / "layer.onnx", **export)
    kernels = [node for node in program.model.graph if node.domain == "opbridge_ops"]
    print(program.plan)
    print(f"node: {kernels[0].domain}::{kernels[0].op_type} {dict(kernels[0].attributes)}")
    print(program.verification)
    assert [node.op_type for node in kernels] == ["dynamic_conv"]

    session = program.session()
    for batch, time in ((1, 5), (3, 50)):
        x = torch.randn(batch, time, 32)
        (actual,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(actual), model(x).detach(), rtol=1e-4, atol=1e-5)
    print("other lengths match")
    on_cuda(model, folder / "layer.onnx")
    for_tensorrt(model, folder / "layer_tensorrt.onnx")


if __name__ == "__main__":
    main()
