"""Models of bfloat16 on the CPU, which ONNX Runtime has hardly any kernels for: they are run in float32.

Such a file is right for a GPU. What is loaded here has Casts around its nodes, which the file does not get.
"""

from __future__ import annotations

import os

import onnx
import onnx_ir as ir
import onnxruntime
from onnx_ir.passes.common import InlinePass, ShapeInferencePass

from opbridge.base.wording import counted
from opbridge.onnx import opsets, reading, serialize
from opbridge.onnx.wider_types import Kernels, widen
from opbridge.runtimes.onnxruntime.kernel_table import CASTS, lacks_kernel

__all__ = ["widened"]

_FOLDER = "session.model_external_initializers_file_folder_path"


def widened(model: str | bytes, options: onnxruntime.SessionOptions) -> tuple[bytes, str] | None:
    """A model whose nodes of bfloat16 compute in float32, and what there is to say of it; None: it has none of them.

    Args:
        model: The path of the file, or its content.
        options: The options of the session, which is told where the weights of the file are.

    Raises:
        ModelFileError: The file cannot be read.
        SaveError: It has 2 GB or more with the Casts.
    """
    loaded = reading.load(model)
    opset = loaded.graph.opset_imports.get("", 0)
    if not opsets.OLDEST <= opset <= onnx.defs.onnx_opset_version():
        return None
    if loaded.functions:
        InlinePass()(loaded)  # as ONNX Runtime does; values in functions have no types
    if any(value.dtype is None for node in loaded.graph.all_nodes() for value in node.outputs):
        ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(loaded)
    if not any(value.dtype == ir.DataType.BFLOAT16 for node in loaded.graph.all_nodes() for value in node.outputs):
        return None
    label = f"onnxruntime {onnxruntime.__version__}"
    found = widen(loaded, Kernels(label, opset, opset, lacks_kernel, CASTS), only={ir.DataType.BFLOAT16})
    count = found.nodes.get(ir.DataType.BFLOAT16, 0)
    if not count:
        return None
    verb = "was" if count == 1 else "were"
    note = (
        f"{counted(count, 'node')} of bfloat16 {verb} run in float32, because {label} has no kernels for them on the "
        "CPU; the file keeps bfloat16"
    )
    if isinstance(model, str) and _has_external_data(loaded):
        options.add_session_config_entry(_FOLDER, os.path.dirname(os.path.abspath(model)))
        return ir.to_proto(loaded).SerializeToString(), note
    return serialize.to_bytes(loaded), note


def _has_external_data(model: ir.Model) -> bool:
    return any(isinstance(each.const_value, ir.ExternalTensor) for each in model.graph.initializers.values())
