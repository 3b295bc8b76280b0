"""The exporters that are compared, each behind the same face."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import torch

from opbridge import pipeline
from opbridge.base.routes import ROUTES
from opbridge.coverage.building import builder_of, exported_to_build
from opbridge.program import session
from opbridge.runtimes import known
from opbridge.runtimes.sessions import RuntimeSession

if TYPE_CHECKING:
    import onnxruntime

    from opbridge.coverage.calling import Call
    from opbridge.program import Program

__all__ = ["EXPORTERS", "Exported", "export", "text_of"]

_LONGEST_TEXT = 6000
_LARGEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Exported:
    """A model as an exporter left it.

    Attributes:
        load: Makes an ONNX Runtime session of it.
        content: Gives the content of its file.
        routes: The route of every operator; empty for exporters that know none.
        program: What opbridge's own exporter returned.
    """

    load: Callable[[], onnxruntime.InferenceSession]
    content: Callable[[], bytes]
    routes: Mapping[str, str] = field(default_factory=dict)
    program: Program | None = None

    def session(self, runtime: str) -> Any:
        """A session in a runtime: in this process, which is a sweep's own."""
        if runtime == known.ONNXRUNTIME:
            return self.load()
        return RuntimeSession(known.installed(runtime), self.content(), None)

    @property
    def route(self) -> str | None:
        """The worst of the routes; a model without an operator is standard."""
        if self.program is None:
            return None
        return max(self.routes.values(), key=ROUTES.index, default="standard")


@dataclass(frozen=True)
class _Asked:
    """What an exporter is asked for.

    Attributes:
        model: What is exported.
        args: Its inputs.
        names: Their names.
        opset: The opset; None: the exporter's own.
        allow: The routes that opbridge may take.
        target: What opbridge exports for; the other exporters know no targets.
    """

    model: Call
    args: tuple[Any, ...]
    names: list[str]
    opset: int | None
    allow: Sequence[str]
    target: str | None


def _opbridge(asked: _Asked) -> Exported:
    options: dict[str, Any] = {
        "input_names": asked.names,
        "verify": False,
        "opset_version": asked.opset,
        "allow": tuple(asked.allow),
        "target": asked.target,
    }
    if builder_of(asked.target) is None:
        run = pipeline.export(asked.model, asked.args, **options)
        return Exported(lambda: run.session(threads=1), run.to_bytes, _routes(run), run)
    with tempfile.TemporaryDirectory(prefix="opbridge-operators-") as folder:
        program, file = exported_to_build(asked.model, asked.args, Path(folder) / "model.onnx", **options)
        content = onnx.load(file).SerializeToString()  # with the weights that stand beside it
    return Exported(lambda: session(content, threads=1), lambda: content, _routes(program), program)


def _routes(program: Program | None) -> dict[str, str]:
    rows = () if program is None else program.plan.rows
    return {row.operator: row.route for row in rows if row.route is not None}


def _dynamo(asked: _Asked) -> Exported:
    program = torch.onnx.export(
        asked.model, asked.args, input_names=asked.names, dynamo=True, verbose=False, opset_version=asked.opset
    )
    content = program.model_proto.SerializeToString()
    return Exported(lambda: session(content, threads=1), lambda: content)


def _torchscript(asked: _Asked) -> Exported:
    file = io.BytesIO()
    torch.onnx.export(asked.model, asked.args, file, input_names=asked.names, dynamo=False, opset_version=asked.opset)
    return Exported(lambda: session(file.getvalue(), threads=1), file.getvalue)


EXPORTERS = {"opbridge": _opbridge, "torch": _dynamo, "torchscript": _torchscript}
"""By name: opbridge's own, torch.onnx.export(dynamo=True), torch.onnx.export(dynamo=False)."""


def export(
    exporter: str,
    model: Call,
    args: tuple[torch.Tensor, ...],
    opset: int | None,
    allow: Sequence[str],
    target: str | None = None,
) -> Exported:
    """Exports a sample, by opbridge for a target. Its inputs are named x0, x1 and so on.

    Raises:
        Exception: whatever the exporter raises.
    """
    names = [f"x{position}" for position in range(len(args))]
    copies = tuple(tensor.clone() for tensor in args)  # TorchScript's exporter runs operators that write to them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EXPORTERS[exporter](_Asked(model, copies, names, opset, allow, target))


def text_of(exported: Exported) -> str:
    """The ONNX model as text, for a person; empty where it is large, or is none."""
    try:
        content = exported.content()
        if len(content) > _LARGEST_BYTES:
            return ""
        text = str(onnx.printer.to_text(onnx.load_from_string(content)))
    except Exception:  # of a model that failed, whatever is wrong with it
        return ""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} ..."
