"""Models whose operators TensorRT-RTX lacks: exported for it, they are built, and give what PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch.export import Dim

import opbridge
from opbridge.runtimes import tensorrt_rtx

pytestmark = [
    pytest.mark.skipif(not tensorrt_rtx.version(), reason=f"tensorrt-rtx is not installed: {tensorrt_rtx.INSTALL}"),
    pytest.mark.slow,
]

B = {0: Dim("b")}


class _Of(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def built(function: Callable[..., Any], *args: Any, dynamic: Any = None, **given: Any) -> Mapping[str, int]:
    """Exports a function, verified, and builds the file; gives how many nodes of each operator it has."""
    from opbridge.runtimes.tensorrt_rtx.building import attempt
    from opbridge.runtimes.tensorrt_rtx.refusals import explained

    model = function if isinstance(function, torch.nn.Module) else _Of(function)
    program = opbridge.export(model, args, dynamic_shapes=dynamic, target="tensorrt-rtx", **given)
    assert program.verification is not None and program.verification.ok
    content = program.to_bytes()
    found = attempt(content)
    assert found.stage == "built", explained(found.complaints, content)
    counts: dict[str, int] = {}
    for node in program.model.graph:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


@pytest.mark.parametrize("shape", [(7,), (3, 4)])
@pytest.mark.parametrize("ranged", [False, True])
def test_argmax(shape, ranged):
    x = torch.randn(shape)
    built((lambda x: torch.arange(x.argmax().item() + 1)) if ranged else (lambda x: (x.argmax(), x.argmin(-1))), x)


def test_a_size_counted_in_a_mask():
    built(lambda x, m: x[:, : m.sum(1).max().item() + 1], torch.rand(3, 4), torch.rand(3, 4) > 0.5)
    built(lambda x: x.repeat(int(x.amax().item() * 3) + 1, 1), torch.rand(3, 4), dynamic=(B,))
    built(lambda x: x.reshape(-1).topk(int((x > 0.5).sum().item())).values, torch.rand(3, 4))


X, WHERE, S = torch.randn(6, 4), torch.tensor([0, 2, 2, 5, -1]), torch.randn(5, 4)
PLACES = torch.randint(0, 6, (5, 4))


@pytest.mark.parametrize("reduction", ["sum", "amax", "amin", "prod", "mean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_scatter_reduce(reduction, dtype):
    x, s = (X.mul(9).to(dtype), S.mul(9).to(dtype))
    counts = built(lambda x, i, s: x.scatter_reduce(0, i, s, reduction), x, PLACES, s)
    assert "Loop" not in counts


def test_updates_of_places_that_repeat():
    counts = [
        built(lambda x, i, s: x.index_add(0, i, s), X, WHERE.abs(), S),
        built(lambda x, i, s: x.index_put((i,), s, accumulate=True), X, WHERE, S),
        built(
            lambda x, i, s: x.scatter_add(1, i, s),
            torch.randn(2, 6, 3),
            torch.randint(0, 6, (2, 5, 3)),
            torch.ones(2, 5, 3),
        ),
    ]
    assert not any("Loop" in each for each in counts)


def test_messages_of_a_graph_of_any_size():
    edges = torch.randint(0, 6, (2, 9))
    counts = built(
        lambda x, e: torch.zeros_like(x).index_add(0, e[1], x[e[0]]), X, edges, dynamic=({0: Dim("n")}, {1: Dim("e")})
    )
    assert counts["Loop"] == 1


class _Deformed(torch.nn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        from torchvision.ops import DeformConv2d

        self.layer = DeformConv2d(4, 6, 3, padding=1, **settings)

    def forward(self, x: Any, offset: Any, mask: Any) -> Any:
        return self.layer(x, offset, mask)


def test_deformable_convolution():
    sizes = {0: Dim("b"), 2: Dim("h"), 3: Dim("w")}
    x, offset, mask = torch.randn(2, 4, 8, 9), torch.randn(2, 18, 8, 9), torch.rand(2, 9, 8, 9)
    built(_Deformed(), x, offset, mask, dynamic=(sizes, sizes, sizes))
    built(_Deformed(groups=2, stride=2), x, torch.randn(2, 36, 4, 5), torch.rand(2, 18, 4, 5))


@pytest.mark.parametrize("ratio", [2, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(ratio, aligned):
    from torchvision.ops import roi_align

    boxes = torch.tensor([[0, 0.0, 4, 5], [2.0, 1, 7.5, 6.0], [-1, -1, 20, 20], [3, 3, 3, 3]])
    built(
        lambda x, b: roi_align(x, [b], (3, 2), 0.5, ratio, aligned),
        torch.randn(1, 4, 8, 9),
        boxes,
        dynamic=({2: Dim("h"), 3: Dim("w")}, {0: Dim("n")}),
    )


def test_fourier_transforms():
    window = torch.hann_window(16)
    built(lambda x: torch.fft.fft(x).abs(), torch.randn(3, 16), dynamic=({1: Dim("n")},))
    built(lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=15), torch.randn(3, 15), dynamic=(B,))
    built(lambda x: torch.fft.fft2(x).abs(), torch.randn(3, 8, 6))
    sizes = {0: Dim("b"), 1: Dim("t", min=17)}
    built(
        lambda x: torch.stft(x, 16, 4, window=window, return_complex=True).abs(), torch.randn(2, 90), dynamic=(sizes,)
    )


def test_elements_of_a_mask():
    built(lambda x: x[x[:, 0] > 0], torch.randn(6, 4), dynamic=(B,))
    built(lambda x: (x.nonzero(), x.masked_select(x > 0)), torch.randint(-1, 2, (2, 3, 4)))


def test_non_maximum_suppression():
    from torchvision.ops import nms

    corners = torch.rand(20, 2) * 10
    boxes, scores = torch.cat([corners, corners + torch.rand(20, 2) * 6], dim=1), torch.rand(20)
    n = {0: Dim("n")}
    counts = built(lambda b, s: nms(b, s, 0.5), boxes, scores)
    assert counts["Loop"] == 1 and "NonMaxSuppression" not in counts
    built(lambda b, s: b[nms(b[s > 0.3], s[s > 0.3], 0.5)], boxes, scores, dynamic=(n, n))


def test_images_in_the_places_of_tokens():
    tokens = torch.tensor([[3, 1, 3], [2, 3, 1]])
    counts = built(
        lambda x, t, y: x.masked_scatter((t == 3)[..., None].expand_as(x), y),
        torch.rand(2, 3, 4),
        tokens,
        torch.rand(3, 4),
        dynamic=(B, B, None),
    )
    assert "ScatterElements" not in counts


def test_a_row_for_all_elements_of_a_mask_on_a_branch():
    def model(x, m, y):
        return torch.cond(x.sum() > 0, lambda x, m, y: x.clone().index_put((m,), y), lambda x, m, y: x * 1, (x, m, y))

    assert built(model, torch.rand(6, 4), torch.rand(6) > 0.5, torch.rand(4))["If"] == 1


def test_experts():
    ends = torch.tensor([3, 3, 7, 9], dtype=torch.int32)
    built(lambda x, w, e: torch._grouped_mm(x, w, e), torch.rand(9, 16).half(), torch.rand(4, 16, 8).half(), ends)


def test_quantized_with_zero_points():
    def model(x):
        quantized = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.05, 3, 0, 255, torch.uint8)
        moved = quantized.reshape(2, 8)
        return torch.ops.quantized_decomposed.dequantize_per_tensor(moved, 0.05, 3, 0, 255, torch.uint8)

    import torch.ao.quantization.fx._decomposed

    built(model, torch.randn(4, 4))


def test_fix_builds_before_and_after(tmp_path, capsys):
    import onnx

    from opbridge.cli import main

    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (int64[1, n] y) { y = NonZero (x) }'
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    assert main(["fix", str(path), "--target", "tensorrt-rtx"]) == 0
    assert "builds the model, and rejected the original." in capsys.readouterr().out
    text = text.replace("NonZero", "Det").replace("float[4]", "float[4, 4]").replace("int64[1, n]", "float")
    onnx.save(onnx.parser.parse_model(text), path)
    assert main(["fix", str(path), "--target", "tensorrt-rtx"]) == 1
    assert "rejects the model. " in capsys.readouterr().out
