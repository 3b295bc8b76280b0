"""Casts in this process, so that a test takes milliseconds; `test_casting.py` has some in processes of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import opbridge
from opbridge.conversion.converting import converted_in_place
from opbridge.conversion.types import inferred, mistyped
from opbridge.errors import ModelFileError, RunError
from opbridge.precision import feeding, preparing, steps
from opbridge.precision.formats import Format
from opbridge.precision.forms import Form, form_of
from opbridge.precision.preparing import Prepared, prepared
from opbridge.precision.types import graphs


class InProcess:
    """A session of this process, which raises what one in a process of its own raises."""

    def __init__(self, model: Any, data_folder: str | None = None) -> None:
        options = onnxruntime.SessionOptions()
        if data_folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", data_folder)
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ModelFileError(str(error)) from error
        self.get_inputs, self.get_outputs = self._session.get_inputs, self._session.get_outputs

    def run(self, names: Any, feeds: Any) -> Any:
        try:
            # A BatchNormalization in training writes what it gives into the arrays that it is given.
            return self._session.run(names, {name: array.copy() for name, array in feeds.items()})
        except Exception as error:
            raise RunError(str(error)) from error

    def close(self) -> None:
        """Nothing is to be ended."""


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        feeding, "open_session", lambda model, *_, data_folder=None, **__: InProcess(model, data_folder)
    )
    monkeypatch.setattr(preparing, "inferred", lambda model: inferred(model, isolated=False))
    here = functools.partial(converted_in_place, isolated=False)
    monkeypatch.setattr(preparing, "converted_in_place", here)
    monkeypatch.setattr(steps, "mistyped", lambda model: mistyped(model, isolated=False))


@pytest.fixture
def cast(in_process: None) -> Callable[..., opbridge.Narrowed]:
    """`opbridge.cast` of a model as text; the result is valid, with strict types."""

    def made(text: str | bytes, to: str = "float16", **options: Any) -> opbridge.Narrowed:
        content = onnx.parser.parse_model(text).SerializeToString() if isinstance(text, str) else text
        found = opbridge.cast(content, to, **options)
        checked = onnx.ModelProto.FromString(found.to_bytes())
        onnx.checker.check_model(checked)
        onnx.shape_inference.infer_shapes(checked, check_type=True, strict_mode=True)
        return found

    return made


@pytest.fixture
def ready(in_process: None) -> Iterator[Callable[..., tuple[Prepared, Callable[[ir.Node], Form]]]]:
    """A model as text, ready to be cast, and the form of its nodes."""

    def made(text: str, to: Format) -> tuple[Prepared, Callable[[ir.Node], Form]]:
        found = prepared(ir.from_proto(onnx.parser.parse_model(text)), "the model", to)
        return found, lambda node: form_of(node, found.opsets[1], to, found.floats)

    yield made


def operators(model: ir.Model) -> list[str]:
    """The operators of a model, those of bodies too."""
    return [node.op_type for graph in graphs(model.graph) for node in graph]


def node_of(model: ir.Model, operator: str) -> ir.Node:
    """The first node of an operator."""
    return next(node for graph in graphs(model.graph) for node in graph if node.op_type == operator)


def ran(model: ir.Model | bytes, **feeds: Any) -> list[np.ndarray]:
    """What a model gives."""
    content = model if isinstance(model, bytes) else ir.to_proto(model).SerializeToString()
    return InProcess(content).run(None, feeds)
