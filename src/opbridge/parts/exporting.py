"""check, export and verify, of all parts of a set."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from opbridge import pipeline
from opbridge.base.progress import Progress
from opbridge.errors import OpbridgeError, SaveError, UsageError, VerificationError
from opbridge.fit.shared_weights import store_once
from opbridge.model_support import caches
from opbridge.onnx import reading
from opbridge.parts.data import ExportedParts, GivenParts, PartsVerification
from opbridge.parts.folder import made, part_path, refuse_unwritable, weights_path
from opbridge.reports.of_set import reporting_set
from opbridge.reports.report import files_of
from opbridge.request import ExportRequest, Listeners, VerificationConfig, export_request
from opbridge.save import writer
from opbridge.save.failed import keep_failed_set, remove_failed_set
from opbridge.save.staging import clear_abandoned

if TYPE_CHECKING:
    from opbridge.parts.data import Part
    from opbridge.plan.data import Plan
    from opbridge.program import Program
    from opbridge.reports.of_set import SetReport
    from opbridge.verification import Verification

__all__ = ["check", "export", "verify"]

_OF_ONE_PART = (
    "kwargs",
    "dynamic_shapes",
    "dynamic_axes",
    "input_names",
    "output_names",
    "inputs",
    "model",
    "args",
    "f",
)
_OF_VERIFICATION = ("rtol", "atol", "inputs")


def check(parts: GivenParts, keywords: Mapping[str, Any]) -> dict[str, Plan]:
    """`Parts.check`."""
    _refuse(keywords, pipeline.check, "check")
    names = inspect.signature(pipeline.check).parameters
    plans = {}
    with reporting_set(keywords.get("report"), "check", None) as told:
        for name, part in parts.parts.items():
            given = {key: value for key, value in {**part.keywords, **keywords}.items() if key in names}
            with _naming(name):
                plans[name] = pipeline.check(part.model, part.args, **{**given, "report": told.part(name)})
    return plans


def export(parts: GivenParts, folder: Path | None, keywords: dict[str, Any]) -> ExportedParts:
    """`Parts.export`."""
    _refuse(keywords, pipeline.export, "export")
    keywords = dict(keywords)
    with reporting_set(keywords.pop("report", None), "export", folder) as told:
        return _exported(parts, folder, keywords, told)


def _exported(parts: GivenParts, folder: Path | None, keywords: dict[str, Any], told: SetReport) -> ExportedParts:
    """`export`, which tells the report: the requests of all parts are made before the first part is exported."""
    is_compared, external = keywords.pop("verify", True), keywords.pop("external_data", None) is not False
    progress = keywords.pop("progress", None)
    if folder is not None:
        refuse_unwritable(folder, parts.parts)
    requests = {name: _request(name, part, keywords, is_compared) for name, part in parts.parts.items()}
    of_run = _config_of_run(parts, keywords) if is_compared else None
    done = ExportedParts({})
    told.late = lambda: _tell(told, done)
    for name, request in requests.items():
        listeners = Listeners(progress and _StagesOfPart(progress, name), told.part(name))
        with _naming(name):
            unverified = dataclasses.replace(request, verification=None, listeners=listeners)
            done.programs[name] = _exported_part(parts.parts[name].model, unverified)
        _add_timings(done, done.programs[name].timings)
    if external:
        store_once([program.model for program in done.programs.values()])
    models = {} if folder is None else {part_path(folder, name): each.model for name, each in done.programs.items()}
    with contextlib.ExitStack() as files:
        staged = None
        if folder is not None:
            files.enter_context(made(folder))
            with _timed(done, "save", progress) as detail:
                weights = weights_path(folder)
                staged = files.enter_context(writer.staged_set(models, weights, external_data=external))
                detail(f"{staged.size():,} bytes")
            for name, program in done.programs.items():
                program.path = staged.paths[part_path(folder, name)]
        if of_run is not None:
            _verify(parts, done, requests, of_run, folder, progress)
        if staged is not None and folder is not None and _failed(done) is None:
            done.files, done.path = staged.commit(), folder
            for name, program in done.programs.items():
                program.path = part_path(folder, name)
                program.files = [program.path, *done.files[len(models) :]]
    if (failed := _failed(done)) is not None:
        raise _verification_error(failed, models, folder, external)
    if folder is not None and is_compared and not done.unverified:
        remove_failed_set(models, weights_path(folder))
    return done


def _request(name: str, part: Part, keywords: Mapping[str, Any], is_compared: bool) -> ExportRequest:
    """The request of a part; its verification is made once all parts are exported.

    Raises:
        UsageError: Arguments that cannot be used; the message names the part.
    """
    given = {**part.keywords, **keywords}
    if not is_compared:
        given = {key: value for key, value in given.items() if key not in _OF_VERIFICATION}
    with _naming(name):
        request = export_request(part.model, part.args, verify=is_compared, **given)
    if request.verification is None:
        return request
    return dataclasses.replace(request, verification=dataclasses.replace(request.verification, complete=False))


@caches.taking_caches
def _exported_part(model: Any, request: ExportRequest) -> Program:
    """The program of a part, which is for this model."""
    return pipeline.export_requested(request)


def verify(parts: GivenParts, folder: Path, options: Mapping[str, Any]) -> PartsVerification:
    """`Parts.verify`."""
    from opbridge.verification import verify as verify_file

    _refuse(options, verify_file, "verify")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder. Give the folder that Parts.export wrote.")
    clear_abandoned(folder)  # an export that was killed while it renamed the files is finished
    found = {}
    options, of_run = dict(options), _config_of_run(parts, options)
    with reporting_set(options.pop("report", None), "verify", folder) as told:
        for name, part in parts.parts.items():
            own = {key: part.keywords[key] for key in ("dynamic_shapes", *_OF_VERIFICATION) if key in part.keywords}
            given = {**own, **options, "report": told.part(name)}
            with _naming(name):
                path = part_path(folder, name)
                found[name] = verify_file(path, part.model, part.args, part.keywords.get("kwargs"), **given)
        done = PartsVerification(found)
        if parts.run is None or not done.ok:
            return done
        calls = {
            name: _call_of_file(name, part, part_path(folder, name), options) for name, part in parts.parts.items()
        }
        run = _verified_run(parts, calls, f"the run of {folder}", of_run)
        told.run = run.to_json()
    return PartsVerification(found, run)


def _verify(
    parts: GivenParts,
    done: ExportedParts,
    requests: Mapping[str, ExportRequest],
    of_run: VerificationConfig,
    folder: Path | None,
    progress: Any,
) -> None:
    """Compares each part as its request says, and then the pipeline where all agree."""
    from opbridge.verification import verify_program

    for name, program in done.programs.items():
        if program.plan.unverified:
            program.unverified = program.plan.unverified
            done.unverified = done.unverified or f"part '{name}': {program.unverified}"
            continue
        subject = f"part '{name}'" + (f" ({part_path(folder, name)})" if folder is not None else "")
        with _naming(name), _timed(done, "verify", progress and _StagesOfPart(progress, name)) as detail:
            program.verification = verify_program(program, requests[name].verification, subject)
            detail(program.verification.summary())
    if parts.run is None or done.unverified or _failed(done) is not None:
        return
    with _timed(done, "run", progress) as detail:
        calls = {name: _call_of_program(name, program) for name, program in done.programs.items()}
        subject = "the run of all parts" + (f" ({folder})" if folder is not None else "")
        done.verification = _verified_run(parts, calls, subject, of_run)
        detail(done.verification.summary())


def _tell(told: SetReport, done: ExportedParts) -> None:
    """Tells a report what is known of the set."""
    told.run = None if done.verification is None else done.verification.to_json()
    told.seconds, told.files, told.unverified = done.timings, files_of(done.files), done.unverified


def _call_of_program(name: str, program: Program) -> Any:
    from opbridge.verification.part_calls import PartCall
    from opbridge.verification.shelter import sheltered

    capture = program.capture
    session = sheltered(program.session, lambda: program.model, False, repeats=lambda: bool(program.aten_operators()))
    return PartCall(name, session, capture.model, capture.args, capture.kwargs, capture, lambda: program.model)


def _call_of_file(name: str, part: Part, path: Path, options: Mapping[str, Any]) -> Any:
    from opbridge.kernels import aten
    from opbridge.runtimes import onnxruntime as runtime
    from opbridge.runtimes.onnxruntime.model_file import required_kernels
    from opbridge.verification.part_calls import PartCall
    from opbridge.verification.shelter import sheltered

    def load() -> ir.Model:
        return reading.load(str(path))

    open_ = functools.partial(runtime.open_session, path, loaded=True, aten=options.get("aten", ()))
    isolated = options.get("isolated", False)
    session = sheltered(open_, load, isolated, repeats=lambda: aten.NAME in required_kernels(str(path)))
    return PartCall(name, session, part.model, part.args, part.kwargs, None, load)


def _config_of_run(parts: GivenParts, given: Mapping[str, Any]) -> VerificationConfig:
    """How the whole pipeline is verified, of what is given for all parts.

    Raises:
        UsageError: Options that cannot be used.
    """
    names = {each.name for each in dataclasses.fields(VerificationConfig)} - {"aten", "inputs"}
    return VerificationConfig(**{key: given[key] for key in names & given.keys()}, inputs=parts.inputs)


def _verified_run(
    parts: GivenParts, calls: Mapping[str, Any], subject: str, config: VerificationConfig
) -> Verification:
    from opbridge.verification.run_of_parts import RunOfParts

    models = {name: part.model for name, part in parts.parts.items()}
    assert parts.run is not None
    return RunOfParts(subject, parts.run, models, calls, parts.args, parts.kwargs, config).verify()


def _failed(done: ExportedParts) -> Verification | None:
    """The first comparison that failed."""
    found = [*(program.verification for program in done.programs.values()), done.verification]
    return next((each for each in found if each is not None and not each.ok), None)


def _verification_error(
    failed: Verification, models: Mapping[Path, ir.Model], folder: Path | None, external: bool
) -> VerificationError:
    """The error for a set that failed, whose files it keeps under other names."""
    if folder is None:
        return VerificationError(failed)
    stands = [path.name for path in models if path.exists()]
    before = f"{', '.join(stands)} in {folder} are unchanged" if stands else f"{folder} contains no other set"
    try:
        with made(folder):
            kept = keep_failed_set(models, weights_path(folder), failed.summary(), external_data=external)
    except SaveError as error:
        return VerificationError(failed, kept=f"The exported files could not be saved ({error}); {before}.")
    names = ", ".join(path.name for path in kept)
    return VerificationError(
        failed, kept[0], f"The exported set was saved as {names} in {folder} for inspection; {before}."
    )


def _refuse(keywords: Mapping[str, Any], function: Any, method: str) -> None:
    """Refuses keywords that are for one part, and unknown ones.

    Raises:
        UsageError: There are such.
    """
    for key in keywords:
        if key in _OF_ONE_PART:
            raise UsageError(f"{key}= is not supported by Parts.{method}. Give it in the keywords of each part.")
        parameters = inspect.signature(function).parameters
        if key not in parameters:
            raise UsageError(
                f"Parts.{method}: unknown argument '{key}'. It accepts the arguments of opbridge.{function.__name__}."
            )


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Within this context, opbridge's errors begin with the name of the part."""
    try:
        yield
    except OpbridgeError as error:
        error.args = (f"Part '{name}': {error}", *error.args[1:])
        raise


class _StagesOfPart:
    """Shows the stages of one part, with its name."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self._name = progress, name

    def stage(self, name: str) -> contextlib.AbstractContextManager[Any]:
        return self._progress.stage(f"{self._name}: {name}")


@contextlib.contextmanager
def _timed(done: ExportedParts, name: str, progress: Any) -> Iterator[Any]:
    start = time.perf_counter()
    if progress is None:
        yield lambda text: None
    else:
        with progress.stage(name) as stage:
            yield stage.detail
    _add_timings(done, {name: time.perf_counter() - start})


def _add_timings(done: ExportedParts, timings: Mapping[str, float]) -> None:
    for name, seconds in timings.items():
        done.timings[name] = done.timings.get(name, 0.0) + seconds
