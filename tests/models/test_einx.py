"""Models that compute with einx, which makes code for the sizes that it is called with: they stay dynamic."""

from __future__ import annotations

import pytest
import torch

import opbridge

pytestmark = pytest.mark.slow
einx = pytest.importorskip("einx", reason="einx is no dependency of the tests")


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = torch.nn.Parameter(torch.randn(2, 7))
        self.codes = torch.nn.Parameter(torch.randn(2, 9, 7))

    def forward(self, x, mask):
        x = einx.where("b n, b n d, -> b n d", mask, x, 0.0)
        x = einx.add("b n d, s d -> (b s) n d", x, self.streams)
        x = einx.id("(b s) n d -> b (s n) d", x, b=mask.shape[0])
        chosen = einx.get_at("h [c] d, b n -> h b n d", self.codes, (x.sum(-1) > 0).long())
        return x, einx.sum("b n [d]", x), chosen


def test_sizes_stay_dynamic():
    given = torch.randn(3, 5, 7), torch.rand(3, 5) > 0.5
    shapes = ({0: "batch", 1: "n"}, {0: "batch", 1: "n"})
    for _ in range(2):  # the second time, einx has the functions in its cache
        program = opbridge.export(Mixed().eval(), given, dynamic_shapes=shapes)
        assert not program.plan.notes
        sizes = [[str(size) for size in value.shape] for value in program.model.graph.outputs]
        assert sizes == [["batch", "2*n", "7"], ["batch", "2*n"], ["2", "batch", "2*n", "7"]]


class Flat(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = torch.nn.Parameter(torch.randn(9, 3))

    def forward(self, x):
        rows = einx.id("b h w d -> (b h w) d", x)
        chosen = einx.get_at("[c] d, (b n) -> b n d", self.codes, (rows.sum(-1) > 0).long(), b=x.shape[0])
        return einx.sum("[r] d", rows), chosen, einx.mean("b [h w] d", x)


def test_products_of_many_sizes():
    shapes = ({0: "a", 1: "b", 2: "c", 3: "d"},)
    program = opbridge.export(Flat().eval(), (torch.randn(2, 3, 4, 5),), dynamic_shapes=shapes)
    first, second, third = map(str, program.model.graph.outputs[1].shape)
    assert (first, sorted(second), third) == ("a", sorted("b*c"), "3")


class Parted(torch.nn.Module):
    def forward(self, x):
        return einx.id("b (n + m) -> b n, b m", x, m=2)


def test_a_difference_of_sizes_fixes_them():
    with pytest.raises(opbridge.CaptureError, match="it requires n == 5"):
        opbridge.export(Parted(), (torch.randn(3, 5),), dynamic_shapes=({1: "n"},))
