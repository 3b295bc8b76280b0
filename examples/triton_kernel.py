"""A model that launches a Triton kernel, as one node of an ONNX file with a library of compiled code beside it.

The kernel is a gate as language models have it, silu(gate) * up, in one pass over memory. Where there is no GPU, as
here, the model and the file run it in Triton's interpreter.

python examples/triton_kernel.py
opbridge export examples/triton_kernel.py:build -o model.onnx --arch sm_80,sm_90
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

import opbridge


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def gate_kernel(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    gate = tl.load(gate_ptr + i, mask=mask)
    tl.store(out_ptr + i, silu(gate) * tl.load(up_ptr + i, mask=mask), mask=mask)


class FeedForward(torch.nn.Module):
    def __init__(self, width: int = 16, inner: int = 40) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(width, inner, bias=False)
        self.up = torch.nn.Linear(width, inner, bias=False)
        self.down = torch.nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate(x), self.up(x)
        out = torch.empty_like(gate)
        n = out.numel()
        gate_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](gate, up, out, n, BLOCK=128)
        return self.down(out)


def build() -> tuple[torch.nn.Module, tuple[torch.Tensor], dict[str, Any]]:
    torch.manual_seed(0)
    return FeedForward().eval(), (torch.randn(2, 5, 16),), {"dynamic_shapes": {"x": {0: "batch", 1: "tokens"}}}


def main() -> None:
    model, args, keywords = build()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        program = opbridge.export(model, args, path, architectures=["sm_80", "sm_90"], **keywords)
        print(program.plan)
        print(program.verification)
        node = next(node for node in program.model.graph if node.domain == "triton")
        print({name: attribute.value for name, attribute in node.attributes.items()})
        print("files:", ", ".join(each.name for each in program.files))

        # Another size, against PyTorch's own operators.
        x = torch.randn(3, 7, 16)
        session = opbridge.session(path, kernels=program.libraries)  # on a GPU: providers=["CUDAExecutionProvider"]
        (found,) = session.run(None, {"x": x.numpy()})
        with torch.no_grad():
            expected = model.down(torch.nn.functional.silu(model.gate(x)) * model.up(x))
        torch.testing.assert_close(torch.from_numpy(found), expected)
        print("another size, (3, 7, 16): equal to PyTorch's own operators")


if __name__ == "__main__":
    main()
