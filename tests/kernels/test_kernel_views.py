"""A tensor takes one index for each of its dimensions, and another number of them is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import opbridge

_KERNEL = """\
#include <opbridge/kernel.h>
using namespace opbridge;

void last({parameters}) {{ {body} }}
Shape last_shape(Shape) {{ return {{}}; }}
OPBRIDGE_KERNELS("{name}::last(Tensor x) -> Tensor", last_shape, last);
"""


def kernel(folder: Path, parameters: str, body: str, name: str = "viewtest") -> Path:
    """A file with a kernel of a tensor x and a scalar y."""
    source = folder / f"{name}.cpp"
    source.write_text(_KERNEL.format(parameters=parameters, body=body, name=name))
    return source


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["y() = x(1, 2);", "y() = x(0, 1, 2, 3);", "y() = x();", "y(0) = x(0, 0, 0);"])
def test_a_declared_rank_is_checked_when_a_kernel_is_compiled(tmp_path: Path, statement: str) -> None:
    source = kernel(tmp_path, "Input<float, 3> x, Output<float, 0> y", statement)
    with pytest.raises(opbridge.BuildError, match="takes one index for each dimension of the tensor"):
        opbridge.build(source, flags=["-O0"])


@pytest.mark.slow
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    ("index", "said"),
    [("1, 2", "2 indices into a tensor with 3 dim"), ("0", "1 index into"), ("0, 0, 0, 0", "4 indices into")],
)
def test_a_rank_that_is_not_declared_is_checked_when_a_kernel_runs(
    tmp_path: Path, index: str, said: str, debug: bool
) -> None:
    source = kernel(tmp_path, "Input<float> x, Output<float> y", f"y() = x({index});", f"viewtest{len(index)}{debug}")
    ops = opbridge.load(source, debug=debug)
    with pytest.raises(RuntimeError, match=said):
        ops.last(torch.ones(2, 3, 4))


@pytest.mark.slow
def test_as_many_indices_as_dimensions_reach_the_element(tmp_path: Path) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    for name, rank in (("viewtestdeclared", ", 3"), ("viewtestundeclared", "")):
        source = kernel(tmp_path, f"Input<float{rank}> x, Output<float> y", "y() = x(1, 2, 3);", name)
        assert opbridge.load(source).last(x).item() == 23
