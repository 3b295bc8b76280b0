"""What `opbridge new NAME` writes: a kernel, a test of it, and a model that uses it."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from opbridge.errors import SaveError, UsageError

__all__ = ["create"]

_KERNEL = """\
#include <opbridge/kernel.h>
using namespace opbridge;

// x + alpha * y, element by element.
template <class T>
void {name}(Input<T> x, Input<T> y, double alpha, Output<T> out) {{
    for (int64_t i = 0; i < out.size(); ++i) out[i] = x[i] + static_cast<T>(alpha) * y[i];
}}

// The shape of the output, from those of the inputs.
Shape {name}_shape(Shape x, Shape y, double) {{
    require(x == y, "x and y must have the same shape");
    return x;
}}

OPBRIDGE_KERNEL("mylib::{name}(Tensor x, Tensor y, *, float alpha=2.0) -> Tensor", {name}, {name}_shape, floating);
"""

_TEST = """\
from pathlib import Path

import opbridge
import pytest
import torch

ops = opbridge.load(Path(__file__).with_name("{name}.cpp"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_{name}(dtype):
    x, y = torch.randn(2, 3, 4, dtype=dtype)
    torch.testing.assert_close(ops.{name}(x, y, alpha=3.0), x + 3 * y)
    torch.library.opcheck(ops.{name}.op, (x, y))


def test_{name}_in_onnx():
    x, y = torch.randn(2, 3, 4)
    program = opbridge.export(lambda x, y: ops.{name}(x, y, alpha=3.0), (x, y), dynamic_shapes="auto")
    assert program.verification.ok
"""

_MODEL = """\
from pathlib import Path

import opbridge
import torch

ops = opbridge.load(Path(__file__).with_name("{name}.cpp"))


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(ops.{name}(x, y))


def build():
    return Model(), (torch.randn(3, 4), torch.randn(3, 4))
"""


# The keywords of C++ up to C++23, its alternative tokens, and the names of the function and the namespaces that are
# there already.
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int
    long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template
    this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
    while xor xor_eq main opbridge std
"""
_OF_CPP = frozenset(_WORDS.split())


def create(name: str, folder: Path) -> list[Path]:
    """Writes the files of a new kernel.

    Args:
        name: Its name.
        folder: Where to.

    Returns:
        The kernel, its test, and a model.

    Raises:
        UsageError: a name that C++ and Python do not both take.
        SaveError: one of the files is there already, or cannot be written.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(
            f"'{name}' is not a valid name for an operator. Use lower-case letters, digits and underscores: my_add."
        )
    if name in _OF_CPP or name.startswith("__"):
        raise UsageError(
            f"'{name}' is reserved in C++ and cannot be the name of an operator. Use another name, such as my_{name}."
        )
    contents = {f"{name}.cpp": _KERNEL, f"test_{name}.py": _TEST, f"{name}_model.py": _MODEL}
    files = {folder / file: text.format(name=name) for file, text in contents.items()}
    there = [file for file in files if file.exists()]
    if there:
        raise SaveError(f"{there[0]} already exists, so nothing was written. Use another name.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            file.write_text(text)
    except OSError as error:
        raise SaveError(f"{folder} is not writable ({error.strerror}). Give another folder.") from None
    return list(files)
