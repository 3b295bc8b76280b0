"""Photographs the pages for README.md and docs/: `make pictures`.

Real runs: swin_t is exported, and so is a model whose gelu is translated wrongly; operators are swept with three
exporters. Needs torchvision, playwright and the system's chromium.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import torchvision
from helpers import chromium
from onnxscript import opset20 as op

import opbridge
from opbridge.cli import main

HERE = Path(__file__).parent

_FIND = """words => {
    const field = document.getElementById("find");
    field.value = words;
    field.dispatchEvent(new Event("input"));
    document.querySelector("#found button").click();
    field.value = "";
    document.getElementById("picture").scrollIntoView();
}"""
_SWEPT = ("linalg.*", "nn.functional.[a-h]*", "c*", "fft.*")


def photograph_all() -> None:
    """Makes the pages in a folder of its own, and the pictures beside this file."""
    with tempfile.TemporaryDirectory() as name, chromium.browser() as browser:
        folder = Path(name)
        _export(folder)
        _differ(folder)
        _sweep(folder)
        main(["targets", "--html", str(folder / "targets.html")])
        _take(browser, folder / "swin.html", "report.png", find="features.1.0.attn softmax")
        _take(browser, folder / "swin.html", "report-top.png", height=1060)
        _take(browser, folder / "swin.html", "report-dark.png", find="features.1.0.attn softmax", scheme="dark")
        _take(browser, folder / "wrong.html", "report-difference.png", height=1500)
        _take(browser, folder / "coverage.html", "coverage.png", row="wrong")
        _take(browser, folder / "targets.html", "targets.png")


def _export(folder: Path) -> None:
    torch.manual_seed(0)
    model = torchvision.models.swin_t(weights=None).eval()
    inputs = (torch.randn(1, 3, 224, 224),)
    opbridge.export(model, inputs, folder / "swin_t.onnx", dynamic_shapes="batch", report=folder / "swin.html")


def _differ(folder: Path) -> None:
    torch.manual_seed(0)
    layers = torch.nn.TransformerEncoderLayer(32, 4, activation="gelu", batch_first=True)
    model = torch.nn.TransformerEncoder(layers, 2, enable_nested_tensor=False).eval()
    with opbridge.override():

        @opbridge.translation("aten::gelu")
        def gelu(self, approximate: str = "none"):
            return op.Relu(self)

        try:
            opbridge.export(model, (torch.randn(2, 7, 32),), folder / "encoder.onnx", report=folder / "wrong.html")
        except opbridge.VerificationError:
            return
    raise AssertionError("the wrong translation was not found out")


def _sweep(folder: Path) -> None:
    files = []
    for exporter in ("opbridge", "torch", "torchscript"):
        files.append(str(folder / f"{exporter}.json"))
        patterns = [each for pattern in _SWEPT for each in ("--ops", pattern)]
        main(["coverage", *patterns, "--samples", "1", "--exporter", exporter, "-o", files[-1]])
    main(["coverage", *files, "--html", str(folder / "coverage.html")])


def _take(
    browser: object, page: Path, name: str, *, find: str = "", row: str = "", height: int = 900, scheme: str = "light"
) -> None:
    """One picture of a page, with something searched for, or the first row opened that has a word."""
    with chromium.opened(browser, page, width=1400, height=height, scheme=scheme) as found:
        assert not found.errors, found.errors
        if find:
            found.page.evaluate(_FIND, find)
        if row:
            found.page.locator(".rows .row", has_text=row).first.click()
        found.page.wait_for_timeout(300)
        found.page.screenshot(path=HERE / name)


if __name__ == "__main__":
    photograph_all()
