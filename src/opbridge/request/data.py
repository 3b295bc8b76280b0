"""The request of an export, in groups: each stage reads its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opbridge.base.progress import Progress
from opbridge.capture.config import CaptureConfig
from opbridge.capture.model_module import name_of
from opbridge.capture.resolved_call import ResolvedCall
from opbridge.fit.fused.fusing import Fusing
from opbridge.fit.target import Target
from opbridge.kernels.triton.launches import Settings
from opbridge.plan.permitted_routes import PermittedRoutes
from opbridge.request.output_config import OutputConfig
from opbridge.request.verification_config import VerificationConfig
from opbridge.translate.graph_names import GraphNames
from opbridge.translations.registry import Registry

if TYPE_CHECKING:
    import os

    from opbridge.reports.report import Report

__all__ = ["BuildConfig", "ExportRequest", "Listeners"]


@dataclass(frozen=True)
class BuildConfig:
    """How a captured graph becomes an ONNX model: what plan, translate and fit read.

    Attributes:
        registry: The translations and symbolic functions.
        target: What the model is fitted to, with the opset that it is built for.
        opset_version: The opset that the user gave; None: that of the target may be another for a model of bfloat16.
        routes: The routes that operators may take.
        names: Names for the graph's inputs and outputs.
        custom_opsets: The versions of domains other than ONNX's own.
        fusing: The fused forms that the model may have; None: none.
        folding: Whether batch normalizations are folded into the weights before them.
    """

    registry: Registry
    target: Target
    opset_version: int | None = None
    routes: PermittedRoutes = field(default_factory=PermittedRoutes)
    names: GraphNames = field(default_factory=GraphNames)
    custom_opsets: Mapping[str, int] = field(default_factory=dict)
    fusing: Fusing | None = None
    folding: bool = False


@dataclass(frozen=True)
class Listeners:
    """Who is told of the stages.

    Attributes:
        progress: Receives the stages as they run; None: those that take long are logged.
        report: The path of an HTML page to write, or a report that another call writes; None: there is none.
    """

    progress: Progress | None = None
    report: str | os.PathLike[str] | Report | None = None


@dataclass(frozen=True, eq=False)
class ExportRequest:
    """What is asked of an export.

    Attributes:
        call: The model and its example inputs.
        capturing: How it is captured.
        building: How the graph becomes an ONNX model.
        verification: How the model is compared with PyTorch; None: it is not.
        output: What is written.
        kernels: How Triton kernels are compiled.
        listeners: Who is told of the stages.
        notes: What is known of the model before it is captured.
    """

    call: ResolvedCall
    capturing: CaptureConfig
    building: BuildConfig
    verification: VerificationConfig | None
    output: OutputConfig
    kernels: Settings
    listeners: Listeners
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What is exported, in the title of a report: the file, or the name of the model."""
        return name_of(self.call.model) if self.output.path is None else str(self.output.path)
