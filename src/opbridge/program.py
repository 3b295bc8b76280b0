"""What an export gives: the ONNX model, its plan, its verification."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opbridge.errors import SaveError, TargetError, UsageError, VerificationError

if TYPE_CHECKING:
    import onnx_ir as ir
    import onnxruntime

    from opbridge.capture import Capture
    from opbridge.fixing import Change
    from opbridge.plan.data import Plan
    from opbridge.precision import Narrowed
    from opbridge.reports.picture import Picture
    from opbridge.reports.report import Report
    from opbridge.rules import Findings
    from opbridge.runtimes.limits import Limits
    from opbridge.runtimes.onnxruntime import IsolatedSession
    from opbridge.runtimes.sessions import RuntimeSession
    from opbridge.verification import Verification

__all__ = ["Program", "Spent", "session", "target_error", "tell_plan", "verification_error"]


@dataclass
class Program:
    """An exported model.

    Attributes:
        model: The ONNX model. Its weights are the PyTorch model's own memory, until it is saved.
        plan: The route of every operator.
        capture: What it was made from.
        path: Where it was saved; None before that.
        files: The files that saving wrote: the model, and its weights where they stand beside it.
        verification: The comparison with PyTorch; None where none was made.
        kernels: What the model calls that the runtime has no kernel for by itself, as "domain::name". `session` knows
            those that come with opbridge, and takes the libraries of others.
        unverified: Why it could not be compared although that was asked for; "" where it was, or was not asked for.
        timings: Seconds that each stage took, by its name.
        peaks: The most memory that the process had held when each stage ended, in bytes, by its name.
        repairs: What was changed for the target, where the model was exported for another one than ONNX Runtime.
        findings: What the target does not take of it, or takes otherwise; None where it was exported for ONNX Runtime.
        architectures: The CUDA architectures that were asked for; none: those of `export`'s default.
        libraries: The libraries with the model's Triton kernels that saving wrote beside it; `session` takes them as
            `kernels`.
        narrowed: The cast to float16 or bfloat16, compared with the float32 model that was verified; None where
            none was asked for.
    """

    model: ir.Model = field(repr=False)
    plan: Plan = field(repr=False)
    capture: Capture = field(repr=False)
    path: Path | None = None
    files: list[Path] = field(default_factory=list)
    verification: Verification | None = None
    kernels: list[str] = field(default_factory=list)
    unverified: str = ""
    timings: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    repairs: Sequence[Change] = ()
    findings: Findings | None = None
    architectures: tuple[str, ...] = ()
    libraries: list[Path] = field(default_factory=list)
    narrowed: Narrowed | None = None

    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None) -> None:
        """Writes the model, whole or not at all.

        Args:
            path: The file to write.
            external_data: Whether weights go to a file beside it, `<name>.<8 hexadecimal digits>.data`, with a name of
                its own for each save; None: only where one file cannot hold them (2 GB, protobuf's limit).

        The library with its Triton kernels, where it has any, is written beside it: `<name>.kernels.so`.

        Raises:
            SaveError: it cannot be written; what stood at the path before is still there.
            KernelError: a Triton kernel does not compile for one of the architectures.
        """
        from opbridge.save import writer

        target = Path(path)
        self.files = writer.save(self.model, target, external_data=external_data)
        self.path = target
        self.save_libraries(target)

    def save_libraries(self, path: Path) -> None:
        """Writes the library with the model's Triton kernels beside its file, where it has any.

        Args:
            path: The file.

        Raises:
            SaveError: It cannot be written.
            KernelError: A kernel does not compile for one of the architectures.
        """
        if not any(name.startswith("triton::") for name in self.kernels):
            return
        from opbridge.kernels.copying import copied
        from opbridge.kernels.triton.building import library_for

        built = library_for(self.kernels, self.architectures)
        if built is not None:
            self.libraries = [copied(built, path.with_name(f"{path.stem}.kernels{built.suffix}"))]
            self.files = [*self.files, *self.libraries]

    def to_bytes(self) -> bytes:
        """The model as the content of an ONNX file, weights included.

        Raises:
            SaveError: it is larger than the 2 GB that one file can hold.
        """
        from opbridge.onnx import serialize

        return serialize.to_bytes(self.model)

    def session(self, **options: Any) -> onnxruntime.InferenceSession | IsolatedSession:
        """An ONNX Runtime session with this model, and with the kernels that this process has loaded.

        Args:
            **options: `kernels`, `aten`, `isolated`, `providers`, `options` and `threads`, as `opbridge.session` takes
                them. What this program itself hands to PyTorch need not be named in `aten`.

        Raises:
            ModelFileError: ONNX Runtime refuses the model.
        """
        from opbridge.runtimes import onnxruntime as runtime

        given = options.pop("aten", ())
        aten = (*([given] if isinstance(given, str) else given), *self.aten_operators())
        return runtime.open_session(
            self.path if self.path is not None else self.to_bytes(), loaded=True, aten=aten, **options
        )

    def tell(self, report: Report) -> None:
        """Tells a report all that is known of the program."""
        from opbridge.reports.report import files_of

        tell_plan(report, self.capture, self.plan, self.model, Spent(self.timings, self.peaks))
        report.verifications = [] if self.verification is None else [self.verification.to_json()]
        report.findings = None if self.findings is None else self.findings.document()
        report.files = files_of(self.files)
        report.unverified = self.unverified

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from opbridge.pages.notebook import of_report
        from opbridge.reports.report import Report

        report = Report("export", "the exported model" if self.path is None else str(self.path))
        self.tell(report)
        document = report.document()
        return of_report(document, report.page_of(document))

    def aten_operators(self) -> tuple[str, ...]:
        """The operators that the model hands to PyTorch, as "aten::topk"."""
        from opbridge.nodes.aten_node import called_operators

        return called_operators(self.model)


@dataclass
class Spent:
    """What the stages took, by their names.

    Attributes:
        seconds: How long.
        peaks: The most memory that the process had held when they ended, in bytes.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)


def tell_plan(report: Report, capture: Capture, plan: Plan, built: ir.Model | None, spent: Spent) -> None:
    """Tells a report what the stages before the verification gave."""
    from opbridge.reports import of_capture, of_file

    def draw() -> Picture:
        if capture.mode == "trace" and built is not None:
            return of_file.picture_of_model(built)
        return of_capture.picture_of_capture(
            capture.functional.graph, plan.steps, built, capture.model, capture.dim_names
        )

    report.plan = plan.to_json()
    report.draw = draw
    report.stages = [
        {"name": name, "seconds": seconds, "peak": spent.peaks.get(name, 0)} for name, seconds in spent.seconds.items()
    ]


def session(
    model: str | os.PathLike[str] | bytes,
    *,
    kernels: Sequence[str | os.PathLike[str]] = (),
    aten: Sequence[str] = (),
    isolated: bool | Limits = False,
    runtime: str = "onnxruntime",
    **options: Any,
) -> onnxruntime.InferenceSession | IsolatedSession | RuntimeSession:
    """Creates a session for an exported model; torch is required only for aten nodes.

    Args:
        model: The file, or its bytes.
        kernels: The paths of libraries with kernels that the model requires; built-in kernels are found
            automatically. A model file contains no library paths, so no other library is loaded.
        aten: For a model with nodes that PyTorch runs (the route `aten`; this needs torch): operators that may run
            beside those that may in any case, by name or pattern, such as "torchvision::*" or "aten::empty*". A model
            is untrusted data: only operators of `aten` run of which hostile calls showed that they read and write
            nothing but their arguments, unless you name others.
        isolated: Whether the model runs in a separate process with limits: a crash of that process raises a RunError
            for that call, and the next call starts a new process. `opbridge.Limits` sets the limits.
            The session then has those methods of ONNX Runtime's that run a model, and takes no `options`.
        runtime: What runs the model: "onnxruntime", "cuda", "openvino", "web", "browser", "webgpu", "mnn", "ncnn",
            "tensorrt-rtx" or "reference". "cuda" is ONNX Runtime on a GPU, "cuda:1" on the second one, with products in
            float32 and not in TF32. A session of another runtime than ONNX Runtime has the methods get_inputs,
            get_outputs, get_modelmeta and run of its sessions, runs in a process of its own (the reference
            evaluator where `isolated` asks for it), and takes none of the other options, but for OpenVINO, which runs
            `kernels`.
        **options: `providers` (names of execution providers), `options` (an onnxruntime.SessionOptions), `threads` (of
            the session's own pool); `profile` of TensorRT-RTX: by the names of dynamic dimensions a size, or
            (min, opt, max).

    The session's `run` takes NumPy arrays, or PyTorch's tensors, and then returns tensors. Those on the GPU of a
    session on CUDA are neither copied to the CPU nor back.

    A process that is forked after a session was made has none of its threads: the session's `run` raises a UsageError
    there, which says what to do. One of `threads=1` runs there too, if PyTorch runs none of its nodes.

    Raises:
        ModelFileError: the file is missing or damaged, or the runtime refuses it; the message says which.
        UsageError: the runtime is unknown, not installed, or does not support an option.
    """
    if runtime.partition(":")[0] == "cuda":
        options["providers"] = _on_cuda(runtime, options.get("providers"))
    elif runtime != "onnxruntime":
        from opbridge.runtimes.sessions import open_runtime

        profile = options.pop("profile", None)
        given = [name for name, value in {"aten": aten, **options}.items() if value]
        if given:
            raise UsageError(
                f"{given[0]}= is valid only for ONNX Runtime, not for runtime='{runtime}'. Leave one of them out."
            )
        libraries = [kernels] if isinstance(kernels, (str, os.PathLike)) else kernels
        return open_runtime(runtime, model, isolated, libraries, profile)
    from opbridge.runtimes.onnxruntime import open_session

    return open_session(model, isolated, kernels=kernels, aten=aten, **options)


def _on_cuda(runtime: str, providers: Any) -> list[Any]:
    """The execution providers of a session on a GPU.

    Raises:
        UsageError: The installed ONNX Runtime has no CUDA, the number of the GPU is none, or `providers` are given too.
    """
    from opbridge.runtimes import known
    from opbridge.runtimes.onnxruntime import cuda_provider

    if providers:
        raise UsageError(f"providers= and runtime='{runtime}' both choose what runs the model. Leave one of them out.")
    known.installed(runtime)
    return cuda_provider.providers(known.split(runtime)[1])


def target_error(program: Program, path: Path | None, external_data: bool | None) -> TargetError:
    """The error for a program that its target does not take, whose file it keeps under another name."""
    from opbridge.save.failed import keep_failed

    findings = program.findings
    assert findings is not None
    text = findings.describe_errors()
    if path is None:
        return TargetError(text, findings)
    try:
        kept = keep_failed(program.model, path, findings.counted(), external_data=external_data)
    except SaveError as error:
        return TargetError(f"{text}\nThe exported file could not be saved ({error}).", findings)
    proved = "" if program.verification is None else ", which agrees with PyTorch,"
    if proved and program.narrowed is not None:
        proved = f", cast to {program.narrowed.precision} from a model that agrees with PyTorch,"
    return TargetError(f"{text}\nThe exported file{proved} was saved as {kept}.", findings, kept)


def verification_error(program: Program, path: Path | None, external_data: bool | None) -> VerificationError:
    """The error for a program that failed its verification, whose file it keeps under another name."""
    from opbridge.save.failed import keep_failed

    verification = program.verification
    assert verification is not None
    if path is None:
        return VerificationError(verification)
    stands = f"{path} is unchanged" if os.path.lexists(path) else f"{path} was not written"
    try:
        kept = keep_failed(program.model, path, verification.summary(), external_data=external_data)
    except SaveError as error:
        return VerificationError(verification, kept=f"The exported file could not be saved ({error}); {stands}.")
    return VerificationError(verification, kept, f"The exported file was saved as {kept} for inspection; {stands}.")
