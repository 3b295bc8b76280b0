"""An onnx_ir model -> the content of an ONNX file, written without a copy of its weights."""

from __future__ import annotations

import contextlib
import errno
import io
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np
import onnx_ir as ir

from opbridge.errors import SaveError
from opbridge.onnx.torch_tensor import TorchTensor
from opbridge.onnx.wire import GRAPH, INITIALIZER, RAW_DATA, field_header

if TYPE_CHECKING:
    import onnx

__all__ = [
    "ONE_FILE_BYTES",
    "Content",
    "Sink",
    "WritableFile",
    "readable_size",
    "serialize",
    "to_bytes",
    "write_failure",
    "write_model",
]

# Offsets in the weights file: ONNX recommends pages, for mapping them into memory, which is worth the gap for large
# weights only; a cache line suits any kernel's loads.
_PAGE_BYTES, _PAGE_FROM_BYTES, _CACHE_LINE_BYTES = 4096, 1 << 20, 64


TOO_MUCH_INSIDE = (
    "The model was not written: even without the weights of its main graph it is larger than 2 GB, protobuf's limit. "
    "Large tensors inside Constant nodes, subgraphs or functions have to become initializers of the main graph, which "
    "can go to a file of their own."
)


class WritableFile(Protocol):
    """What is asked of an open file."""

    def write(self, data: memoryview, /) -> object: ...
    def close(self) -> None: ...
    def fileno(self) -> int: ...


_T = TypeVar("_T")


# Protobuf refuses a message of 2**31 bytes. The margin is for tools that add a little to a file and write it again.
ONE_FILE_BYTES = 2**31 - 1 - 2**20


# Smaller weights stay in the model file, where shape inference and other tools look for them.
_EXTERNAL_BYTES = 1024


def to_bytes(model: ir.Model) -> bytes:
    """A model as the content of an ONNX file, with its weights inside.

    Raises:
        SaveError: It is larger than the 2 GB that one file can hold.
        UsageError: A weight has no data.
    """
    content = serialize(model)
    if (size := content.size()) > ONE_FILE_BYTES:
        raise SaveError(
            f"The model is {readable_size(size)} large, and a model in memory can have at most 2 GB, a limit of "
            "protobuf's. Save it to a file, which keeps the weights in a second one, and use that."
        )
    buffer = io.BytesIO()
    write_model(Sink(buffer, "The model"), content)
    return buffer.getvalue()


@dataclass
class _Weight:
    """An initializer of the main graph.

    Attributes:
        proto: Its TensorProto without the data, unless the data are strings.
        tensor: Where the data come from; None when they are in `proto` or in another file.
    """

    proto: onnx.TensorProto
    tensor: ir.TensorProtocol | None

    def header(self) -> bytes:
        """Everything that stands before the raw data, from the initializer's own tag on."""
        head: bytes = self.proto.SerializeToString()
        raw = b"" if self.tensor is None else field_header(RAW_DATA, self.tensor.nbytes)
        return field_header(INITIALIZER, len(head) + len(raw) + self.nbytes) + head + raw

    @property
    def nbytes(self) -> int:
        return 0 if self.tensor is None else self.tensor.nbytes


@dataclass
class Content:
    """A model, serialized all but the initializers of its main graph."""

    model: bytes
    graph: bytes
    weights: list[_Weight] = field(default_factory=list)

    def graph_size(self) -> int:
        return len(self.graph) + sum(len(weight.header()) + weight.nbytes for weight in self.weights)

    def size(self) -> int:
        graph = self.graph_size()
        return len(self.model) + len(field_header(GRAPH, graph)) + graph

    def move_out(self, location: str) -> list[tuple[int, str, ir.TensorProtocol]]:
        """Takes all but the smallest weights out of the file.

        Returns:
            What the weights file is to hold: offsets, ascending, with names and tensors.
        """
        stored: list[tuple[int, str, ir.TensorProtocol]] = []
        offsets: dict[Hashable, int] = {}
        end = 0
        for weight in self.weights:
            tensor = weight.tensor
            if tensor is None or tensor.nbytes < _EXTERNAL_BYTES:
                continue
            identity = _identity(tensor)
            if identity not in offsets:
                step = _PAGE_BYTES if tensor.nbytes >= _PAGE_FROM_BYTES else _CACHE_LINE_BYTES
                offset = -(-end // step) * step
                stored.append((offset, weight.proto.name, tensor))
                offsets[identity] = offset
                end = offset + tensor.nbytes
            weight.proto.data_location = weight.proto.EXTERNAL
            for key, value in (("location", location), ("offset", offsets[identity]), ("length", tensor.nbytes)):
                weight.proto.external_data.add(key=key, value=str(value))
            weight.tensor = None
        return stored


def _outline(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """A tensor's description, with no data to serialize."""
    return ir.LazyTensor(
        lambda: ir.Tensor(np.empty(0, np.uint8)),
        dtype=tensor.dtype,
        shape=cast(ir.Shape, tensor.shape),
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def serialize(model: ir.Model) -> Content:
    """Serializes a model without the data of its main graph's initializers.

    onnx_ir does it, on a view of the graph whose initializers are stand-ins, so that the file holds exactly what
    onnx_ir would write.
    """
    from google.protobuf.message import EncodeError

    model = _with_nested_data_inside(model)
    graph = model.graph
    stand_ins = []
    for value in graph.initializers.values():
        if value.const_value is None:
            raise SaveError(
                f"The initializer {value.name!r} has no data, so the model cannot be written. Give it a const_value, "
                "or make it an input of the graph."
            )
        tensor = value.const_value
        stand_in = ir.Value(
            name=value.name,
            shape=value.shape,
            type=value.type,
            doc_string=value.doc_string,
            const_value=tensor if tensor.dtype == ir.DataType.STRING else _outline(tensor),
            metadata_props=value.metadata_props,
        )
        stand_in.meta.update(value.meta)
        stand_ins.append(stand_in)
    view = ir.GraphView(
        graph.inputs,
        graph.outputs,
        nodes=graph,
        initializers=stand_ins,
        doc_string=graph.doc_string,
        opset_imports=graph.opset_imports,
        name=graph.name,
        metadata_props=graph.metadata_props,
    )
    outline = ir.Model(
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
    with _names_kept(model):
        proto = ir.to_proto(outline)

    weights = []
    for tensor_proto, value in zip(proto.graph.initializer, graph.initializers.values(), strict=True):
        has_strings = tensor_proto.data_type == tensor_proto.STRING
        tensor_proto.ClearField("raw_data")
        weights.append(_Weight(tensor_proto, None if has_strings else value.const_value))
    proto.graph.ClearField("initializer")
    try:
        graph_bytes = proto.graph.SerializeToString()
    except EncodeError as error:
        raise SaveError(TOO_MUCH_INSIDE) from error
    proto.ClearField("graph")
    return Content(proto.SerializeToString(), graph_bytes, weights)


def _with_nested_data_inside(model: ir.Model) -> ir.Model:
    """The model, or a copy of it in which tensors of nodes and subgraphs lie in no other file.

    onnx_ir writes an `ir.ExternalTensor` as the reference that it is, which would be to a file of another folder.
    """
    if not any(isinstance(tensor, ir.ExternalTensor) for tensor in _nested_tensors(model)):
        return model
    model = model.clone()
    for value in _nested_initializers(model):
        value.const_value = _inside(value.const_value)
    for node in _nodes(model):
        for name, attribute in node.attributes.items():
            if attribute.is_ref():
                continue
            if attribute.type == ir.AttributeType.TENSOR:
                node.attributes[name] = ir.AttrTensor(name, _inside(attribute.value))
            elif attribute.type == ir.AttributeType.TENSORS:
                node.attributes[name] = ir.AttrTensors(name, [_inside(tensor) for tensor in attribute.value])
    return model


def _inside(tensor: Any) -> Any:
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    return ir.LazyTensor(
        lambda: ir.Tensor(_read(tensor.numpy, tensor.name, tensor), dtype=tensor.dtype),
        dtype=tensor.dtype,
        shape=tensor.shape,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=tensor.metadata_props,
    )


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    yield from model.graph.all_nodes()
    for function in model.functions.values():
        yield from function.all_nodes()


def _nested_initializers(model: ir.Model) -> Iterator[ir.Value]:
    owners: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for owner in owners:
        for graph in owner.subgraphs():
            yield from graph.initializers.values()


def _nested_tensors(model: ir.Model) -> Iterator[Any]:
    for value in _nested_initializers(model):
        yield value.const_value
    for node in _nodes(model):
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.TENSOR:
                yield attribute.value
            elif attribute.type == ir.AttributeType.TENSORS:
                yield from attribute.value or ()


@contextlib.contextmanager
def _names_kept(model: ir.Model) -> Iterator[None]:
    """Undoes what serializing does to a model: onnx_ir names an initializer's tensor after the initializer."""
    values = (*model.graph.initializers.values(), *_nested_initializers(model))
    names = [(value.const_value, value.const_value.name) for value in values if value.const_value is not None]
    try:
        yield
    finally:
        for tensor, name in names:
            tensor.name = name


def _identity(tensor: ir.TensorProtocol) -> Hashable:
    """Equal for tensors that are known to hold the same bytes."""
    if isinstance(tensor, TorchTensor):
        return tensor.identity() or id(tensor)
    if isinstance(tensor, ir.ExternalTensor):
        return (tensor.path, tensor.offset, tensor.nbytes)
    return id(tensor)


class Sink:
    """A file that is written to. It has no `fileno`, which onnx_ir would use to write behind this class's back."""

    def __init__(self, file: WritableFile, target: Path | str) -> None:
        self._file = file
        self._target = target
        self.position = 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        try:
            self._file.write(view)
        except OSError as error:
            raise write_failure(self._target, error) from error
        self.position += view.nbytes
        return view.nbytes

    def write_tensor(self, name: str, tensor: ir.TensorProtocol) -> None:
        """Writes a tensor's bytes.

        Raises:
            SaveError: They cannot be read, or are not as many as the tensor says.
        """
        start = self.position
        _read(lambda: self._copy(tensor), name, tensor)
        if (count := self.position - start) != tensor.nbytes:
            raise SaveError(
                f"{self._target} was not written: the weight {name!r} should have {tensor.nbytes} bytes by its "
                f"shape {tensor.shape} and type {tensor.dtype.name}, and gave {count}. Give it a tensor that is what "
                "it says."
            )

    def _copy(self, tensor: ir.TensorProtocol) -> None:
        if type(tensor) is ir.Tensor and isinstance(tensor.raw, np.ndarray):
            array = tensor.raw
            if array.flags.c_contiguous and array.nbytes == tensor.nbytes:
                self.write(array.reshape(-1).view(np.uint8))  # without the copy that tobytes() makes
                return
        to_file = getattr(tensor, "tofile", None)  # in onnx_ir's tensors, not in its protocol
        if to_file is None:
            self.write(tensor.tobytes())
        else:
            to_file(self)


def _read(read: Callable[[], _T], name: str | None, tensor: ir.TensorProtocol) -> _T:
    try:
        return read()
    except OSError as error:
        source = f" from {tensor.path}" if isinstance(tensor, ir.ExternalTensor) else ""
        raise SaveError(
            f"The model was not written: its weight {name!r} cannot be read{source} ({error}). Put its file back, or "
            "load the model again, and save it then."
        ) from error


def write_model(sink: Sink, content: Content) -> None:
    sink.write(content.model)
    sink.write(field_header(GRAPH, content.graph_size()))
    sink.write(content.graph)
    for weight in content.weights:
        sink.write(weight.header())
        if weight.tensor is not None:
            sink.write_tensor(weight.proto.name, weight.tensor)


_CAUSES = {
    errno.ENOSPC: ("the disk is full", "Free some space, or save to another disk"),
    errno.EDQUOT: ("your quota on that disk is used up", "Free some space, or save to another disk"),
    errno.EFBIG: (
        "the file is larger than the disk's format or a limit of this process (ulimit -f) allows",
        "Raise the limit, or save to another disk",
    ),
    errno.EROFS: ("the disk is mounted read-only", "Save to another folder"),
    errno.EACCES: ("the folder does not permit it", "Choose a folder that you may write to, or change its permissions"),
    errno.EPERM: ("the folder does not permit it", "Choose a folder that you may write to, or change its permissions"),
    errno.ENAMETOOLONG: ("the name is too long for the disk", "Choose a shorter one"),
    errno.ENOTDIR: ("what its path names as a folder is a file", "Choose another path"),
}


def write_failure(target: Path | str, error: OSError) -> SaveError:
    cause, remedy = _CAUSES.get(error.errno or 0, (str(error), "Look into that, or save to another folder"))
    return SaveError(f"{target} was not written: {cause}. What stood there before is still there. {remedy}.")


def readable_size(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
