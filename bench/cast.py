"""float32 files in float16 by opbridge, by onnxconverter-common and by ONNX Runtime's transformers tools, side by side.

Every file is judged in the same way: valid are those that ONNX's checker and its strict inference of types accept and
ONNX Runtime loads. The error is that of the worst output, as the RMS of the difference relative to the RMS of the
output, with every value of float16 rounded to it, on random inputs; accurate are those with an error of at most 1e-2.

    python bench/cast.py                         # models and reported graphs: two tables in RESULTS.md
    python bench/cast.py --only reported         # the graphs alone
    python bench/cast.py --models resnet50 BERT  # some models, whose rows are put into the table
    python bench/cast.py --only models --missing # those that have no row of this commit's files yet
    python bench/cast.py --tools opbridge        # one tool; the cells of the others stay as they are
    python bench/cast.py --only models --largest # the 30 models of torchvision with the most parameters

The table is written after each model, so that a run that ends early can be continued with --missing.

onnxconverter-common is no dependency: `pip install onnxconverter-common`, or its columns say that it is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import half
import models
import numpy as np
import onnx
import onnx_ir as ir
import torch
import torchvision
from cast_reported import REPORTED
from results import commit, merged, rows_of, table, write_section

import opbridge
from opbridge.conversion.converting import without_weights
from opbridge.conversion.types import Types, inferred
from opbridge.precision.emulating import emulated
from opbridge.precision.feeding import Expected, expected, given_to, opened
from opbridge.precision.formats import FLOAT16
from opbridge.precision.judging import apart
from opbridge.precision.types import graphs
from opbridge.save import writer

TOLERANCE = 1e-2

IMAGES = (
    *("efficientnet_v2_s", "efficientnet_b3", "regnet_y_8gf", "mobilenet_v3_large", "mnasnet1_3", "googlenet"),
    *("inception_v3", "vgg16", "wide_resnet50_2", "resnext50_32x4d", "shufflenet_v2_x2_0", "squeezenet1_1"),
    *(
        "convnext_small",
        "swin_v2_t",
        "vit_b_32",
        "maxvit_t",
        "deeplabv3_resnet50",
        "fcn_resnet50",
        "lraspp_mobilenet_v3_large",
    ),
    *("alexnet", "resnet18", "resnet101", "vgg11_bn", "densenet169", "efficientnet_b0", "efficientnet_b4"),
    *("mobilenet_v2", "mobilenet_v3_small", "mnasnet0_5", "regnet_x_3_2gf", "regnet_y_400mf", "shufflenet_v2_x0_5"),
    *("squeezenet1_0", "swin_s", "swin_v2_s", "resnext101_32x8d"),
)
"""Models of torchvision, beside those of every measurement."""

TEXTS = ("Bert", "Roberta", "DistilBert", "Electra", "Albert", "GPT2", "MPNet", "SqueezeBert", "OPT", "Bloom")
TEXTS += ("Camembert", "XLMRoberta", "GPTNeo", "MobileBert", "Ernie", "RoFormer", "ConvBert", "LayoutLM")
"""Models of transformers in the sizes of their configurations, with random weights."""

NAMES = (*models.NAMES, "BERT", "Llama", *IMAGES, *TEXTS)


@dataclass(frozen=True)
class Judged:
    """What became of a file.

    Attributes:
        valid: Whether it can be loaded.
        error: The error of the worst output; None where it does not run.
        wide: The nodes with outputs of float32.
        size: Its bytes relative to those of the float32 file.
        seconds: How long it took.
        why: What is wrong.
    """

    valid: bool
    error: float | None = None
    wide: int = 0
    size: float = 0.0
    seconds: float = 0.0
    why: str = ""

    @property
    def accurate(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error is not None and self.error <= TOLERANCE

    def cells(self) -> list[str]:
        """The columns of a table."""
        if not self.valid:
            return ["no", "", "", ""]
        error = "does not run" if self.error is None else f"{self.error:.1e}"
        return ["yes", error if self.accurate else f"**{error}**", str(self.wide), f"{self.size:.0%}"]


def by_opbridge(source: Path, target: Path) -> None:
    opbridge.cast(source, "float16", target)


def by_onnxconverter(source: Path, target: Path) -> None:
    from onnxconverter_common import float16

    onnx.save(float16.convert_float_to_float16(onnx.load(source)), target)


def by_onnxruntime(source: Path, target: Path) -> None:
    from onnxruntime.transformers import float16

    onnx.save(float16.convert_float_to_float16(onnx.load(source)), target)


def by_mixed_precision(source: Path, target: Path) -> None:
    from onnxconverter_common import auto_mixed_precision

    want = expected(str(source), ir.load(source), None, None)

    def close(one: Any, other: Any) -> bool:
        return all(apart(*pair).error <= TOLERANCE for pair in zip(one, other, strict=True))

    made = auto_mixed_precision.auto_convert_mixed_precision(
        onnx.load(source), want.feeds[0], close, keep_io_types=True
    )
    onnx.save(made, target)


TOOLS: dict[str, Callable[[Path, Path], None]] = {
    "opbridge": by_opbridge,
    "onnxconverter-common": by_onnxconverter,
    "onnxruntime.transformers": by_onnxruntime,
}

MIXED = {**TOOLS, "auto_mixed_precision": by_mixed_precision}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=["models", "reported"], help="one of the two tables (both)")
    parser.add_argument("--models", nargs="*", help="these models (all)")
    parser.add_argument(
        "--missing", action="store_true", help="only models whose row is of no commit, or that have none"
    )
    parser.add_argument("--largest", action="store_true", help="the largest of torchvision, the smallest first")
    parser.add_argument("--tools", nargs="*", choices=list(TOOLS), default=list(TOOLS), help="these tools (all)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further model after this time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if options.only != "models" and not options.models:
        reported()
    if options.only != "reported":
        names = list(options.models or (half.largest() if options.largest else NAMES))
        if options.missing:
            have = {row[0] for row in earlier() if row[-1] != _EARLIER}
            names = [each for each in names if each not in have]
        of_models(names, options.tools, options.seconds)


def reported() -> None:
    """The table of graphs that were reported."""
    rows = []
    for each in REPORTED:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "model.onnx"
            model = onnx.parser.parse_model(each.text)
            _name(model.graph, "")
            onnx.save(model, source)
            found = [judged(tool, source, Path(folder) / f"{at}.onnx") for at, tool in enumerate(MIXED.values())]
        row = [f"{each.report}: {each.what}", *(_outcome(one) for one in found)]
        print(" | ".join(row), [one.why for one in found], flush=True)
        rows.append(row)
    right = ["right", *(str(sum(row[at] == "right" for row in rows)) for at in range(1, len(MIXED) + 1))]
    body = table(["graph of a report", *MIXED], [*rows, right])
    write_section("cast_reported", "Reported graphs in float16", body)


def _name(graph: onnx.GraphProto, prefix: str) -> None:
    """Gives nodes names, which some tools tell them by."""
    for at, node in enumerate(graph.node):
        node.name = f"{prefix}{node.op_type}_{at}"
        for attribute in node.attribute:
            if attribute.type == attribute.GRAPH:
                _name(attribute.g, f"{node.name}_{attribute.name}_")


def _outcome(found: Judged) -> str:
    if not found.valid:
        return "missing" if found.why.startswith("ModuleNotFoundError") else "invalid"
    return "right" if found.accurate else "wrong"


_EARLIER = "earlier"
_COLUMNS = [
    f"{tool}: valid" if not at else text for tool in TOOLS for at, text in enumerate(("", "error", "float32", "size"))
]
_HEADER = ["model", *_COLUMNS, "commit"]


def earlier() -> list[list[str]]:
    """The rows of earlier runs."""
    return [[*row, *[_EARLIER] * (len(_HEADER) - len(row))] for row in rows_of("cast", "model")]


def of_models(names: list[str], tools: list[str], seconds: float) -> None:
    """The table of models, of those that are begun within some seconds."""
    begin = time.perf_counter()
    for at_model, name in enumerate(names):
        if time.perf_counter() - begin > seconds:
            print("not reached:", ", ".join(names[at_model:]))
            break
        have = {row[0]: row for row in earlier()}
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "model.onnx"
            try:
                exported(name, source)
            except Exception as error:
                print(name, "is not exported:", str(error)[:200], flush=True)
                continue
            cells = []
            for at, (tool, cast) in enumerate(TOOLS.items()):
                if tool not in tools:
                    cells += have[name][1 + 4 * at : 5 + 4 * at] if name in have else [""] * 4
                    continue
                found = judged(cast, source, Path(folder) / f"{at}.onnx")
                print(name, tool, found, flush=True)
                cells += found.cells()
        write([[name, *cells, commit()]])


def write(rows: list[list[str]]) -> None:
    """Puts rows into the table, beside those of earlier runs."""
    every = merged(earlier(), rows)
    said = "; ".join(_total(tool, [row[1 + 4 * at : 5 + 4 * at] for row in every]) for at, tool in enumerate(TOOLS))
    told = (
        f"{said}. `float32` counts the nodes with outputs of float32; errors above 1e-2 are bold. A row is of the "
        "commit that it names, as far as opbridge goes; the command above is the last one. Weights are random, "
        "which is not what trained models have: some values are too small for float16. Heads that are initialized "
        "with zeros are drawn. The largest models of torchvision that are in no other list have images as small as the "
        "sweep's. opbridge leaves outputs in float32 that float16 represents poorly; the other tools were called with "
        "their defaults, which cast them."
    )
    write_section("cast", "Models in float16", f"{told}\n\n{table(_HEADER, every)}")


def _total(tool: str, cells: list[list[str]]) -> str:
    """How many files of a tool are valid and accurate."""
    tried = [each for each in cells if each[0]]
    valid = sum(each[0] == "yes" for each in tried)
    accurate = sum(each[0] == "yes" and not each[1].startswith(("**", "does not")) for each in tried)
    return f"{tool}: {valid} of {len(tried)} valid, {accurate} accurate"


def exported(name: str, target: Path) -> None:
    """Exports a model to a float32 file."""
    torch.manual_seed(0)
    kwargs: dict[str, Any] = {}
    if name in IMAGES:
        model = torchvision.models.get_model(
            name,
            weights=None,
            **({"weights_backbone": None} if name.startswith(("deeplabv3", "fcn", "lraspp")) else {}),
        ).eval()
        size = 299 if name == "inception_v3" else 224
        args: tuple[Any, ...] = (torch.randn(1, 3, size, size),)
    elif name in TEXTS:
        import transformers

        model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")()).eval()
        model.config.use_cache = False
        args, kwargs = (), {"input_ids": torch.randint(3, 900, (1, 32))}
    else:
        model, args, kwargs = half.built(name, torch.float32)
    for parameter in model.parameters():  # of heads that begin at 0, so that the output is not 0
        if parameter.ndim > 1 and not bool(parameter.any()):
            torch.nn.init.normal_(parameter, std=0.02)
    with contextlib.redirect_stdout(io.StringIO()):
        opbridge.export(model, args, target, kwargs=kwargs, verify=False)


def judged(cast: Callable[[Path, Path], None], source: Path, target: Path) -> Judged:
    """A file cast by a tool, judged."""
    begin = time.perf_counter()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            cast(source, target)
    except Exception as error:  # a tool raises anything
        return Judged(False, why=f"{type(error).__name__}: {error}"[:200])
    seconds = time.perf_counter() - begin
    try:
        model = ir.load(target)
        light = without_weights(model)
        onnx.checker.check_model(str(target))
        onnx.shape_inference.infer_shapes(light, check_type=True, strict_mode=True)
    except Exception as error:
        return Judged(False, seconds=seconds, why=f"{type(error).__name__}: {error}"[:200])
    types = Types(model, inferred(light))
    made = [value for graph in graphs(model.graph) for node in graph for value in node.outputs]
    given = [value for graph in graphs(model.graph) for value in (*graph.inputs, *graph.initializers.values())]
    narrow = {value for value in (*made, *given) if types.dtype(value) == ir.DataType.FLOAT16}
    wide = sum(
        any(types.dtype(value) == ir.DataType.FLOAT for value in node.outputs)
        for graph in graphs(model.graph)
        for node in graph
        if node.op_type not in ("Cast", "Constant")
    )
    size = _bytes(target) / _bytes(source)
    want = expected(str(source), ir.load(source), None, FLOAT16)
    try:
        errors = [error_of(target, want)]
        rounded = target.with_suffix(".rounded.onnx")
        writer.save(emulated(model, FLOAT16, narrow), rounded)
        errors.append(error_of(rounded, want))
    except opbridge.OpbridgeError as error:
        loads = isinstance(error, opbridge.RunError)
        return Judged(loads, None, wide, size, seconds, f"{type(error).__name__}: {error}"[:200])
    return Judged(True, max(errors), wide, size, seconds)


def _bytes(file: Path) -> int:
    """The size of a file with its external data."""
    return sum(each.stat().st_size for each in file.parent.glob(f"{file.name}*"))


def error_of(file: Path, want: Expected) -> float:
    """The error of the worst output."""
    worst = 0.0
    with opened(file) as session:
        for feeds, outputs in zip(want.feeds, want.outputs, strict=True):
            have = session.run(None, given_to(session, feeds))
            worst = max(worst, *(apart(*pair).error for pair in zip(outputs, have, strict=True)))
    return float(np.float64(worst))


if __name__ == "__main__":
    main()
