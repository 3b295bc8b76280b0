"""Photographs the pages for README.md and docs/: `make pictures`.

Real runs: swin_t is exported, and so is a model whose gelu is translated wrongly; operators are swept with three
exporters; models are compared with the stock exporter; each example of examples/ that exports is run, for the guides.
Needs torchvision, playwright, pillow and the system's chromium.

    python docs/pictures/photograph.py [NAME ...]

takes the reports of these examples alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torchvision
from helpers import chromium
from onnxscript import opset20 as op
from PIL import Image

import opbridge
from opbridge.cli import main

HERE = Path(__file__).parent.absolute()
EXAMPLES = HERE.parents[1] / "examples"
REPORTS = HERE / "reports"

_FIND = """words => {
    const field = document.getElementById("find");
    field.value = words;
    field.dispatchEvent(new Event("input"));
    document.querySelector("#found button").click();
    field.value = "";
    document.getElementById("picture").scrollIntoView();
}"""
# Chooses the first operator that became no standard node, or that is not PyTorch's own, or the first one.
_SHOW_THE_SPECIAL = """async () => {
    const rows = (await page.data()).plan?.operators;
    if (!rows) return; // of a set, which begins with all parts
    const row = rows.find((each) => each.route !== "standard")
        || rows.find((each) => !each.operator.startsWith("aten::")) || rows[0];
    const field = document.getElementById("find");
    field.value = row.operator;
    field.dispatchEvent(new Event("input"));
    document.querySelector("#found button").click();
    field.value = "";
    scrollTo(0, 0);
}"""
_SWEPT = ("linalg.*", "fft.*", "c*")
_SWEPT_MODELS = ("mnasnet0_5", "shufflenet_v2_x0_5", "squeezenet1_1")


def photograph_all() -> None:
    """Makes the pages in a folder of its own, and the pictures beside this file."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name), chromium.browser() as browser:
        _export()
        _differ()
        _sweep()
        _sweep_models()
        main(["targets", "--html", "targets.html"])
        main(["export", f"{EXAMPLES / 'encoder_decoder.py'}:build", "-o", "translator", "--report", "set.html"])
        _take(browser, "set.html", "report-set.png")
        _take(browser, "swin_t.html", "report.png", find="features.1.0.attn softmax")
        _take(browser, "swin_t.html", "report-dark.png", find="features.1.0.attn softmax", scheme="dark")
        _take(browser, "encoder.html", "report-difference.png", height=1500)
        _take(browser, "coverage.html", "coverage.png", row="wrong")
        _take(browser, "models.html", "models.png", row="pass")
        _take(browser, "targets.html", "targets.png")


def photograph_reports(names: list[str]) -> None:
    """Runs examples, all of them by default, and takes the top of their reports."""
    REPORTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium.browser() as browser:
        shutil.copytree(EXAMPLES, Path(folder, "examples"))  # whose names are then short in the pictures
        for name in names or sorted(path.stem for path in EXAMPLES.glob("*.py")):
            page = Path(folder, f"{name}.html")
            command = [sys.executable, HERE / "reports_of_examples.py", f"examples/{name}.py", page]
            subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, env=_environment())
            if not page.exists():
                print(f"{name}: exports no model")
                continue
            with chromium.opened(browser, page, width=1200, height=960) as found:
                assert not found.errors, (name, found.errors)
                found.page.evaluate(_SHOW_THE_SPECIAL)
                found.page.wait_for_timeout(300)
                taken = Image.open(io.BytesIO(found.page.screenshot()))
            few = taken.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
            few.save(REPORTS / f"{name}.png", optimize=True)
            print(f"{name}: {(REPORTS / f'{name}.png').stat().st_size / 1000:.0f} kB", flush=True)


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1] / "src")}


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


def _sweep_models() -> None:
    files = [f"models-{exporter}.json" for exporter in ("opbridge", "torch")]
    patterns = [each for pattern in _SWEPT_MODELS for each in ("--name", pattern)]
    for file in files:
        exporter = Path(file).stem.removeprefix("models-")
        main(["models", "--family", "torchvision", *patterns, "--dynamic", "all", "--exporter", exporter, "-o", file])
    main(["models", *files, "--html", "models.html"])


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
    if not sys.argv[1:]:
        photograph_all()
    photograph_reports(sys.argv[1:])
