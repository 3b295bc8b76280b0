from __future__ import annotations

import torch

from opbridge.capture.exported_programs import from_exported_program
from opbridge.graph.precision import coarsest, precisions


def test_the_coarsest_has_the_fewest_digits() -> None:
    assert coarsest([torch.float32, torch.bfloat16, torch.float16, torch.int8]) is torch.bfloat16
    assert coarsest([torch.float64, torch.complex64]) is torch.complex64
    assert coarsest([torch.int64, torch.bool, None]) is None


def outputs(model: torch.nn.Module, *args: torch.Tensor) -> list[torch.dtype | None]:
    graph = from_exported_program(torch.export.export(model, args))
    found = precisions(graph)
    return [found[leaf.node.name] for leaf in graph.outputs if leaf.node is not None]


def test_each_output_knows_what_it_went_through() -> None:
    class Mixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x * 2, (x.half() * 2).float(), x.double(), x.argmax()

    expected = [torch.float32, torch.float16, torch.float32, torch.float32]
    assert outputs(Mixed(), torch.randn(3)) == expected


def test_regions_and_branches_count() -> None:
    class Region(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            with torch.autocast("cpu", torch.bfloat16):
                y = (x @ x).float()
            return y + 1, x + 1

    assert outputs(Region(), torch.randn(3, 3)) == [torch.bfloat16, torch.float32]
