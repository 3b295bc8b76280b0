"""An operator written in C++ and bound with pybind11, which `forward` calls, with a `symbolic` method.

No tracer can trace the binding, and torch.onnx fails at it. opbridge runs `forward` once, to determine the shapes and
dtypes of the outputs, and uses the nodes of `symbolic`. The model then runs on other shapes than the example's.

python examples/pybind11_operator.py        (compiles the operator with g++ first: a few seconds)
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType

import torch

import opbridge

SOURCE = r"""
#include <pybind11/pybind11.h>

namespace py = pybind11;

// out = 2a + b, on buffers of floats that Python gives
void my_add(py::buffer a, py::buffer b, py::buffer out) {
    auto x = a.request(), y = b.request(), z = out.request(true);
    auto p = static_cast<const float *>(x.ptr), q = static_cast<const float *>(y.ptr);
    auto r = static_cast<float *>(z.ptr);
    for (py::ssize_t i = 0; i < z.size; ++i) r[i] = 2 * p[i] + q[i];
}

PYBIND11_MODULE(my_lib, m) { m.def("my_add", &my_add); }
"""


def compile_and_import() -> ModuleType:
    """The module `my_lib`. pybind11's headers come with torch."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "my_lib.cpp", Path(folder) / "my_lib.so"
        source.write_text(SOURCE)
        includes = [os.path.join(torch.__path__[0], "include"), sysconfig.get_paths()["include"]]
        flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", *(f"-I{path}" for path in includes)]
        subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
        spec = importlib.util.spec_from_file_location("my_lib", library)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module  # loaded: the file is no longer needed


my_lib = compile_and_import()


class MyAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.detach().contiguous(), b.detach().contiguous()
        out = torch.empty_like(a)
        my_lib.my_add(a.numpy(), b.numpy(), out.numpy())
        return out

    @staticmethod
    def symbolic(g, a, b):
        two = g.op("Constant", value_t=torch.tensor([2.0]))
        return g.op("Add", g.op("Mul", a, two), b)


class Model(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(MyAdd.apply(a, b))


def build():
    """The model, example inputs, and what varies: both dimensions."""
    sizes = {0: "rows", 1: "columns"}
    return Model(), (torch.randn(3, 4), torch.randn(3, 4)), {"dynamic_shapes": {"a": sizes, "b": sizes}}


def main() -> None:
    torch.manual_seed(0)
    model, args, keywords = build()
    program = opbridge.export(model, args, **keywords)
    print(program.plan)
    print(f"nodes: {[node.op_type for node in program.model.graph]}\n{program.verification}")
    a, b = torch.randn(5, 7), torch.randn(5, 7)
    (result,) = program.session().run(None, {"a": a.numpy(), "b": b.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), model(a, b))
    print(f"another shape, {result.shape}: equal to PyTorch")


if __name__ == "__main__":
    main()
