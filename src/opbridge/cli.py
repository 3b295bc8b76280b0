"""The command line: reads the arguments, calls opbridge, shows the answer."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import opbridge
from opbridge import console, specs
from opbridge.errors import OpbridgeError, UsageError

__all__ = ["app", "main"]

_NOT_KEYWORDS = {"model", "args", "f", "progress", "legacy"}
_NO_TORCH = (
    "This command needs torch, which is not installed in this environment: pip install 'opbridge[torch]'. Only running "
    "an exported model, with opbridge.session, does without."
)

app = typer.Typer(
    help="Carry PyTorch models to ONNX, every operator accounted for, and prove that they run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit status: 0 fine, 1 the answer is no, 2 wrong use, 3 a fault of opbridge's own.",
)


@dataclass
class Answer:
    """What a command found.

    Attributes:
        document: The answer as plain data, for `--json`.
        show: Shows it to a person.
        ok: Whether the answer is yes; no is exit status 1.
    """

    document: dict[str, Any]
    show: Callable[[Console], None]
    ok: bool = True


SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="FILE.py:FACTORY or package.module:FACTORY; FACTORY() returns (model, args) or (model, args, keywords).",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document to stdout.")]
OpsetOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="The ONNX opset, from 9; the newest that ONNX Runtime runs well if not given."),
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ROUTE",
        help="Permit a route besides standard, function and kernel. Repeat it, or separate several with commas.",
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ROUTE", help="Permit these routes and no others. Repeat it, or separate them with commas."),
]
ModeOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="A mode of torch.onnx.export in the place of --allow: ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, "
        "ONNX_FALLTHROUGH or RAW.",
    ),
]
TargetOption = Annotated[str | None, typer.Option(metavar="NAME", help="The runtime to fit the model to.")]
DynamicOption = Annotated[
    str | None,
    typer.Option(metavar="auto", help="auto: every dimension that the model leaves free becomes dynamic."),
]
CaptureOption = Annotated[
    str | None,
    typer.Option(
        metavar="export|trace|auto",
        help="How to capture the model: torch.export, a trace of the example (which freezes what Python decides), or "
        "one after the other.",
        show_default="export",
    ),
]


def _print_version(asked: bool) -> None:
    if asked:
        print(f"opbridge {opbridge.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the traceback of an unexpected error; so does the environment's OPBRIDGE_DEBUG=1."
        ),
    ] = False,
) -> None:
    """Declares the options that every command has; main() reads --debug, wherever on the line it stands."""


@app.command()
def check(
    spec: SpecArgument,
    opset: OpsetOption = None,
    allow: AllowOption = None,
    only: OnlyOption = None,
    operator_export_type: ModeOption = None,
    target: TargetOption = None,
    dynamic_shapes: DynamicOption = None,
    capture: CaptureOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """List every operator of a model with its route, and what is missing: where, why and what to do."""
    subject = _load(spec)
    keywords = _keywords(opbridge.check, subject, opset, allow, only, operator_export_type, target, dynamic_shapes)
    keywords.update(_given(capture=capture))
    plan = opbridge.check(subject.model, subject.args, **keywords)
    return Answer(plan.to_json(), lambda screen: console.print_plan(screen, plan), plan.ok)


@app.command()
def export(
    spec: SpecArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.", show_default=False)
    ] = None,
    opset: OpsetOption = None,
    allow: AllowOption = None,
    only: OnlyOption = None,
    operator_export_type: ModeOption = None,
    target: TargetOption = None,
    dynamic_shapes: DynamicOption = None,
    capture: CaptureOption = None,
    verify: Annotated[
        bool | None, typer.Option("--verify/--no-verify", help="Compare the file with PyTorch.", show_default="verify")
    ] = None,
    external_data: Annotated[
        bool | None,
        typer.Option(
            "--external-data/--no-external-data",
            help="Put the weights beside the file, or all in one file.",
            show_default="beside it from 2 GB on",
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the captured graph as it is, with source lines, and write no file.")
    ] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Export a model to a file and compare the file with PyTorch."""
    if raw:
        shaping = _given(
            output=output,
            allow=allow,
            only=only,
            operator_export_type=operator_export_type,
            target=target,
            verify=verify,
            external_data=external_data,
            capture=capture,
        )
        return _raw(spec, opset, dynamic_shapes, shaping)
    if output is None:
        raise UsageError("Missing option '--output' / '-o', the file to write; only --raw, which prints, needs none.")
    screen = Console()
    drawn = console.Stages(screen) if screen.is_terminal and not as_json else None
    with drawn or contextlib.nullcontext():
        with drawn.stage("load") if drawn else contextlib.nullcontext():
            subject = _load(spec)
            keywords = _keywords(
                opbridge.export, subject, opset, allow, only, operator_export_type, target, dynamic_shapes
            )
        keywords.update(_given(verify=verify, external_data=external_data, capture=capture))
        program = opbridge.export(subject.model, subject.args, output, **keywords, progress=drawn)
    document = {
        "ok": True,
        "files": [{"path": str(path), "bytes": path.stat().st_size} for path in program.files],
        "timings": program.timings,
        "plan": program.plan.to_json(),
        "verification": program.verification.to_json() if program.verification else None,
        "kernels": program.kernels,
        "unverified": program.unverified,
    }
    return Answer(document, lambda screen: console.print_export(screen, program, spec))


@app.command()
def verify(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The exported file.", show_default=False)],
    spec: SpecArgument,
    dynamic_shapes: DynamicOption = None,
    rtol: Annotated[
        float | None, typer.Option(help="The relative difference allowed.", show_default="by dtype")
    ] = None,
    atol: Annotated[
        float | None, typer.Option(help="The absolute difference allowed.", show_default="by dtype")
    ] = None,
    aten: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Operators that PyTorch may run for the file, beside aten's functional ones: 'torchvision::*'.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Compare an exported file with the PyTorch model that it was made from."""
    subject = _load(spec)
    options = _given(dynamic_shapes=dynamic_shapes, rtol=rtol, atol=atol, aten=aten)
    keywords = _accepted(opbridge.verify, {**subject.keywords, **options})
    verification = opbridge.verify(model, subject.model, subject.args, **keywords)
    return Answer(
        verification.to_json(), lambda screen: console.print_verification(screen, verification), verification.ok
    )


@app.command()
def ops(
    pattern: Annotated[str, typer.Argument(help="A name or a shell pattern: cummax, '*deform*', 'aten::sym*'.")] = "*",
    as_json: JsonOption = False,
) -> Answer:
    """List the operators that have a translation: the route, since which opset, and whose it is."""
    from opbridge import registry

    rows = registry.catalogue(pattern)
    document = {
        "ok": bool(rows),
        "pattern": pattern,
        "operators": [
            {
                "operator": row.operator,
                "route": row.route,
                "opset": row.opset,
                "origin": row.origin,
                "complex": row.complex,
            }
            for row in rows
        ],
    }
    if rows:
        return Answer(document, lambda screen: console.print_catalogue(screen, rows))
    near = _near_names(pattern, [row.operator for row in registry.catalogue("*")])
    return Answer({**document, "near": near}, lambda screen: console.print_not_covered(screen, pattern, near), ok=False)


@app.command()
def build(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.cpp...", help="The kernels.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The library to write.", show_default="beside the first file"),
    ] = None,
    debug: Annotated[bool, typer.Option("-g", help="For a debugger; every index into a tensor is checked.")] = False,
    sanitize: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Sanitizers: address, undefined, leak, thread.")
    ] = None,
    flag: Annotated[
        list[str] | None, typer.Option(metavar="FLAG", help="A further flag for the compiler; repeat it for more.")
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Build kernels from C++ into one library that PyTorch and ONNX Runtime load."""
    from opbridge.kernels import build as builder
    from opbridge.kernels import compiler, library

    settings = compiler.Settings(debug, _items(sanitize or []), tuple(flag or ()))
    system = compiler.find_compiler()
    target = output or files[0].with_suffix(system.suffix)
    path = builder.build_parts(files, builder.ADAPTER, output=target, settings=settings)
    preload = system.preload(settings)
    operators = [] if settings.sanitize else [each.schema for each in library.open_library(path).operators]
    document = {"ok": True, "library": str(path), "bytes": path.stat().st_size, "operators": operators}
    if preload is not None:
        document["preload"] = preload
    return Answer(document, lambda screen: console.print_build(screen, path, operators, preload))


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The operator's name, as my_add.", show_default=False)],
    folder: Annotated[Path, typer.Option("--folder", help="Where to write.")] = Path("."),
    as_json: JsonOption = False,
) -> Answer:
    """Begin an operator of your own: a C++ file, a test and a model, which work as they are."""
    from opbridge.kernels import scaffold

    files = scaffold.create(name, folder)
    document = {"ok": True, "files": [str(file) for file in files]}
    return Answer(document, lambda screen: console.print_new(screen, files))


@app.command()
def coverage(
    ops: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Operators, by shell patterns: 'linalg.*', 'torchvision::*'. Repeat it."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="Samples of each operator and dtype.", show_default="3")
    ] = None,
    dtypes: Annotated[
        list[str] | None,
        typer.Option(metavar="DTYPE", help="all, or some: float16,int64.", show_default="float32, or the first one"),
    ] = None,
    opset: OpsetOption = None,
    exporter: Annotated[
        str | None, typer.Option(metavar="NAME", help="opbridge, torch or torchscript.", show_default="opbridge")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="ROUTE", help="Permit these routes and no others.", show_default="all but fallthrough"),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="The time limit of a sample.", show_default="60")
    ] = None,
    db: Annotated[
        str | None, typer.Option(metavar="FILE.py:NAME", help="Samples of your own, a list of Entry.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Worker processes.", show_default="one a core")] = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A Ray cluster in their place.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The results; interrupted, the same command goes on.")
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Measure, over PyTorch's own test database, which operators cross, by which route, and whether they are right."""
    from opbridge import coverage
    from opbridge.coverage import report

    if jobs is not None and ray is not None:
        raise UsageError("--jobs is for processes here and --ray for a cluster. Leave one of them out.")
    lists = {name: _items(value) for name, value in (("dtypes", dtypes), ("allow", allow)) if value}
    given = _given(samples=samples, opset=opset, exporter=exporter, timeout=timeout, db=db, jobs=jobs, ray=ray, **lists)
    screen = Console(stderr=True)
    try:
        with report.Bar(screen) if screen.is_terminal else contextlib.nullcontext() as bar:
            found = coverage.sweep(tuple(ops or ("*",)), **given, output=output, told=bar)
    except KeyboardInterrupt:
        report.print_interrupted(screen, output)
        raise
    return Answer({"ok": found.ok, **found.document}, lambda screen: report.print_results(screen, found), found.ok)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: What follows the program's name; `sys.argv` if not given.

    Returns:
        The exit status: 0 fine, 1 the answer is no, 2 wrong use, 3 a fault of opbridge's own, 130 interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    debug = "--debug" in given or os.environ.get("OPBRIDGE_DEBUG", "0") not in ("", "0")
    try:
        with _stdout_kept_clear() if as_json else contextlib.nullcontext():
            answer = app([each for each in given if each != "--debug"], "opbridge", standalone_mode=False)
        if not isinstance(answer, Answer):  # the status of --help or --version, or of an interrupt
            return int(answer or 0)
        if as_json:
            _print_json(answer.document)
        else:
            answer.show(Console())
        return 0 if answer.ok else 1
    except OpbridgeError as error:
        return _failed(error, str(error), error.exit_status, as_json)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # the reader had enough, as in `opbridge ops | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's own last flush succeeds
        return 1
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            return _failed(error, _NO_TORCH, 2, as_json)
        if hasattr(error, "format_message"):  # typer's own: an unknown option, an argument left out
            message = f"{error.format_message().rstrip('.')}. See 'opbridge --help', or the --help of the command."
            return _failed(error, message, 2, as_json)
        if debug:
            traceback.print_exc()
        return _failed(error, _describe_bug(error, debug), 3, as_json)


def _failed(error: Exception, message: str, status: int, as_json: bool) -> int:
    console.print_error(Console(stderr=True), message)
    if as_json:
        document: dict[str, Any] = {"ok": False, "error": {"kind": type(error).__name__, "message": message}}
        for name in ("plan", "verification"):
            if hasattr(error, name):
                document[name] = getattr(error, name).to_json()
        _print_json(document)
    return status


def _describe_bug(error: Exception, debug: bool) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")
    advice = "" if debug else " Run it again with --debug for the traceback, and"
    return (
        f"opbridge failed unexpectedly (this is a bug) with {message}, in {place.name} at "
        f"{Path(place.filename).name}:{place.lineno}.{advice or ' Please'} report it with the model's factory."
    )


def _load(spec: str) -> specs.Subject:
    return specs.load(spec, known=inspect.signature(opbridge.export).parameters.keys() - _NOT_KEYWORDS)


def _keywords(
    function: Callable[..., Any],
    subject: specs.Subject,
    opset: int | None,
    allow: list[str] | None,
    only: list[str] | None,
    operator_export_type: str | None,
    target: str | None,
    dynamic_shapes: str | None,
) -> dict[str, Any]:
    """The factory's keywords that a function of opbridge takes, with the command line's options put over them."""
    options = _given(
        opset_version=opset, operator_export_type=operator_export_type, target=target, dynamic_shapes=dynamic_shapes
    )
    keywords = {**subject.keywords, **options}
    if only:
        keywords["allow"] = _items(only)
    if allow:
        default = inspect.signature(function).parameters["allow"].default
        keywords["allow"] = tuple(dict.fromkeys((*keywords.get("allow", default), *_items(allow))))
    return _accepted(function, keywords)


def _raw(spec: str, opset: int | None, dynamic_shapes: str | None, shaping: Mapping[str, Any]) -> Answer:
    """The answer of `export --raw`; `shaping` are the options given that shape a file."""
    if shaping:
        option = f"--{next(iter(shaping)).replace('_', '-')}"
        raise UsageError(
            f"--raw prints the capture, of which nothing is translated or written, so {option} has no part in it. "
            "Leave one of them out; --operator-export-type RAW writes a file in which every operator stands as it is."
        )
    from opbridge import pipeline

    subject = _load(spec)
    options = {**subject.keywords, **_given(opset_version=opset, dynamic_shapes=dynamic_shapes)}
    found = pipeline.raw(subject.model, subject.args, **_accepted(pipeline.raw, options))
    return Answer(found.to_json(), lambda screen: console.print_raw(screen, found))


def _items(given: list[str]) -> tuple[str, ...]:
    """The items of an option that may be repeated and may list several: `--allow kernel,aten`."""
    return tuple(item for text in given for item in text.replace(",", " ").split())


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _accepted(function: Callable[..., Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    names = inspect.signature(function).parameters
    return {name: value for name, value in keywords.items() if name in names}


def _near_names(pattern: str, operators: Sequence[str]) -> list[str]:
    """The operators whose names look most like a pattern that fits none."""
    wanted = pattern.rpartition("::")[2].strip("*?")
    by_name: dict[str, list[str]] = {}
    for operator in dict.fromkeys(operators):
        by_name.setdefault(operator.rpartition("::")[2].partition(".")[0], []).append(operator)
    return [operator for name in difflib.get_close_matches(wanted, by_name, n=3) for operator in by_name[name]]


@contextlib.contextmanager
def _stdout_kept_clear() -> Iterator[None]:
    """Sends what the model prints meanwhile, from Python or from native code, to stderr instead."""
    sys.stdout.flush()
    with contextlib.redirect_stdout(sys.stderr):
        saved = os.dup(1)
        os.dup2(2, 1)
        try:
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def _print_json(document: Mapping[str, Any]) -> None:
    print(json.dumps(_plain_data(document), indent=2), flush=True)


def _plain_data(value: Any) -> Any:
    """A value as JSON has it, which has no infinities and no NaN: they become text."""
    if isinstance(value, Mapping):
        return {str(key): _plain_data(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain_data(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
