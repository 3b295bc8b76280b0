"""An operator from one C++ file, in PyTorch and in ONNX Runtime.

my_add.cpp contains the operator's schema, its kernel and its shape function, and includes one header, which requires
neither torch nor ONNX Runtime.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

import opbridge

ops = opbridge.load(Path(__file__).with_name("my_add.cpp"))


def backward(ctx, gradient):
    return gradient * ctx.alpha, gradient


ops.my_add.register_autograd(backward)


class Model(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(ops.my_add(a, b, alpha=3.0))


def main() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 4, 5)
    print(ops)

    # In PyTorch: eager, compiled, with a gradient.
    expected = torch.relu(3 * a + b)
    torch.testing.assert_close(Model()(a, b), expected)
    torch.testing.assert_close(torch.compile(Model(), backend="aot_eager", fullgraph=True)(a, b), expected)
    a.requires_grad_()
    Model()(a, b).sum().backward()
    torch.testing.assert_close(a.grad, 3.0 * (expected > 0))
    print("PyTorch: eager, compiled and gradient agree")

    # In the ONNX file, with dynamic sizes, and in ONNX Runtime.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        program = opbridge.export(Model(), (a.detach(), b), path, dynamic_shapes="auto")
        print(program.plan)
        print(program.verification)

        # On another machine, without torch: the library is passed, because a model file contains no library paths.
        session = opbridge.session(path, kernels=[ops.path])
        x, y = torch.randn(2, 7, 1)
        (result,) = session.run(None, {"a": x.numpy(), "b": y.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), torch.relu(3 * x + y))
        print("ONNX Runtime, other sizes: equal to PyTorch")
        try:
            opbridge.session(path)
        except opbridge.ModelFileError as error:
            print(f"without it: {error}".replace(str(path), "model.onnx"))


if __name__ == "__main__":
    main()
