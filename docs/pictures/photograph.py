"""Photographs the pages for README.md and docs/: `make pictures`.

Real runs: swin_t is exported, and so is a model whose gelu is translated wrongly; operators are swept with three
exporters. Needs torchvision, playwright and the system's chromium.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import torch
import torchvision
from helpers import chromium
from onnxscript import opset20 as op

import opbridge
from opbridge.cli import main

HERE = Path(__file__).parent.absolute()

_FIND = """words => {
    const field = document.getElementById("find");
    field.value = words;
    field.dispatchEvent(new Event("input"));
    document.querySelector("#found button").click();
    field.value = "";
    document.getElementById("picture").scrollIntoView();
}"""
_SWEPT = ("linalg.*", "fft.*", "c*")


def photograph_all() -> None:
    """Makes the pages in a folder of its own, and the pictures beside this file."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name), chromium.browser() as browser:
        _export()
        _differ()
        _sweep()
        main(["targets", "--html", "targets.html"])
        _take(browser, "swin_t.html", "report.png", find="features.1.0.attn softmax")
        _take(browser, "swin_t.html", "report-dark.png", find="features.1.0.attn softmax", scheme="dark")
        _take(browser, "encoder.html", "report-difference.png", height=1500)
        _take(browser, "coverage.html", "coverage.png", row="wrong")
        _take(browser, "targets.html", "targets.png")


def _export() -> None:
    torch.manual_seed(0)
    model = torchvision.models.swin_t(weights=None).eval()
    inputs = (torch.randn(1, 3, 224, 224),)
    opbridge.export(model, inputs, "swin_t.onnx", dynamic_shapes="batch", report="swin_t.html")


_ENCODER = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, 4 * size)
        self.down = nn.Linear(4 * size, size)

    def forward(self, x):
        y = self.up(self.norm(x))
        y = nn.functional.gelu(y)
        return x + self.down(y)


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), Block(32), Block(32), nn.Linear(32, 3))
    return model.eval(), (torch.randn(5, 8),), {"dynamic_shapes": "batch"}
"""


def _differ() -> None:
    Path("encoder.py").write_text(_ENCODER)
    with opbridge.override():

        @opbridge.translation("aten::gelu")
        def gelu(self, approximate: str = "none"):
            return op.Relu(self)

        if main(["export", "encoder.py:build", "-o", "encoder.onnx", "--report", "encoder.html"]) != 1:
            raise AssertionError("the wrong translation was not found out")


def _sweep() -> None:
    files = [f"{exporter}.json" for exporter in ("opbridge", "torch", "torchscript")]
    patterns = [each for pattern in _SWEPT for each in ("--ops", pattern)]
    for file in files:
        main(["coverage", *patterns, "--samples", "1", "--exporter", Path(file).stem, "-o", file])
    main(["coverage", *files, "--html", "coverage.html"])


def _take(
    browser: object, page: str, name: str, *, find: str = "", row: str = "", height: int = 900, scheme: str = "light"
) -> None:
    """One picture of a page, with something searched for, or the first row opened that has a word."""
    with chromium.opened(browser, Path(page), width=1400, height=height, scheme=scheme) as found:
        assert not found.errors, found.errors
        if find:
            found.page.evaluate(_FIND, find)
        if row:
            found.page.locator(".rows .row", has_text=row).first.click()
        found.page.wait_for_timeout(300)
        found.page.screenshot(path=HERE / name)


if __name__ == "__main__":
    photograph_all()
