"""An onnx_ir model -> the content of an ONNX file, without a copy of its weights."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import onnx_ir as ir

from opbridge.errors import SaveError
from opbridge.onnx.embedding import nested_initializers, with_embedded_tensors
from opbridge.onnx.sink import Sink, readable_size
from opbridge.onnx.torch_tensor import SAMPLED, TorchTensor
from opbridge.onnx.wire import GRAPH, INITIALIZER, RAW_DATA, field_header

if TYPE_CHECKING:
    import onnx

__all__ = [
    "MAX_FILE_BYTES",
    "TOO_LARGE_WITHOUT_WEIGHTS",
    "Content",
    "ExternalData",
    "Places",
    "damage_is_said",
    "identity",
    "serialize",
    "to_bytes",
    "write_external_data",
    "write_model",
    "written",
]

MAX_FILE_BYTES = 2**31 - 1 - 2**20
"""Protobuf refuses a message of 2**31 bytes. The margin is for tools that add a little to a file and write it again."""

# The alignment of offsets in the file of external data. ONNX recommends pages, so that they can be mapped into memory;
# for small weights the gaps would be too large, and a cache line suffices for aligned loads.
_PAGE_BYTES, _LARGE_WEIGHT_BYTES, _CACHE_LINE_BYTES = 4096, 1 << 20, 64

# So many bytes of two weights are compared first.
_BEGINNING_BYTES = 1024

TOO_LARGE_WITHOUT_WEIGHTS = (
    "The model was not written: even without the weights of its main graph it exceeds the 2 GB limit of protobuf. "
    "Move large tensors in Constant nodes, subgraphs or functions to initializers of the main graph, which are "
    "stored in a separate file."
)


def to_bytes(model: ir.Model) -> bytes:
    """The content of an ONNX file with a model and all its weights.

    Raises:
        SaveError: The model is larger than the 2 GB that one file can hold, or an initializer has no data.
        UsageError: A weight is a PyTorch tensor on the meta device or a fake tensor.
    """
    return written(serialize(model))


def written(content: Content) -> bytes:
    """The content of a file, of what was serialized.

    Raises:
        SaveError: As for `to_bytes`.
    """
    if (size := content.size()) > MAX_FILE_BYTES:
        raise SaveError(
            f"The model has {readable_size(size)}, but a model in memory is limited to 2 GB by protobuf. Save it "
            "to a file with external data, and use that file."
        )
    buffer = io.BytesIO()
    write_model(Sink(buffer, "The model"), content)
    return buffer.getvalue()


@dataclass
class _Weight:
    """An initializer of the main graph.

    Attributes:
        proto: Its TensorProto, without the data unless they are strings.
        tensor: The tensor with the data; None if they are in `proto` or in the file of external data.
    """

    proto: onnx.TensorProto
    tensor: ir.TensorProtocol | None

    def header(self) -> bytes:
        """The bytes of the initializer that precede its raw data, from its tag in the GraphProto on."""
        head: bytes = self.proto.SerializeToString()
        raw = b"" if self.tensor is None else field_header(RAW_DATA, self.tensor.nbytes)
        return field_header(INITIALIZER, len(head) + len(raw) + self.nbytes) + head + raw

    @property
    def nbytes(self) -> int:
        """The number of bytes of raw data in the model file."""
        return 0 if self.tensor is None else self.tensor.nbytes


@dataclass
class Content:
    """A serialized model, in the order of the file.

    Attributes:
        model: The ModelProto up to its graph.
        rest: What follows the graph. Fields are in the order of their numbers, which OpenVINO tells an ONNX file by.
        graph: The GraphProto without its initializers.
        weights: The initializers of the main graph.
    """

    model: bytes
    rest: bytes
    graph: bytes
    weights: list[_Weight] = field(default_factory=list)

    def graph_size(self) -> int:
        """The number of bytes of the GraphProto in the model file."""
        return len(self.graph) + sum(len(weight.header()) + weight.nbytes for weight in self.weights)

    def size(self) -> int:
        """The number of bytes of the model file."""
        graph = self.graph_size()
        return len(self.model) + len(field_header(GRAPH, graph)) + graph + len(self.rest)

    def mark(self) -> bytes:
        """The same bytes for the same content, and almost always others for another: few of each weight are read."""
        found = hashlib.sha256(self.model)
        found.update(self.rest)
        found.update(self.graph)
        for weight in self.weights:
            found.update(weight.proto.SerializeToString())
            if weight.tensor is not None:
                found.update(_sample(weight.tensor))
        return found.digest()

    def move_weights_out(self, data: Places) -> None:
        """Turns all but the smallest weights into external data.

        Args:
            data: Where they go, such as the content of a file, which gets the weights that it does not hold yet.
        """
        for weight in self.weights:
            tensor = weight.tensor
            if tensor is None or tensor.nbytes < data.smallest:
                continue
            place = data.place(weight.proto.name, tensor)
            if place is None:
                continue
            location, offset = place
            weight.proto.data_location = weight.proto.EXTERNAL
            for key, value in (("location", location), ("offset", offset), ("length", tensor.nbytes)):
                weight.proto.external_data.add(key=key, value=str(value))
            weight.tensor = None


class Places(Protocol):
    """Where the external data of a model are.

    Attributes:
        smallest: The bytes from which on a weight is external.
    """

    @property
    def smallest(self) -> int: ...

    def place(self, name: str, tensor: ir.TensorProtocol) -> tuple[str, int] | None:
        """The file and the offset of a weight; None: it stays in the model file."""


@dataclass
class ExternalData:
    """The content of a file of external data, of one model or of several. Weights that share memory are stored once.

    Attributes:
        location: The name of the file, relative to the model files.
        smallest: The bytes from which on a weight is external. Smaller ones stay in the model file, where shape
            inference and other tools look for them.
        finds_equal: Whether weights with the same bytes are stored once as well: several models may hold copies of what
            was computed from one weight, such as its transpose.
        stored: The offset, the name and the tensor of each weight, by ascending offset.
    """

    location: str
    smallest: int = 1024
    finds_equal: bool = False
    stored: list[tuple[int, str, ir.TensorProtocol]] = field(default_factory=list)
    _offsets: dict[Hashable, int] = field(default_factory=dict)
    _alike: dict[Hashable, list[tuple[int, ir.TensorProtocol]]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the file."""
        if not self.stored:
            return 0
        offset, _, last = self.stored[-1]
        return offset + last.nbytes

    def place(self, name: str, tensor: ir.TensorProtocol) -> tuple[str, int]:
        """The file and the offset of a weight, which is added where the file does not have it yet."""
        key = identity(tensor)
        if key not in self._offsets:
            known = self._equal(tensor) if self.finds_equal else None
            self._offsets[key] = self._add(name, tensor) if known is None else known
        return self.location, self._offsets[key]

    def _add(self, name: str, tensor: ir.TensorProtocol) -> int:
        step = _PAGE_BYTES if tensor.nbytes >= _LARGE_WEIGHT_BYTES else _CACHE_LINE_BYTES
        offset = -(-self.nbytes // step) * step
        self.stored.append((offset, name, tensor))
        if self.finds_equal:
            self._alike.setdefault(_beginning(tensor), []).append((offset, tensor))
        return offset

    def _equal(self, tensor: ir.TensorProtocol) -> int | None:
        """The offset of a weight with the same bytes."""
        found = self._alike.get(_beginning(tensor), ())
        return next((offset for offset, other in found if np.array_equal(_content(tensor), _content(other))), None)


def _without_data(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """A tensor with the same description and no data."""
    return ir.LazyTensor(
        lambda: ir.Tensor(np.empty(0, np.uint8)),
        dtype=tensor.dtype,
        shape=cast(ir.Shape, tensor.shape),
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def serialize(model: ir.Model) -> Content:
    """Serializes a model, all but the data of its main graph's initializers.

    onnx_ir serializes a view of the graph whose initializers have no data, so that the file is the same as onnx_ir
    would write. The model is not changed.

    Raises:
        SaveError: An initializer has no data, or the model without weights is larger than 2 GB.
    """
    from google.protobuf.message import EncodeError

    with damage_is_said():
        model = with_embedded_tensors(model)
    graph = model.graph
    initializers = []
    for value in graph.initializers.values():
        if value.const_value is None:
            raise SaveError(
                f"The initializer {value.name!r} has no data, so the model cannot be written. Set its const_value, "
                "or make it an input of the graph."
            )
        tensor = value.const_value
        initializer = ir.Value(
            name=value.name,
            shape=value.shape,
            type=value.type,
            doc_string=value.doc_string,
            const_value=tensor if tensor.dtype == ir.DataType.STRING else _without_data(tensor),
            metadata_props=value.metadata_props,
        )
        initializer.meta.update(value.meta)
        initializers.append(initializer)
    view = ir.GraphView(
        graph.inputs,
        graph.outputs,
        nodes=graph,
        initializers=initializers,
        doc_string=graph.doc_string,
        opset_imports=graph.opset_imports,
        name=graph.name,
        metadata_props=graph.metadata_props,
    )
    model_without_data = ir.Model(
        cast(ir.Graph, view),
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=tuple(model.functions.values()),
        metadata_props=model.metadata_props,
        device_configurations=model.device_configurations,
    )
    with damage_is_said(), _restoring_tensor_names(model):
        proto = ir.to_proto(model_without_data)
    # OpenVINO takes no file of which two of the first three fields are the same, as the opsets of two domains would be.
    proto.producer_name = proto.producer_name
    proto.producer_version = proto.producer_version

    weights = []
    for tensor_proto, value in zip(proto.graph.initializer, graph.initializers.values(), strict=True):
        has_strings = tensor_proto.data_type == tensor_proto.STRING
        tensor_proto.ClearField("raw_data")
        weights.append(_Weight(tensor_proto, None if has_strings else value.const_value))
    proto.graph.ClearField("initializer")
    try:
        graph_bytes = proto.graph.SerializeToString()
    except EncodeError as error:
        raise SaveError(TOO_LARGE_WITHOUT_WEIGHTS) from error
    proto.ClearField("graph")
    rest = type(proto)()
    rest.CopyFrom(proto)
    for field_, _ in proto.ListFields():
        (proto if field_.number > GRAPH else rest).ClearField(field_.name)
    return Content(proto.SerializeToString(), rest.SerializeToString(), graph_bytes, weights)


@contextlib.contextmanager
def damage_is_said() -> Iterator[None]:
    """Says of a model that cannot be serialized what is wrong with it.

    Raises:
        SaveError: It cannot.
    """
    try:
        yield
    except (ir.serde.SerdeError, OSError, TypeError, ValueError) as error:
        inner: BaseException = error
        while inner.__cause__ is not None:  # onnx_ir says the field only, and its cause what is wrong
            inner = inner.__cause__
        said = " ".join(f"{type(inner).__name__}: {inner}".split())[:300]
        raise SaveError(f"The model cannot be written ({said}), because it is damaged. Export it again.") from error


@contextlib.contextmanager
def _restoring_tensor_names(model: ir.Model) -> Iterator[None]:
    """Restores the names of tensors afterwards: onnx_ir names an initializer's tensor after the initializer."""
    values = (*model.graph.initializers.values(), *nested_initializers(model))
    names = [(value.const_value, value.const_value.name) for value in values if value.const_value is not None]
    try:
        yield
    finally:
        for tensor, name in names:
            tensor.name = name


def write_model(sink: Sink, content: Content) -> None:
    """Writes the model file.

    Raises:
        SaveError: The file cannot be written, or a weight cannot be read.
    """
    sink.write(content.model)
    sink.write(field_header(GRAPH, content.graph_size()))
    sink.write(content.graph)
    for weight in content.weights:
        sink.write(weight.header())
        if weight.tensor is not None:
            sink.write_tensor(weight.proto.name, weight.tensor)
    sink.write(content.rest)


def write_external_data(sink: Sink, data: ExternalData) -> None:
    """Writes the file of external data.

    Raises:
        SaveError: The file cannot be written, or a weight cannot be read.
    """
    for offset, name, tensor in data.stored:
        sink.write(bytes(offset - sink.position))
        sink.write_tensor(name, tensor)


def _content(tensor: ir.TensorProtocol) -> np.ndarray:
    """The raw data of a tensor as bytes; a view of its memory where that is possible."""
    return np.frombuffer(tensor.raw() if isinstance(tensor, TorchTensor) else tensor.tobytes(), np.uint8)


def _sample(tensor: ir.TensorProtocol) -> bytes:
    """Some bytes of a tensor in memory; none where they would have to be computed or read."""
    if isinstance(tensor, TorchTensor):
        return tensor.sample()
    if type(tensor) is ir.Tensor and isinstance(tensor.raw, np.ndarray) and tensor.raw.size:
        return tensor.raw.flat[:: -(-tensor.raw.size // SAMPLED)].tobytes()
    return b""


def _beginning(tensor: ir.TensorProtocol) -> Hashable:
    """What is equal for tensors with the same bytes, and for few others."""
    return tensor.nbytes, _content(tensor)[:_BEGINNING_BYTES].tobytes()


def identity(tensor: ir.TensorProtocol) -> Hashable:
    """A key that is equal for tensors that are known to have the same bytes."""
    if isinstance(tensor, TorchTensor):
        return tensor.identity() or id(tensor)
    if isinstance(tensor, ir.ExternalTensor):
        return (tensor.path, tensor.offset, tensor.nbytes)
    return id(tensor)
