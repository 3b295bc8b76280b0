"""Models in half precision: the Casts in their files, whether they are verified, and their latency.

Casts: those between floating types in the file that the model does not have itself, and those that it has
(`x.float()`, autocast, a dtype= argument). A Cast of a mask or an index is none of them.
float16 is exported for ONNX Runtime, bfloat16 for TensorRT 10.15, which has bfloat16.
Latency: on the CPU, where ONNX Runtime computes most of float16 in float32, beside the file of torch.onnx's default
exporter; both sessions in one process, in turns, after a warm-up; medians. Both sessions are made by opbridge.session,
as a plain one may end the process on the other exporter's file (MatmulTransposeFusion).

    python bench/half.py                             # everything
    python bench/half.py --models vgg11 --seconds 600  # some, for ten minutes; their rows are put into the tables
    python bench/half.py --missing                   # those that have no row yet, the smallest first
    python bench/half.py --quick                     # two models, nothing written

The section is written after each model, so that a run that ends early can be continued with --missing.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import logging
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import latency_models
import models
import numpy
import onnx_ir as ir
import torch
from results import commit, interleaved, median, merged, rows_of, table, write_section
from torch.utils._pytree import tree_map_only

import opbridge
from opbridge.coverage.models.catalogue import entries_of

NAMES = (
    *models.NAMES,
    *("alexnet", "vgg11", "googlenet", "inception_v3", "squeezenet1_0", "mobilenet_v2", "mobilenet_v3_large"),
    *("shufflenet_v2_x1_0", "mnasnet1_0", "regnet_y_400mf", "efficientnet_b0", "efficientnet_v2_s"),
    *("swin_v2_t", "maxvit_t", "resnext50_32x4d", "wide_resnet50_2", "fcn_resnet50", "deeplabv3_resnet50"),
    *("lraspp_mobilenet_v3_large", "r3d_18", "mvit_v2_s", "BERT", "Llama"),
    *(each for each in latency_models.MODELS if each not in (*models.NAMES, "BERT", "efficientnet_b0")),
)
LARGEST = 30
"""So many of the models of `opbridge models torchvision` are tried besides: those with the most parameters."""

TIMED = (*latency_models.MODELS, "Llama", "mobilenet_v3_large", "googlenet", "inception_v3")
TARGETS = {torch.float16: None, torch.bfloat16: "tensorrt:10.15"}
_VIDEO = ("r3d_18", "mvit_v2_s")
_SEGMENTATION = ("fcn_resnet50", "deeplabv3_resnet50", "lraspp_mobilenet_v3_large")


_MODEL = "model"
_HEADER = [_MODEL, *("float16: nodes", "Casts added, of the model", "verified"), "bfloat16: nodes"]
_HEADER += ["Casts added, of the model", "verified", "commit"]
_TIMES = "float16, one run on the CPU, ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two models; nothing is written")
    parser.add_argument("--runs", type=int, default=20, help="timed runs of each (20)")
    parser.add_argument("--models", nargs="*", help="these models (all)")
    parser.add_argument("--missing", action="store_true", help="only models without a row, the smallest first")
    parser.add_argument("--only", choices=["casts", "times"], help="one of the two tables (both)")
    parser.add_argument("--timed", nargs="*", default=list(TIMED), help="models to time, if they are tried")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further model after this time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    names = ["resnet50", "vit_b_16"] if options.quick else options.models or [*NAMES, *largest()]
    if options.missing:
        have = {row[0] for row in rows_of("half", _MODEL)}
        names = sorted((each for each in dict.fromkeys(names) if each not in have), key=parameters)
    begin, rows, timed = time.perf_counter(), [], []
    for at, name in enumerate(names):
        if (package := latency_models.missing(name)) is not None:
            print(f"{name} is not measured: {package} is not installed")
            continue
        if time.perf_counter() - begin > options.seconds:
            print("not reached:", ", ".join(names[at:]))
            break
        if options.only != "times":
            rows.append(casts(name))
        if options.only != "casts" and name in options.timed:
            timed.append(latencies(name, options.runs))
        if not options.quick:
            write(rows, timed)


def write(rows: list[list[str]], timed: list[list[str]]) -> None:
    """Puts rows into the section, beside those of earlier runs."""
    earlier = [[*row, *["earlier"] * (len(_HEADER) - len(row))] for row in rows_of("half", _MODEL)]
    first = table(_HEADER, merged(earlier, rows))
    second = table([_TIMES, "torch.onnx", "opbridge", "opbridge / torch.onnx"], merged(rows_of("half", _TIMES), timed))
    said = (
        'From `model.half()`, for ONNX Runtime, and `model.bfloat16()`, for TensorRT 10.15. "Casts added, of '
        'the model": the Casts between floating types in the file that the model does not have itself, and those that '
        f"it has. The models are those of the script's list, and the {LARGEST} of `opbridge models torchvision` for "
        "whose weights torchvision states the most parameters; the latter have images as small as the sweep's. A row "
        "is of the commit that it names; the command above is the last one. raft_small is left out, because PyTorch "
        "itself does not run it in half precision."
    )
    timing = "Medians of at least 10 runs, interleaved in one process after a warm-up; one image; one thread per core."
    write_section("half", "Half precision", f"{said}\n\n{first}\n\n{timing}\n\n{second}")


def parameters(name: str) -> int:
    """The parameters that torchvision states for the weights of a model; 0: it has none by this name."""
    import torchvision

    plain = name.removeprefix("detection/")
    if plain not in torchvision.models.list_models():
        return 0
    weights = torchvision.models.get_model_weights(plain)
    return max((int(each.meta["num_params"]) for each in weights), default=0)


def largest() -> list[str]:
    """The models with the most parameters of the sweep, the smallest of them first."""
    names = [each for each in entries_of("torchvision") if not each.startswith("quantized")]
    return sorted(names, key=parameters)[-LARGEST:]


def built(name: str, dtype: torch.dtype) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A model and inputs, with all that is floating in a type. Heads that start at zero are drawn."""
    kwargs: dict[str, Any] = {}
    if name not in NAMES:
        torch.manual_seed(0)
        case = entries_of("torchvision")[name].make()
        model, args = case.model, case.example.args
    elif name in _VIDEO or name in _SEGMENTATION:
        import torchvision

        torch.manual_seed(0)
        model = torchvision.models.get_model(
            name, weights=None, **({"weights_backbone": None} if name in _SEGMENTATION else {})
        ).eval()
        size = (
            (1, 3, 128, 128)
            if name in _SEGMENTATION
            else (1, 3, 16, 224, 224)
            if name == "mvit_v2_s"
            else (1, 3, 8, 64, 64)
        )
        args = (torch.rand(size),)
    else:
        model, args, kwargs, _ = (latency_models if name in latency_models.MODELS else models).build(name)
    for parameter in model.parameters():
        if parameter.ndim > 1 and not bool(parameter.any()):
            torch.nn.init.normal_(parameter, std=0.02)
    args = tree_map_only(torch.Tensor, lambda each: each.to(dtype) if each.is_floating_point() else each, args)
    return model.to(dtype), args, kwargs


def casts(name: str) -> list[str]:
    """One row of the table of Casts."""
    row = [name]
    for dtype, target in TARGETS.items():
        model, args, kwargs = built(name, dtype)
        with tempfile.TemporaryDirectory() as folder:
            try:
                program = opbridge.export(model, args, Path(folder) / "model.onnx", kwargs=kwargs, target=target)
            except opbridge.OpbridgeError as error:
                said = " ".join(str(error).replace("|", "/").split())[:120]
                row += ["-", "-", f"{type(error).__name__}: {said}"]
                continue
        found = [node for node in program.model.graph.all_nodes() if _is_between_floats(node)]
        own = sum(_is_own(node.metadata_props.get("opbridge.operator", "")) for node in found)
        ok = program.verification is not None and program.verification.ok
        row += [
            str(sum(1 for _ in program.model.graph.all_nodes())),
            f"{len(found) - own}, {own}",
            "yes" if ok else "no",
        ]
        del program, model, args, found
        gc.collect()
    row.append(commit())
    print(" | ".join(row), flush=True)
    return row


def _is_between_floats(node: ir.Node) -> bool:
    """Whether a node is a Cast from a floating type to one."""
    if node.op_type != "Cast" or node.inputs[0] is None:
        return False
    dtypes = node.inputs[0].dtype, node.outputs[0].dtype
    return all(each is not None and each.is_floating_point() for each in dtypes)


def _is_own(operator: str) -> bool:
    """Whether a Cast is one of the model's operators."""
    return operator.startswith(("aten::to", "aten::_to_copy", "aten::type_as")) or "dtype" in operator


def latencies(name: str, runs: int) -> list[str]:
    """One row of the table of latencies."""
    model, args, kwargs = built(name, torch.float16)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        stock, ours = Path(folder) / "stock.onnx", Path(folder) / "opbridge.onnx"
        torch.onnx.export(model, args, stock, kwargs=kwargs, dynamo=True, verbose=False)
        opbridge.export(model, args, ours, kwargs=kwargs, verify=False)
        sessions = {"stock": opbridge.session(stock), "ours": opbridge.session(ours)}
    given = [*args, *kwargs.values()]
    feeds = {
        key: {value.name: arg.numpy() for value, arg in zip(session.get_inputs(), given, strict=True)}
        for key, session in sessions.items()
    }
    outputs = [sessions[key].run(None, feeds[key])[0].astype(numpy.float32) for key in sessions]
    scale = float(numpy.sqrt((outputs[0] ** 2).mean()))
    numpy.testing.assert_allclose(*outputs, rtol=0, atol=0.03 * scale, err_msg=name)
    seconds = interleaved(
        {key: lambda key=key: sessions[key].run(None, feeds[key]) for key in sessions}, runs, warm_up=3
    )
    theirs, own = median(seconds["stock"]), median(seconds["ours"])
    row = [name, f"{theirs * 1e3:.2f}", f"{own * 1e3:.2f}", f"{own / theirs:.2f}"]
    print(" | ".join(row), flush=True)
    return row


if __name__ == "__main__":
    main()
