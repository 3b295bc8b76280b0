"""Pages: how large reports are, and how soon they can be used, in headless Chromium.

    python bench/pages.py

A report of swin_t, one of a captured model of 10,000 calls, and one of 10,000 ONNX nodes; a page of 10,000 operators.
Needs torchvision, playwright and the system's chromium.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx
import torch
import torchvision
from results import table, write_section

import opbridge
from opbridge.pages import rendering, writing

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers import chromium

_TURNS = 5
_LAYERS = 1000


def main() -> None:
    """Makes the pages, opens each several times, and writes what that took."""
    with tempfile.TemporaryDirectory() as name, chromium.browser() as browser:
        folder = Path(name)
        rows = [
            _row(browser, "report of an export: swin_t", _swin(folder), "2 MB, 1 s"),
            _row(browser, "report of an export: 10,000 calls in 1,000 modules", _captured(folder), "15 MB, 3 s"),
            _row(browser, "report of lint: 10,000 nodes in 1,000 modules", _large(folder, nested=True), "15 MB, 3 s"),
            _row(browser, "report of lint: 10,000 nodes in one module", _large(folder, nested=False), "15 MB, 3 s"),
            _row(browser, "page of 10,000 operators of two exporters", _operators(folder), "1 s"),
        ]
    body = table(("page", "nodes or rows", "size", "until it can be used", "asked for"), rows)
    write_section("pages", "Pages", f"{_INTRODUCTION}\n\n{body}")


_INTRODUCTION = (
    f"Each page is opened as a file {_TURNS} times in headless Chromium; the median, from the start of loading until"
    " the picture is drawn and the tables are filled."
)


def _row(browser: Any, name: str, page: tuple[Path, int], asked: str) -> tuple[str, ...]:
    path, count = page
    seconds = []
    for _ in range(_TURNS):
        with chromium.opened(browser, path) as found:
            assert not found.errors and not found.requests, (name, found.errors, found.requests)
            seconds.append(found.seconds)
    return name, f"{count:,}", f"{path.stat().st_size / 1e6:.2f} MB", f"{statistics.median(seconds):.2f} s", asked


def _swin(folder: Path) -> tuple[Path, int]:
    torch.manual_seed(0)
    model = torchvision.models.swin_t(weights=None).eval()
    inputs = (torch.randn(1, 3, 224, 224),)
    path = folder / "swin.html"
    program = opbridge.export(model, inputs, folder / "swin.onnx", dynamic_shapes="batch", report=path)
    return path, sum(row.count for row in program.plan.rows)


class _Block(torch.nn.Module):
    """Ten operators."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((64,), 0.01))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        y = torch.sin(y)
        y = torch.exp(-y)
        y = torch.sigmoid(y)
        y = torch.cos(y).abs()
        y = torch.relu(y) * self.scale
        return x + y


def _captured(folder: Path) -> tuple[Path, int]:
    stages = (torch.nn.Sequential(*(_Block() for _ in range(100))) for _ in range(_LAYERS // 100))
    model = torch.nn.Sequential(*stages).eval()
    path = folder / "captured.html"
    program = opbridge.export(model, (torch.randn(2, 64),), dynamic_shapes="batch", report=path)
    return path, sum(row.count for row in program.plan.rows)


def _large(folder: Path, nested: bool) -> tuple[Path, int]:
    nodes = []
    for layer in range(_LAYERS):
        scope = f"/stage{layer // 100}/block{layer}/" if nested else ""
        for step, operator in enumerate(("Relu", "Neg", "Abs", "Exp", "Sigmoid", "Tanh", "Sqrt", "Floor", "Ceil")):
            before = f"v{layer}_{step}"
            nodes.append(
                onnx.helper.make_node(operator, [before], [f"v{layer}_{step + 1}"], name=f"{scope}{operator}_{layer}")
            )
        both = [f"v{layer}_9", f"v{layer}_0"]
        nodes.append(onnx.helper.make_node("Add", both, [f"v{layer + 1}_0"], name=f"{scope}Add_{layer}"))
    ends = [
        onnx.helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, ["n", 64])
        for each in ("v0_0", f"v{_LAYERS}_0")
    ]
    graph = onnx.helper.make_graph(nodes, "large", ends[:1], ends[1:])
    file = folder / "large.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), file)
    path = folder / f"large_{nested}.html"
    opbridge.lint(file, report=path)
    return path, len(nodes)


def _operators(folder: Path) -> tuple[Path, int]:
    def cell(number: int) -> dict[str, Any]:
        state = "wrong" if number % 9 == 0 else "pass"
        told = [{"l": "float32, sample 0", "s": state, "m": f"operator {number} differs by {number / 7:.5f}", "o": ""}]
        return {"s": state, "r": "standard", "m": "", "k": "deterministic", "d": {"float32": state}, "p": "", "t": told}

    column = {
        "name": "exporter",
        "release": "1.0",
        "title": "",
        "share": 0.9,
        "line": "",
        "counts": {},
        "versions": {},
        "file": "",
    }
    document = {
        "kind": "coverage",
        "title": "Operators",
        "what": "operator",
        "groups": "family",
        "states": [["pass", "good"], ["wrong", "bad"]],
        "columns": [column, column],
        "rows": [{"n": f"op_{i}", "g": f"family {i % 12}", "c": [cell(i), cell(i + 1)]} for i in range(10_000)],
    }
    path = folder / "operators.html"
    writing.write(path, rendering.render("matrix.html", document))
    return path, 10_000


if __name__ == "__main__":
    main()
