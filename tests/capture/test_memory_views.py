"""Views given by places in memory read the memory that PyTorch reads, however the tensor lies in it."""

import pytest
import torch

import opbridge
from opbridge import CaptureError


def _written(x):
    y = x.t().clone()
    y.as_strided((3,), (5,)).add_(7)
    return y


def _read_before_write(x):
    y = x.t() * 1
    z = y.as_strided((3,), (5,))
    before = z * 2
    y.add_(1)
    return before, y, z


def _read_after_write(x):
    y = x.t() * 1
    y.mul_(2)
    return y.as_strided((3,), (5,)), y


def _read_after_write_to_row(x):
    y = x * 1
    y.t()[0].add_(5)
    return y.t().as_strided((3,), (5,)), y


def _chunks(x):
    """Overlapping chunks of a sequence that is not the first dimension in memory, as Longformer takes them."""
    chunks = x.transpose(0, 1).view(6, 2, 2)
    size, stride = list(chunks.size()), list(chunks.stride())
    size[1] = 2 * size[1] - 1
    stride[1] //= 2
    return chunks.as_strided(size, stride)


FORMS = {
    "transposed": lambda x: x.t().as_strided((3, 2), (1, 2)),
    "rows": lambda x: x[1:].as_strided((3, 2), (1, 2)),
    "rows and columns": lambda x: x[1:, 2:].as_strided((3, 2), (1, 2)),
    "rows and columns, from the begin": lambda x: x[1:, 2:].as_strided((3, 2), (1, 2), 1),
    "steps": lambda x: x[:, ::2].as_strided((3, 2), (1, 2)),
    "computed and transposed": lambda x: (x * 2).transpose(0, 1).as_strided((3, 4), (6, 2)),
    "channels last": lambda x: (
        torch.stack([x, -x])[None].to(memory_format=torch.channels_last).as_strided((3, 4), (6, 2))
    ),
    "parts of complex numbers": lambda x: torch.view_as_real(torch.complex(x, -x).t()).as_strided((4, 2), (3, 1), 2),
    "copied": lambda x: torch.as_strided_copy(x.t(), (3, 2), (1, 2)),
    "scattered": lambda x: torch.as_strided_scatter(x.t() * 1, torch.ones(3), (3,), (5,)),
    "written": _written,
    "read before a write": _read_before_write,
    "read after a write": _read_after_write,
    "read after a write to a row": _read_after_write_to_row,
}


def _largest_difference(program: opbridge.Program) -> float:
    assert program.verification is not None
    return max(each.absolute for run in program.verification.runs for each in run.comparisons)


@pytest.mark.parametrize("dynamic_shapes", [None, {"x": {0: "rows"}}], ids=["static", "dynamic"])
@pytest.mark.parametrize("form", FORMS)
def test_what_memory_holds(form, dynamic_shapes, tmp_path):
    program = opbridge.export(FORMS[form], (torch.randn(4, 6),), tmp_path / "m.onnx", dynamic_shapes=dynamic_shapes)

    assert _largest_difference(program) == 0


def test_of_one_value_many_times(tmp_path):
    def model(x):
        return x[:, :1].expand(4, 6).as_strided((3, 2), (1, 2), 1)

    program = opbridge.export(model, (torch.randn(4, 6),), tmp_path / "m.onnx")

    assert _largest_difference(program) == 0


def test_overlapping_chunks(tmp_path):
    program = opbridge.export(_chunks, (torch.randn(4, 6),), tmp_path / "m.onnx")

    assert _largest_difference(program) == 0


def test_of_a_weight(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 6))

        def forward(self, x):
            return x + self.weight.t().as_strided((4, 6), (1, 3))

    program = opbridge.export(Model().eval(), (torch.randn(4, 6),), tmp_path / "m.onnx")

    assert _largest_difference(program) == 0


def test_memory_with_gaps_is_refused(tmp_path):
    x = torch.randn(4, 12)[:, ::2]

    with pytest.raises(CaptureError, match=r"as_strided.* at .*test_memory_views.py"):
        opbridge.export(lambda x: x.as_strided((3, 2), (1, 24)), (x,), tmp_path / "m.onnx")
