"""Models with types that ONNX Runtime has no kernels for on the CPU: their nodes are run in wider types.

Such a file is right for another runtime. What is loaded here has Casts around its nodes, which the file does not get.
"""

from __future__ import annotations

import os

import onnx
import onnx_ir as ir
import onnxruntime
from onnx_ir.passes.common import InlinePass, ShapeInferencePass

from opbridge.base.wording import counted, listed
from opbridge.onnx import opsets, reading, serialize
from opbridge.onnx.wider_types import INTEGERS, Kernels, Widened, widen
from opbridge.runtimes.onnxruntime.kernel_table import CASTS, lacks_kernel

__all__ = ["widened"]

_FOLDER = "session.model_external_initializers_file_folder_path"
_MOST_NAMED = 9


def widened(model: str | bytes, options: onnxruntime.SessionOptions) -> tuple[bytes, str] | None:
    """A model whose nodes without a kernel compute in wider types, and what there is to say of it; None: it has none.

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
    label = f"onnxruntime {onnxruntime.__version__}"
    found = widen(loaded, Kernels(label, opset, opset, lacks_kernel, CASTS))
    if not found.nodes:
        return None
    note = f"{_counted(found)}, because {label} has no kernels for them on the CPU; the file keeps its types"
    if isinstance(model, str) and _has_external_data(loaded):
        options.add_session_config_entry(_FOLDER, os.path.dirname(os.path.abspath(model)))
        return ir.to_proto(loaded).SerializeToString(), note
    return serialize.to_bytes(loaded), note


def _counted(found: Widened) -> str:
    """ "2 nodes of bfloat16 were run in float32 and 1 node of int8 was run in wider integers" """
    said = []
    for of_integers, wide in ((False, "float32"), (True, "wider integers")):
        nodes = {dtype: count for dtype, count in found.nodes.items() if (dtype in INTEGERS) == of_integers}
        if nodes:
            count, types = sum(nodes.values()), sorted(dtype.name.lower() for dtype in nodes)
            verb = "was" if count == 1 else "were"
            said.append(f"{counted(count, 'node')} of {listed(types, _MOST_NAMED)} {verb} run in {wide}")
    return " and ".join(said)


def _has_external_data(model: ir.Model) -> bool:
    return any(isinstance(each.const_value, ir.ExternalTensor) for each in model.graph.initializers.values())
