"""The pages that the tests open: one of each kind, from real runs."""

from __future__ import annotations

import json

import onnx
import pytest
import torch
from helpers import chromium
from helpers.chromium import browser

import opbridge
from opbridge.cli import main

SWEEP = {
    "format": 1,
    "versions": {"opbridge": "0.1.0", "torch": "2.15.0"},
    "settings": {"exporter": "opbridge", "runtime": "onnxruntime"},
    "summary": {},
}


@pytest.fixture(scope="session")
def running():
    """A browser."""
    if why := chromium.why_not():
        pytest.skip(why)
    with browser() as found:
        yield found


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(), Block())
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        x = self.blocks(x)
        if x.sum() > 0:
            x = x * 2
        return self.head(x), x.mean()


def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(5, 8),), {"dynamic_shapes": ({0: "batch"},)}


def wrong_export(folder):
    """The report of an export whose gelu is wrong."""
    from onnxscript import opset20 as op

    model, args, keywords = net()
    with opbridge.override():

        @opbridge.translation("aten::gelu")
        def gelu(self, approximate: str = "none"):
            return op.Relu(self)

        with pytest.raises(opbridge.VerificationError) as caught:
            opbridge.export(model, args, folder / "wrong.onnx", report=folder / "wrong.html", **keywords)
    assert caught.value.report == folder / "wrong.html"


def results(exporter: str, outcomes: dict[str, str], name: str = "operator") -> dict:
    """The file of a sweep over operators."""
    samples = [
        {
            "operator": operator,
            "variant": "",
            "dtype": "float32",
            "index": 0,
            "outcome": outcome,
            "message": "" if outcome == "pass" else f"{operator} </script><b>differs</b>",
            "kind": "deterministic",
            "route": "standard" if outcome == "pass" else None,
            "onnx": "" if outcome != "wrong" else "agraph (float x) => (float y) { y = Relu(x) }",
        }
        for operator, outcome in outcomes.items()
    ]
    operators = [
        {key: each[key] for key in ("operator", "variant", "outcome", "message", "kind", "route")} for each in samples
    ]
    settings = SWEEP["settings"] | {"exporter": exporter}
    return SWEEP | {"settings": settings, "operators": operators, "samples": samples}


def models_results() -> dict:
    row = {
        "family": "torchvision",
        "outcome": "pass",
        "message": "",
        "cause": "",
        "capture": "direct",
        "routes": {"standard": 9},
        "missing": [],
        "nodes": 120,
        "notes": [],
        "timings": {"export": 1.5},
    }
    failed = {"outcome": "export error", "message": "It stops.", "cause": "CaptureError", "timings": {}, "nodes": None}
    rows = [row | {"model": "resnet18"}, row | {"model": "swin_t", **failed}]
    return SWEEP | {"families": [], "models": rows}


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """The path of a page of each kind, by its name."""
    folder = tmp_path_factory.mktemp("pages")
    model, args, keywords = net()
    opbridge.export(model, args, folder / "net.onnx", report=folder / "export.html", **keywords)
    wrong_export(folder)
    opbridge.check(lambda x: torch.linalg.eigvals(x).real.cumsum(0), (torch.randn(4, 4),), report=folder / "check.html")
    opbridge.verify(
        folder / "net.onnx", model, args, runtime=["onnxruntime", "reference"], report=folder / "verify.html"
    )
    opbridge.lint(folder / "net.onnx", "tensorrt:8.5", report=folder / "lint.html")
    opbridge.fix(folder / "net.onnx", "tensorrt:8.5", folder / "fixed.onnx", report=folder / "fix.html")
    opbridge.profile(folder / "net.onnx", model, args, runs=2, threads=1, html=folder / "profile.html")
    parts = opbridge.Parts({"head": (model.head, (torch.randn(2, 8),)), "net": (model, args, keywords)})
    parts.export(folder / "set", report=folder / "set.html")
    flat = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], name=f"relu_{i}") for i in range(3000)],
        "flat",
        [onnx.helper.make_tensor_value_info("v0", onnx.TensorProto.FLOAT, [4])],
        [onnx.helper.make_tensor_value_info("v3000", onnx.TensorProto.FLOAT, [4])],
    )
    onnx.save(
        onnx.helper.make_model(flat, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        folder / "flat.onnx",
    )
    opbridge.lint(folder / "flat.onnx", report=folder / "flat.html")
    many = {f"op_{i}": "wrong" if i % 7 == 0 else "pass" for i in range(10_000)}
    (folder / "ours.json").write_text(json.dumps(results("opbridge", many)))
    (folder / "theirs.json").write_text(json.dumps(results("torch", {f"op_{i}": "pass" for i in range(0, 10_000, 2)})))
    (folder / "models.json").write_text(json.dumps(models_results()))
    said = [
        main(
            [
                "coverage",
                str(folder / "ours.json"),
                str(folder / "theirs.json"),
                "--html",
                str(folder / "coverage.html"),
            ]
        ),
        main(["models", str(folder / "models.json"), "--html", str(folder / "models.html")]),
        main(["targets", "--html", str(folder / "targets.html")]),
    ]
    assert said == [0, 0, 0]
    return {path.stem: path for path in sorted(folder.glob("*.html"))}
