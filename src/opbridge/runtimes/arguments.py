"""What a session says of its model: inputs, outputs, metadata, as onnxruntime's sessions say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ModelMetadata", "NodeArgument"]


@dataclass(frozen=True)
class NodeArgument:
    """An input or output of a model, as onnxruntime.NodeArg says it.

    Attributes:
        name: Its name.
        type: "tensor(float)".
        shape: Its sizes: numbers, names, or None.
    """

    name: str
    type: str
    shape: list[Any]


@dataclass(frozen=True)
class ModelMetadata:
    """What a file says of itself, as onnxruntime.ModelMetadata does.

    Attributes:
        producer_name: The exporter's name.
        graph_name: The graph's name.
        domain: The model's domain.
        description: Of the model.
        graph_description: Of the graph.
        version: The model's version.
        custom_metadata_map: Its metadata.
    """

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]
