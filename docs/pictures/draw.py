"""Draws the pictures of docs/architecture.md: `python docs/pictures/draw.py`.

pipeline.svg    the stages and the values between them, as they stand below
layers.svg      the layers, as the contract in pyproject.toml has them

A test compares the files with what this draws.
"""

from __future__ import annotations

import textwrap
import tomllib
from html import escape
from pathlib import Path

__all__ = ["PICTURES", "layers", "layers_picture", "pipeline_picture"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src" / "opbridge"

# A value, or (a folder, what the stage does).
PIPELINE: list[str | tuple[str, str]] = [
    "a model, example inputs",
    ("capture", "the operators that the model calls, as a functional graph with source lines"),
    "Capture",
    ("plan", "a route for every operator, or the reason and the remedy; all missing operators are listed together"),
    "Plan",
    ("translate", "each node by its route; operators without a translation are decomposed"),
    "onnx_ir.Model",
    ("fit", "nodes for which the target has no kernel are rewritten or reported as missing"),
    "Program",
    ("save", "the file is written completely or not at all; large weights are external"),
    "model.onnx",
    ("verification", "random inputs run in PyTorch and in the runtime; the first operator that differs is named"),
    "Verification",
]

WORDS = {
    "cli": "the command line",
    "pages": "HTML pages and notebook output",
    "reports": "a model and its results as one HTML page",
    "coverage": "sweeps: which operators and models are exported correctly",
    "parts": "several models as one set of files",
    "recording": "exports from recorded calls",
    "tasks": "the inputs of a known task",
    "pipeline": "check and export: the stages in order",
    "stages": "the stages on a request, with their time and progress",
    "program": "the result of export: model, plan, verification",
    "profiling": "where the time of a file goes",
    "verification": "the last stage",
    "fixing": "verified repairs for targets",
    "precision": "casts to float16 and bfloat16",
    "conversion": "conversion to other opsets",
    "extraction": "cuts a part out of a file",
    "side_by_side": "comparison of two models",
    "save": "the fifth stage",
    "request": "what is asked of an export, checked and in groups for the stages",
    "torchscript": "the other capture method: torch's TorchScript exporter",
    "fit": "the fourth stage",
    "translate": "the third stage",
    "plan": "the second stage",
    "capture": "the first stage",
    "rules": "the rules of lint",
    "targets": "facts about targets",
    "runtimes": "sessions for ONNX files; independent of PyTorch",
    "kernels": "operators from C++",
    "symbolics": "symbolic functions",
    "nodes": "single-node operators",
    "translations": "registry and families",
    "onnx": "building ONNX: nodes, values, constants, schemas by opset",
    "graph": "properties of a captured graph: operators, promotion, decompositions",
    "model_support": "what is known of other packages' functions and caches",
    "base": "dtypes, routes, source lines, and torch's private interfaces",
    "errors": "opbridge's error classes",
}

STAGES = {"verification", "save", "fit", "translate", "plan", "capture", "torchscript"}
ABOVE = {
    "cli",
    "coverage",
    "parts",
    "recording",
    "request",
    "tasks",
    "pipeline",
    "stages",
    "program",
    "profiling",
    "pages",
}
COLOURS = {"above": "#ede7f6", "stage": "#e3f2fd", "below": "#f1f1f1", "value": "#ffffff"}
WIDTH = 680


def layers() -> list[list[str]]:
    """The layers from the highest to the lowest; folders of one layer do not import each other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["type"] == "layers")
    return [[name.strip() for name in layer.replace(":", "|").split("|")] for layer in contract["layers"]]


def box(x: float, y: float, width: float, height: float, colour: str, *, round_: int = 4) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_}" fill="{colour}" '
        'stroke="#607d8b"/>'
    )


def text(x: float, y: float, words: str, *, bold: bool = False, small: bool = False, middle: bool = False) -> str:
    style = f' font-size="{13 if small else 14}"'
    style += ' font-weight="bold"' if bold else ""
    style += ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:g}" y="{y:g}"{style}>{escape(words)}</text>'


def picture(title: str, height: float, shapes: list[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
            f'height="{height:g}" font-family="sans-serif" role="img">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0 0L8 4L0 8z" fill="#607d8b"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def pipeline_picture() -> str:
    """The stages from top to bottom."""
    shapes, y, middle = [], 10.0, 130.0
    for number, each in enumerate(PIPELINE):
        is_value = isinstance(each, str)
        height = 28 if is_value else 36
        if number:
            shapes.append(f'<path d="M{middle:g} {y:g}v16" stroke="#607d8b" fill="none" marker-end="url(#arrow)"/>')
            y += 17
        if isinstance(each, str):
            shapes += [box(10, y, 240, height, COLOURS["value"], round_=14), text(middle, y + 19, each, middle=True)]
        else:
            stage, what = each
            shapes += [
                box(30, y, 200, height, COLOURS["stage"]),
                text(middle, y + 23, f"{stage}/", bold=True, middle=True),
                *(
                    text(270, y + 15 + 17 * number, line, small=True)
                    for number, line in enumerate(textwrap.wrap(what, 62))
                ),
            ]
        y += height
    return picture("The pipeline: stages, and the values between them", y + 10, shapes)


def layers_picture() -> str:
    """The layers, the highest on top."""
    shapes, y = [], 10.0
    for layer in layers():
        is_crowded = len(layer) > 2  # the words stand below the names
        height = 52.0 if is_crowded else 34.0
        width = (WIDTH - 20 - 8 * (len(layer) - 1)) / len(layer)
        for number, name in enumerate(layer):
            x = 10 + number * (width + 8)
            kind = "above" if name in ABOVE else "stage" if name in STAGES else "below"
            is_folder = (SOURCE / name).is_dir()
            shapes += [
                box(x, y, width, height, COLOURS[kind]),
                text(x + 10, y + 22, f"{name}/" if is_folder else f"{name}.py", bold=True),
            ]
            words_x, words_y = (x + 10, y + 42) if is_crowded else (x + 140, y + 22)
            shapes.append(text(words_x, words_y, WORDS[name], small=True))
        y += height + 6
    return picture("The layers: each imports only from those below it", y + 4, shapes)


PICTURES = {"pipeline.svg": pipeline_picture, "layers.svg": layers_picture}


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (HERE / name).write_text(draw())
