"""OpenVINO on the CPU, through its frontend for ONNX."""

from __future__ import annotations

import importlib.metadata
import io
import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from opbridge.errors import ModelFileError
from opbridge.kernels import openvino as openvino_kernels

__all__ = ["DOMAINS", "INSTALL", "ISOLATED", "KERNELS", "NAME", "TITLE", "load", "version"]

NAME = "openvino"
TITLE = "OpenVINO"
INSTALL = "pip install 'opbridge[openvino]'"
ISOLATED = True
KERNELS = True
DOMAINS = ("ai.onnx.ml", "com.microsoft", "org.openvinotoolkit", "mmdeploy")
"""Domains of which it has operators."""

# By default it computes in bfloat16 or float16 where the processor has these, and keeps results within their accuracy.
_CONFIGURATION = {
    "PERFORMANCE_HINT": "LATENCY",
    "EXECUTION_MODE_HINT": "ACCURACY",
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}


_FRONTEND = re.compile(
    r"FrontEnd API failed with \w+:|Model wasn't fully converted\.|Failed operations detailed log:|Summary:"
)


def version() -> str:
    """The version of the wheel."""
    try:
        return importlib.metadata.version("openvino")
    except importlib.metadata.PackageNotFoundError:
        return ""


class _Compiled:
    """A model that OpenVINO has compiled."""

    def __init__(self, compiled: Any) -> None:
        self._request = compiled.create_infer_request()
        self._compiled = compiled

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        for number, port in enumerate(self._compiled.inputs):
            name = next((each for each in feeds if each in port.names), None)
            if name is None:
                raise RuntimeError(f"input {number} of the compiled model ({sorted(port.names)}) was not given")
            self._request.set_tensor(port, _to_tensor(feeds[name], port.element_type))
        self._request.infer()
        return [_to_array(self._request.get_tensor(port)) for port in self._compiled.outputs]


def load(model: str | bytes, *kernels: str) -> _Compiled:
    """Loads a model; see `opbridge.runtimes.Runtime`."""
    import openvino

    core = openvino.Core()
    if kernels:
        extension, *libraries = kernels
        openvino_kernels.register(extension, libraries)
        core.add_extension(extension)
    try:
        read = core.read_model(io.BytesIO(model) if isinstance(model, bytes) else model)
        supported = set(core.get_property("CPU", "SUPPORTED_PROPERTIES"))
        configuration = {name: value for name, value in _CONFIGURATION.items() if name in supported}
        return _Compiled(core.compile_model(read, "CPU", configuration))
    except Exception as error:  # RuntimeError, and others of its bindings
        raise ModelFileError(f"OpenVINO {version()} cannot load the model: {_said(error)}") from error


def _said(error: Exception) -> str:
    """The text of an error without the places in OpenVINO's code."""
    lines = [each.strip() for each in str(error).splitlines()]
    kept = [each for each in lines if each and not each.startswith(("Exception from src", "Check '"))]
    return " ".join(_FRONTEND.sub("", " ".join(kept or lines)).split())[:2000]


def _to_tensor(array: np.ndarray, kind: Any) -> Any:
    import openvino

    if array.dtype.kind == "O":
        return openvino.Tensor(np.array(array.tolist(), np.str_).reshape(array.shape))
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    made = openvino.Tensor(kind, list(array.shape))
    if made.byte_size:
        made.data[...] = contiguous.view(made.data.dtype) if _is_other(contiguous.dtype) else contiguous
    return made


def _to_array(tensor: Any) -> np.ndarray:
    name = tensor.element_type.get_type_name()
    if name == "string":
        return np.asarray(tensor.str_data, object)
    data = np.array(tensor.data)
    if name == "boolean":
        return data.astype(np.bool_)
    other = {"bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}.get(name)
    return data.view(other) if other is not None else data


def _is_other(dtype: np.dtype) -> bool:
    """Whether a type is one that NumPy itself does not have."""
    return dtype.name.startswith(("bfloat", "float8"))
