"""Models in half precision: the Casts in their files, whether they are verified, and their latency.

Casts: those between floating types in the file that the model does not have itself, and those that it has
(`x.float()`, autocast, a dtype= argument). A Cast of a mask or an index is none of them.
float16 is exported for ONNX Runtime, bfloat16 for TensorRT 10.15, which has bfloat16.
Latency: on the CPU, where ONNX Runtime computes most of float16 in float32, beside the file of torch.onnx's default
exporter; both sessions in one process, in turns, after a warm-up; medians. Both sessions are made by opbridge.session,
as a plain one may end the process on the other exporter's file (MatmulTransposeFusion).

    python bench/half.py                   # everything
    python bench/half.py --quick           # two models, nothing written
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import tempfile
import time
import warnings
from pathlib import Path

import models
import numpy
import onnx_ir as ir
import torch
from results import interleaved, median, table, write_section

import opbridge

NAMES = (
    *models.NAMES,
    *("alexnet", "vgg11", "googlenet", "inception_v3", "squeezenet1_0", "mobilenet_v2", "mobilenet_v3_large"),
    *("shufflenet_v2_x1_0", "mnasnet1_0", "regnet_y_400mf", "efficientnet_b0", "efficientnet_v2_s"),
    *("swin_v2_t", "maxvit_t", "resnext50_32x4d", "wide_resnet50_2", "fcn_resnet50", "deeplabv3_resnet50"),
    *("lraspp_mobilenet_v3_large", "r3d_18", "mvit_v2_s", "BERT", "Llama"),
)
TIMED = (*models.NAMES, "mobilenet_v3_large", "efficientnet_b0", "BERT", "Llama")
TARGETS = {torch.float16: None, torch.bfloat16: "tensorrt:10.15"}
_VIDEO = ("r3d_18", "mvit_v2_s")
_SEGMENTATION = ("fcn_resnet50", "deeplabv3_resnet50", "lraspp_mobilenet_v3_large")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two models; nothing is written")
    parser.add_argument("--runs", type=int, default=20, help="timed runs of each (20)")
    parser.add_argument("--models", nargs="*", default=list(NAMES))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further model after this time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    names = ("resnet50", "vit_b_16") if options.quick else options.models
    begin = time.perf_counter()
    rows = [casts(name) for name in names if time.perf_counter() - begin < options.seconds]
    timed = [latencies(name, options.runs) for name in TIMED if name in names]
    header = ["model", "float16: nodes", "Casts added, of the model", "verified"]
    first = table([*header, "bfloat16: nodes", "Casts added, of the model", "verified"], rows)
    second = table(["float16, one run on the CPU, ms", "torch.onnx", "opbridge", "opbridge / torch.onnx"], timed)
    if options.quick:
        print(f"\n{first}\n\n{second}")
        return
    said = (
        'From `model.half()`, for ONNX Runtime, and `model.bfloat16()`, for TensorRT 10.15. "Casts added, of '
        'the model": the Casts between floating types in the file that the model does not have itself, and those that '
        "it has."
    )
    timing = (
        f"Medians of {options.runs} runs, interleaved in one process after a warm-up; one image; one thread per core."
    )
    write_section("half", "Half precision", f"{said}\n\n{first}\n\n{timing}\n\n{second}")


def built(name: str, dtype: torch.dtype) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """A model and inputs, with all that is floating in a type. Heads that start at zero are drawn."""
    if name in _VIDEO or name in _SEGMENTATION:
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
        args, kwargs = (torch.rand(size),), {}
    else:
        model, args, kwargs, _ = models.build(name)
    for parameter in model.parameters():
        if parameter.ndim > 1 and not bool(parameter.any()):
            torch.nn.init.normal_(parameter, std=0.02)
    model = model.to(dtype)
    return model, tuple(each.to(dtype) for each in args), kwargs


def casts(name: str) -> list[str]:
    """One row of the table of Casts."""
    row = [name]
    for dtype, target in TARGETS.items():
        model, args, kwargs = built(name, dtype)
        try:
            program = opbridge.export(model, args, kwargs=kwargs, target=target)
        except opbridge.OpbridgeError as error:
            row += ["-", "-", f"{type(error).__name__}: {str(error).partition(chr(10))[0][:60]}"]
            continue
        found = [node for node in program.model.graph.all_nodes() if _is_between_floats(node)]
        own = sum(_is_own(node.metadata_props.get("opbridge.operator", "")) for node in found)
        ok = program.verification is not None and program.verification.ok
        row += [
            str(sum(1 for _ in program.model.graph.all_nodes())),
            f"{len(found) - own}, {own}",
            "yes" if ok else "no",
        ]
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
