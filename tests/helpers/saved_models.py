"""Models that give their weights as outputs, and what of them is in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import torch

from opbridge.onnx.torch_tensor import TorchTensor

__all__ = ["data_of", "external_entries", "listing", "model_of", "torch_model", "weights_of"]


def model_of(weights: dict[str, ir.TensorProtocol]) -> ir.Model:
    """A model that gives each of its weights as an output."""
    values = [
        ir.Value(name=name, const_value=tensor, shape=tensor.shape, type=ir.TensorType(tensor.dtype))
        for name, tensor in weights.items()
    ]
    nodes = [ir.node("Identity", [value]) for value in values]
    for node, value in zip(nodes, values, strict=True):
        node.outputs[0].name = f"{value.name}_out"
        node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
    graph = ir.Graph(
        [],
        [node.outputs[0] for node in nodes],
        nodes=nodes,
        initializers=values,
        name="weights",
        opset_imports={"": 20},
    )
    return ir.Model(graph, ir_version=10, producer_name="test", metadata_props={"opbridge.version": "0"})


def torch_model(**weights: torch.Tensor) -> ir.Model:
    return model_of({name: TorchTensor(tensor, name) for name, tensor in weights.items()})


def weights_of(path: Path) -> dict[str, np.ndarray]:
    """What ONNX Runtime reads out of a file that `model_of` made."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return {name.removesuffix("_out"): array for name, array in zip(names, session.run(names, {}), strict=True)}


def listing(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def data_of(path: Path) -> Path:
    """The only file of external data that an ONNX file names."""
    [name] = {entry["location"] for entry in external_entries(path).values()}
    return path.with_name(name)


def external_entries(path: Path) -> dict[str, dict[str, str]]:
    proto = onnx.load(path, load_external_data=False)
    return {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in proto.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    }
