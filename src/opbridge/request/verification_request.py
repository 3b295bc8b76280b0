"""From the arguments of `opbridge.verify` to its request: all that is wrong with them is raised here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opbridge.errors import UsageError
from opbridge.fit.fused import fusing
from opbridge.request.verification_config import VerificationConfig
from opbridge.runtimes.known import BUILDERS, ONNXRUNTIME
from opbridge.tasks import prepare

if TYPE_CHECKING:
    from opbridge.reports.report import Report
    from opbridge.runtimes.limits import Limits

__all__ = ["VerificationRequest", "verification_request"]


@dataclass(frozen=True, eq=False)
class VerificationRequest:
    """What is asked of a verification.

    Attributes:
        subject: The path of an ONNX file, or a program.
        model: The model to compare it with; None: a program's own.
        args: Positional example inputs; None: a program's own.
        kwargs: Keyword example inputs.
        dynamic_shapes: Which dimensions may vary; None: those of the file.
        configs: How it is verified in each runtime.
        is_in_several: Whether the runtimes were given in a list, which gives a result for each.
        kernels: The paths of libraries with kernels that the file requires.
        report: The page of HTML to write, or a report that another call writes; None: there is none.
    """

    subject: Any
    model: Any
    args: Any
    kwargs: Mapping[str, Any] | None
    dynamic_shapes: Any
    configs: tuple[VerificationConfig, ...]
    is_in_several: bool
    kernels: tuple[str | os.PathLike[str], ...]
    report: str | os.PathLike[str] | Report | None

    @property
    def is_file(self) -> bool:
        """Whether the subject is a file, and not a program."""
        return isinstance(self.subject, (str, os.PathLike))

    @property
    def label(self) -> str:
        """What is verified, in the title of a report."""
        return os.fsdecode(self.subject) if self.is_file else "the program"


def verification_request(
    path_or_program: Any,
    model: Any = None,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    samples: int = 2,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    aten: str | Sequence[str] = (),
    kernels: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    inputs: Any = None,
    isolated: bool | Limits = False,
    task: str | None = None,
    runtime: str | list[str] | tuple[str, ...] = ONNXRUNTIME,
    profile: Mapping[str, Any] | None = None,
    report: str | os.PathLike[str] | Report | None = None,
) -> VerificationRequest:
    """The request of a verification. The arguments are those of `opbridge.verify`, which describes them.

    Raises:
        UsageError: Arguments that cannot be used.
    """
    if task is not None:
        if not isinstance(path_or_program, (str, os.PathLike)):
            raise UsageError(
                "task= is not supported for a Program, which has its own inputs. Leave it out, or verify the saved "
                "file."
            )
        contiguous = fusing.is_contiguous(path_or_program)
        prepared = prepare(task, model, () if args is None else args, kwargs, dynamic_shapes, contiguous=contiguous)
        args, kwargs, dynamic_shapes = (), prepared.kwargs, prepared.dynamic_shapes
        inputs = prepared.inputs if inputs is None else inputs
    is_in_several = not isinstance(runtime, str)
    allowed = (aten,) if isinstance(aten, str) else tuple(aten)

    def config(name: str) -> VerificationConfig:
        own = allowed if name == ONNXRUNTIME or not is_in_several else ()
        ranges = profile if name in BUILDERS or not is_in_several else None
        return VerificationConfig(
            samples, seed, rtol, atol, own, inputs, isolated=isolated, runtime=name, profile=ranges
        )

    return VerificationRequest(
        path_or_program,
        model,
        args,
        kwargs,
        dynamic_shapes,
        tuple(config(name) for name in _runtimes(runtime)),
        is_in_several,
        (kernels,) if isinstance(kernels, (str, os.PathLike)) else tuple(kernels),
        report,
    )


def _runtimes(runtime: str | Sequence[str]) -> list[str]:
    """The names of runtimes, each once.

    Raises:
        UsageError: They are none.
    """
    if isinstance(runtime, str):
        return [runtime]
    names = list(dict.fromkeys(runtime))
    if not names or not all(isinstance(each, str) for each in names):
        raise UsageError(
            f"runtime={runtime!r} contains no runtime. Expected names such as runtime=['onnxruntime', 'openvino']."
        )
    return names
