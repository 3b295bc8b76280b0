"""The options that several commands share, and the keywords of opbridge's functions that they stand for."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import opbridge
from opbridge.base import specs
from opbridge.cli import dynamic_dimensions
from opbridge.errors import UsageError

if TYPE_CHECKING:
    from opbridge.parts.data import GivenParts
    from opbridge.runtimes.onnxruntime import Limits

__all__ = [
    "AllowOption",
    "AtolOption",
    "CaptureOption",
    "DynamicOption",
    "FoldOption",
    "FuseOption",
    "GigabytesOption",
    "InputsOption",
    "IsolatedOption",
    "JsonOption",
    "MaxCaptureSecondsOption",
    "MaxCapturesOption",
    "ModeOption",
    "OnlyOption",
    "OpsetOption",
    "ProfileOption",
    "ProvidesOption",
    "ReportOption",
    "RtolOption",
    "RuntimeOption",
    "SecondsOption",
    "SpecArgument",
    "StrictOption",
    "TargetOption",
    "TaskOption",
    "accepted",
    "given_options",
    "isolation",
    "items",
    "keywords_for",
    "load_subject",
    "with_dynamic",
    "with_inputs",
]

_NOT_KEYWORDS = {"model", "args", "f", "progress", "legacy"}


SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="FILE.py:FACTORY or package.module:FACTORY; FACTORY() returns (model, args) or (model, args, "
        "keywords), a recording made with opbridge.record, or several models as opbridge.Parts.",
        show_default=False,
    ),
]


JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")]


ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="Write an HTML report with the graph of the model and all results. It needs no network.",
        show_default=False,
    ),
]


OpsetOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="The ONNX opset version, 9 or newer. Defaults to the newest one that ONNX Runtime supports well.",
    ),
]


AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ROUTE",
        help="Allow a route in addition to standard, function and kernel. May be repeated, or given as a list "
        "separated by commas.",
    ),
]


OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ROUTE", help="Allow only these routes. May be repeated, or given as a list separated by commas."
    ),
]


ModeOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="A mode of torch.onnx.export, instead of --allow: ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, "
        "ONNX_FALLTHROUGH or RAW.",
    ),
]


TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:VERSION]",
        help="The target that the model will run on. Defaults to onnxruntime; 'opbridge targets' lists all of them.",
        show_default=False,
    ),
]


ProvidesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--provides",
        metavar="DOMAIN::OPERATOR",
        help="An operator that the target has as a plug-in or custom operator of yours: trt::MyTopK, or 'trt::*' for "
        "all of a domain. May be repeated.",
        show_default=False,
    ),
]


DynamicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dynamic",
        "--dynamic-shapes",
        metavar="DIMS",
        help="The dynamic dimensions. auto: every dimension that the model does not fix; batch: dimension 0 of "
        "every input; 0,2 or 0=batch,2=length: these dimensions of every input; x:0=batch: a dimension of the "
        "input x.",
    ),
]


CaptureOption = Annotated[
    str | None,
    typer.Option(
        metavar="export|torch.export|trace|auto",
        help="How to capture the model. export: opbridge's own capture; torch.export: PyTorch's; trace: a trace of "
        "the example inputs, in which the results of Python conditions are constants; auto: export, then "
        "trace if that fails.",
        show_default="export",
    ),
]


MaxCapturesOption = Annotated[
    int | None,
    typer.Option(
        "--max-captures",
        metavar="N",
        help="The maximum number of captures of a model with data-dependent control flow. One path per capture.",
        show_default="64",
    ),
]


MaxCaptureSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--max-capture-seconds",
        metavar="S",
        help="The time limit, in seconds, after which no further capture is begun: of another path, of other sizes, "
        "or by torch.export.",
        show_default="no limit",
    ),
]


StrictOption = Annotated[
    bool | None,
    typer.Option(
        "--strict",
        help="Fail if the model requires a relation between dynamic dimensions that the dynamic shapes do not state, "
        "such as total == past + seq, instead of taking it as stated.",
        show_default=False,
    ),
]

ArchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arch",
        metavar="SM,...",
        help="For a model that launches Triton kernels: the CUDA architectures that their library has machine code "
        "for, such as sm_80,sm_90. It has PTX for later ones.",
        show_default="sm_80,sm_90",
    ),
]


AutotuneOption = Annotated[
    list[str] | None,
    typer.Option(
        "--autotune",
        metavar="KERNEL=N",
        help="The number of the configuration to take of a Triton kernel with @triton.autotune. Defaults to the first "
        "one that fits. May be repeated.",
        show_default=False,
    ),
]


InputsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--inputs",
        metavar="FILE",
        help="Compare on the inputs in this .npz or .npy file instead of random inputs. May be repeated. If the "
        "factory returns no example inputs, the first file provides them.",
        show_default=False,
    ),
]


RtolOption = Annotated[float | None, typer.Option("--rtol", help="The relative tolerance.", show_default="by dtype")]


AtolOption = Annotated[float | None, typer.Option("--atol", help="The absolute tolerance.", show_default="by dtype")]


IsolatedOption = Annotated[
    bool,
    typer.Option(
        "--isolated",
        help="Run the file in a separate process with limits on time and memory. A crash of that process counts as "
        "a mismatch.",
    ),
]


SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--limit-seconds",
        metavar="N",
        help="With --isolated: the time limit for a run and for loading the file, in seconds.",
        show_default="600",
    ),
]


GigabytesOption = Annotated[
    float | None,
    typer.Option(
        "--limit-gigabytes",
        metavar="N",
        help="With --isolated: the memory limit for a run and for loading the file, in GB.",
        show_default="8",
    ),
]


RuntimeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime",
        metavar="NAME",
        help="The runtime: onnxruntime, cuda (or cuda:1), openvino, web, browser, webgpu, mnn, ncnn, tensorrt-rtx or "
        "reference. May be repeated, or given as a list separated by commas, to compare several runtimes.",
        show_default="onnxruntime",
    ),
]


ProfileOption = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        metavar="NAME=MIN:OPT:MAX",
        help="For tensorrt-rtx: the sizes of a dynamic dimension that the engine is built for, 'n=1:8:32' or 'n=8'. A "
        "dimension without a name is written as INPUT:AXIS. May be repeated, or given as a list separated by commas.",
        show_default="1:8:64",
    ),
]


FuseOption = Annotated[
    bool | None,
    typer.Option(
        "--fuse/--no-fuse",
        help="Write groups of nodes as the one node of com.microsoft that ONNX Runtime has a kernel for.",
        show_default="with --target onnxruntime or cuda, and with --genai",
    ),
]


FoldOption = Annotated[
    bool | None,
    typer.Option(
        "--fold",
        help="Fold batch normalizations, and constant factors of channels, into the weights of the layers before them, "
        "which changes the results by rounding.",
        show_default=False,
    ),
]


TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="TASK",
        help="The task, which provides the inputs and dynamic shapes: text-generation, for causal language models "
        "of transformers. The factory may then return the model alone, or SPEC may be a folder written by "
        "save_pretrained.",
    ),
]


def load_subject(spec: str, task: str | None = None) -> specs.Subject | GivenParts:
    """The model that a SPEC names, with its example inputs and keywords; or several models.

    With a task, the factory may return a model alone, and SPEC may be a folder that `save_pretrained` wrote.
    """
    known = inspect.signature(opbridge.export).parameters.keys() - _NOT_KEYWORDS
    if task is None:
        returned = specs.returned(spec)
        return returned if isinstance(returned, opbridge.Parts) else specs.checked(spec, returned, known)
    if (Path(spec) / "config.json").is_file():
        from opbridge.model_support.transformers import causal_models

        return specs.Subject(spec, causal_models.load(spec), (), {"task": task})
    subject = specs.load(spec, known=known, model_alone=True)
    return dataclasses.replace(subject, keywords={**subject.keywords, "task": task})


def with_inputs(subject: specs.Subject, files: list[Path] | None) -> tuple[specs.Subject, dict[str, list[Path]]]:
    """The model with example inputs from the first file where it has none; and the keyword `inputs` for the others."""
    if not files:
        return subject, {}
    if subject.args or subject.keywords.get("kwargs"):
        return subject, {"inputs": files}
    from opbridge.verification.given_inputs import example_from_file

    args, kwargs = example_from_file(files[0])
    keywords = {**subject.keywords, "kwargs": kwargs} if kwargs else subject.keywords
    rest = {"inputs": files[1:]} if files[1:] else {}
    return dataclasses.replace(subject, args=args, keywords=keywords), rest


def keywords_for(
    function: Callable[..., Any],
    subject: specs.Subject,
    opset: int | None,
    allow: list[str] | None,
    only: list[str] | None,
    operator_export_type: str | None,
    target: str | None,
    dynamic: list[str] | None,
) -> dict[str, Any]:
    """The factory's keywords that a function of opbridge takes, with the command line's options put over them."""
    options = given_options(opset_version=opset, operator_export_type=operator_export_type, target=target)
    keywords = {**with_dynamic(subject, dynamic), **options}
    if only:
        keywords["allow"] = items(only)
    if allow:
        default = inspect.signature(function).parameters["allow"].default
        keywords["allow"] = tuple(dict.fromkeys((*keywords.get("allow", default), *items(allow))))
    return accepted(function, keywords)


def with_dynamic(subject: specs.Subject, dynamic: list[str] | None) -> dict[str, Any]:
    """The factory's keywords, with the dimensions that `--dynamic` names in the place of its own."""
    if not dynamic:
        return dict(subject.keywords)
    kept = {name: value for name, value in subject.keywords.items() if name != "dynamic_axes"}
    return {**kept, "dynamic_shapes": dynamic_dimensions.dynamic_shapes(dynamic, subject)}


def items(given: list[str]) -> tuple[str, ...]:
    """The items of an option that may be repeated and may list several: `--allow kernel,aten`."""
    return tuple(item for text in given for item in text.replace(",", " ").split())


def isolation(isolated: bool, seconds: float | None, gigabytes: float | None) -> bool | Limits | None:
    """The keyword `isolated` of opbridge's functions; None where it is not asked for.

    Raises:
        UsageError: Limits without a process that has them, or that allow nothing.
    """
    limits = given_options(seconds=seconds, gigabytes=gigabytes)
    if not isolated:
        if limits:
            raise UsageError(f"--limit-{next(iter(limits))} is valid only with --isolated. Add --isolated.")
        return None
    return opbridge.Limits(**limits)


def triton_options(arch: list[str] | None, autotune: list[str] | None) -> dict[str, Any]:
    """The options of a model's Triton kernels, as `opbridge.export` takes them.

    Raises:
        UsageError: --autotune is not KERNEL=N.
    """
    chosen: dict[str, int] = {}
    for each in autotune or ():
        name, _, number = each.partition("=")
        if not name or not number.isdecimal():
            raise UsageError(f"Invalid value '--autotune {each}'. Give a kernel and a number, such as matmul_kernel=2.")
        chosen[name] = int(number)
    return given_options(architectures=items(arch) if arch else None, autotune=chosen or None)


def given_options(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def accepted(function: Callable[..., Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a function takes."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in keywords.items() if name in names}
