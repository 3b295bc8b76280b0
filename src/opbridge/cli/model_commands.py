"""The commands for a model: check, export, verify."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import opbridge
from opbridge.base import specs
from opbridge.cli import part_commands
from opbridge.cli.answers import Answer, Interrupted
from opbridge.cli.app import app
from opbridge.cli.console import Screen, print_plain
from opbridge.cli.export_view import print_export, print_verification
from opbridge.cli.options import (
    AllowOption,
    ArchOption,
    AtolOption,
    AutotuneOption,
    CaptureOption,
    DynamicOption,
    FoldOption,
    FuseOption,
    GigabytesOption,
    InputsOption,
    IsolatedOption,
    JsonOption,
    MaxCaptureSecondsOption,
    MaxCapturesOption,
    ModeOption,
    OnlyOption,
    OpsetOption,
    ProfileOption,
    ProvidesOption,
    ReportOption,
    RtolOption,
    RuntimeOption,
    SecondsOption,
    SpecArgument,
    StrictOption,
    TargetOption,
    TaskOption,
    accepted,
    given_options,
    isolation,
    items,
    keywords_for,
    load_subject,
    triton_options,
    with_dynamic,
    with_inputs,
)
from opbridge.cli.plan_view import print_plan, print_raw
from opbridge.cli.stages import Stages
from opbridge.errors import UsageError
from opbridge.runtimes.tensorrt_rtx.profile import parsed

__all__ = ["check", "export", "verify"]


@app.command()
def check(
    spec: SpecArgument,
    opset: OpsetOption = None,
    allow: AllowOption = None,
    only: OnlyOption = None,
    operator_export_type: ModeOption = None,
    target: TargetOption = None,
    provides: ProvidesOption = None,
    dynamic: DynamicOption = None,
    capture: CaptureOption = None,
    max_captures: MaxCapturesOption = None,
    max_capture_seconds: MaxCaptureSecondsOption = None,
    strict: StrictOption = None,
    arch: ArchOption = None,
    autotune: AutotuneOption = None,
    task: TaskOption = None,
    fuse: FuseOption = None,
    fold: FoldOption = None,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """List every operator of a model with its route; for missing ones, the source line, the reason and the remedy."""
    subject = load_subject(spec, task)

    def keywords_of(model: specs.Subject) -> dict[str, Any]:
        kernels = triton_options(arch, autotune)
        found = keywords_for(opbridge.check, model, opset, allow, only, operator_export_type, target, dynamic)
        limits = given_options(max_captures=max_captures, max_capture_seconds=max_capture_seconds, strict=strict)
        options = given_options(capture=capture, provides=provides and items(provides), fuse=fuse, fold=fold)
        return {**found, **options, **limits, **kernels}

    if not isinstance(subject, specs.Subject):
        return part_commands.check_parts(subject, keywords_of, given_options(report=report))
    keywords = {**keywords_of(subject), **given_options(report=report)}
    plan = opbridge.check(subject.model, subject.args, **keywords)
    faults = [fault.error for fault in plan.faults]
    return Answer(plan.to_json(), lambda screen: print_plan(screen, plan), plan.ok, faults)


@app.command()
def export(
    spec: SpecArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write, or the folder for a set of parts.", show_default=False),
    ] = None,
    opset: OpsetOption = None,
    allow: AllowOption = None,
    only: OnlyOption = None,
    operator_export_type: ModeOption = None,
    target: TargetOption = None,
    provides: ProvidesOption = None,
    dynamic: DynamicOption = None,
    capture: CaptureOption = None,
    max_captures: MaxCapturesOption = None,
    max_capture_seconds: MaxCaptureSecondsOption = None,
    strict: StrictOption = None,
    arch: ArchOption = None,
    autotune: AutotuneOption = None,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify", help="Compare the outputs of the file with PyTorch.", show_default="verify"
        ),
    ] = None,
    external_data: Annotated[
        bool | None,
        typer.Option(
            "--external-data/--no-external-data",
            help="Store the weights in a separate file (ONNX external data).",
            show_default="external data from 2 GB",
        ),
    ] = None,
    inputs: InputsOption = None,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    task: TaskOption = None,
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            metavar="float16|bfloat16",
            help="Cast the verified float32 model to this type, as 'opbridge cast' does.",
            show_default=False,
        ),
    ] = None,
    genai: Annotated[
        bool,
        typer.Option(
            "--genai",
            help="Write a folder that onnxruntime-genai runs, with --task text-generation: the model, "
            "genai_config.json and the tokenizer's files.",
        ),
    ] = False,
    fuse: FuseOption = None,
    fold: FoldOption = None,
    report: ReportOption = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the captured graph with source lines, and write no file.")
    ] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Export a model to an ONNX file, or a set of parts to a folder, and compare the result with PyTorch."""
    if raw:
        shaping = given_options(
            output=output,
            allow=allow,
            only=only,
            operator_export_type=operator_export_type,
            target=target,
            provides=provides,
            verify=verify,
            external_data=external_data,
            capture=capture,
            max_captures=max_captures,
            max_capture_seconds=max_capture_seconds,
            strict=strict,
            arch=arch,
            autotune=autotune,
            inputs=inputs,
            rtol=rtol,
            atol=atol,
            task=task,
            precision=precision,
            genai=genai or None,
            fuse=fuse,
            fold=fold,
            report=report,
        )
        return _raw(spec, opset, dynamic, shaping)
    if output is None:
        raise UsageError(
            "Missing option '--output' / '-o'. Give the file to write, or --raw to print the captured graph "
            "without writing a file."
        )
    if genai and task is None:
        raise UsageError("--genai requires --task text-generation, which gives the names of inputs and outputs.")
    screen = Screen()
    drawn = Stages(screen) if screen.is_terminal and not as_json else None

    def keywords_of(model: specs.Subject) -> dict[str, Any]:
        return keywords_for(opbridge.export, model, opset, allow, only, operator_export_type, target, dynamic)

    with drawn or contextlib.nullcontext(), _explaining_interrupt(output):
        with drawn.stage("load") if drawn else contextlib.nullcontext():
            subject = load_subject(spec, task)
        options = given_options(
            verify=verify,
            external_data=external_data,
            provides=provides and items(provides),
            capture=capture,
            max_captures=max_captures,
            max_capture_seconds=max_capture_seconds,
            strict=strict,
            rtol=rtol,
            atol=atol,
            fuse=fuse,
            fold=fold,
            **triton_options(arch, autotune),
        )
        if not isinstance(subject, specs.Subject):
            part_commands.refuse_inputs(inputs)
            if precision is not None:
                raise UsageError(
                    "--precision is not supported for a set of parts. Leave it out, and cast each file with "
                    "'opbridge cast'."
                )
            if genai:
                raise UsageError("--genai is not supported for a set of parts. Leave it out.")
            options |= {"progress": drawn, **given_options(report=report)}
            return part_commands.export_parts(subject, output, keywords_of, options, spec)
        subject, given = with_inputs(subject, inputs)
        options |= given_options(report=report, precision=precision, genai=genai or None)
        keywords = {**keywords_of(subject), **given, **options}
        program = opbridge.export(subject.model, subject.args, output, **keywords, progress=drawn)
    document = {
        "ok": True,
        "files": [{"path": str(path), "bytes": path.stat().st_size} for path in program.files],
        "timings": program.timings,
        "peaks": program.peaks,
        "plan": program.plan.to_json(),
        "verification": program.verification.to_json() if program.verification else None,
        "kernels": program.kernels,
        "unverified": program.unverified,
        "repairs": [{"done": each.done, **each.finding.document()} for each in program.repairs],
        "findings": None if program.findings is None else program.findings.document(),
        "cast": None if program.narrowed is None else program.narrowed.document(),
    }
    return Answer(document, lambda screen: print_export(screen, program, spec, report))


@app.command()
def verify(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL.onnx", help="The exported file, or the folder of a set of parts.", show_default=False
        ),
    ],
    spec: SpecArgument,
    dynamic: DynamicOption = None,
    inputs: InputsOption = None,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    aten: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Operators that the file may run in PyTorch, in addition to the functional aten operators: "
            "'torchvision::*'. May be repeated.",
            show_default=False,
        ),
    ] = None,
    kernels: Annotated[
        list[Path] | None,
        typer.Option(
            "--kernels",
            metavar="LIBRARY",
            help="A library with kernels that the file requires, such as that of its Triton kernels. May be repeated.",
            show_default=False,
        ),
    ] = None,
    isolated: IsolatedOption = False,
    limit_seconds: SecondsOption = None,
    limit_gigabytes: GigabytesOption = None,
    task: TaskOption = None,
    runtime: RuntimeOption = None,
    profile: ProfileOption = None,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Compare an exported file with its PyTorch model, in one runtime or several."""
    subject = load_subject(spec, task)
    own_process = isolation(isolated, limit_seconds, limit_gigabytes)
    options = given_options(rtol=rtol, atol=atol, aten=aten, kernels=kernels, isolated=own_process)
    if not isinstance(subject, specs.Subject):
        part_commands.refuse_inputs(inputs)
        if runtime or profile:
            raise UsageError(
                "--runtime is not supported for a set of parts, which is verified in ONNX Runtime. Leave it out, "
                "or verify one file."
            )
        return part_commands.verify_parts(
            subject, model, lambda part: with_dynamic(part, dynamic), options | given_options(report=report)
        )
    if profile:
        options["profile"] = parsed(profile)
    subject, given = with_inputs(subject, inputs)
    keywords = accepted(
        opbridge.verify, {**with_dynamic(subject, dynamic), **options, **given, **given_options(report=report)}
    )
    if runtime:
        each = opbridge.verify(model, subject.model, subject.args, runtime=items(runtime), **keywords)
        return Answer(each.to_json(), lambda screen: print_plain(screen, str(each)), each.ok)
    verification = opbridge.verify(model, subject.model, subject.args, **keywords)
    return Answer(verification.to_json(), lambda screen: print_verification(screen, verification), verification.ok)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What tells one content of a path, a file or the folder of a set, from another; None where there is nothing."""
    found: list[int] = []
    for file in sorted(path.glob("*.onnx")) if path.is_dir() else [path]:
        with contextlib.suppress(OSError):
            stat = file.stat()
            found += (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    return tuple(found) or None


@contextlib.contextmanager
def _explaining_interrupt(output: Path) -> Iterator[None]:
    """Within this context, an interrupt says what stands at the path of the output."""
    before = _stamp(output)
    try:
        yield
    except KeyboardInterrupt:
        after = _stamp(output)
        if after is None:
            left = f"{output} was not written."
        elif after == before:
            left = f"{output} is unchanged."
        else:
            left = f"{output} was written, but the comparison with PyTorch did not finish."
        raise Interrupted(left) from None


def _raw(spec: str, opset: int | None, dynamic: list[str] | None, shaping: Mapping[str, Any]) -> Answer:
    """The answer of `export --raw`; `shaping` are the options given that shape a file."""
    if shaping:
        option = f"--{next(iter(shaping)).replace('_', '-')}"
        raise UsageError(
            f"{option} has no effect with --raw, which prints the captured graph and writes no file. Leave one of "
            "them out. --operator-export-type RAW writes a file with every operator untranslated."
        )
    from opbridge import pipeline

    subject = load_subject(spec)
    if not isinstance(subject, specs.Subject):
        raise UsageError(
            "--raw is valid only for one model, but the factory returns several. Name a factory that returns one model."
        )
    options = {**with_dynamic(subject, dynamic), **given_options(opset_version=opset)}
    found = pipeline.raw(subject.model, subject.args, **accepted(pipeline.raw, options))
    return Answer(found.to_json(), lambda screen: print_raw(screen, found))
