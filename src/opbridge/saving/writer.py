"""An onnx_ir model -> a file, whole or not at all, at about the disk's speed."""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import stat
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import onnx_ir as ir

from opbridge.errors import SaveError, UsageError
from opbridge.saving.replacing import Replacement, WritableFile
from opbridge.saving.tensors import TorchTensor
from opbridge.saving.wire import GRAPH, INITIALIZER, RAW_DATA, fields, lead

if TYPE_CHECKING:
    import onnx

__all__ = ["save", "to_bytes"]

_T = TypeVar("_T")

# Protobuf refuses a message of 2**31 bytes. The margin is for tools that add a little to a file and write it again.
_ONE_FILE_BYTES = 2**31 - 1 - 2**20

# Smaller weights stay in the model file, where shape inference and other tools look for them.
_EXTERNAL_BYTES = 1024
# Offsets in the weights file: ONNX recommends pages, for mapping them into memory, which is worth the gap for large
# weights only; a cache line suits any kernel's loads.
_PAGE_BYTES, _PAGE_FROM_BYTES, _CACHE_LINE_BYTES = 4096, 1 << 20, 64

_TOO_MUCH_INSIDE = (
    "The model was not written: even without the weights of its main graph it is larger than 2 GB, protobuf's limit. "
    "Large tensors inside Constant nodes, subgraphs or functions have to become initializers of the main graph, which "
    "can go to a file of their own."
)


def save(model: ir.Model, path: str | os.PathLike[str], *, external_data: bool | None = None) -> list[Path]:
    """Writes a model as an ONNX file.

    1. The files are written under temporary names and put in place by renaming: either all of them are new, or what
       stood there before is still there.
    2. Weights go to the file straight from their own memory. What is not contiguous is copied in small pieces.
    3. With external data they lie in `<path>.data` beside the file, all but the smallest; initializers that share
       memory (tied parameters) lie there once.
    4. A weights file that the replaced model used, and that is no longer used, is removed. One that another ONNX file
       of the folder uses is neither removed nor replaced.

    The model is not changed. Weights that lie in the very file that is replaced (`ir.load` of the same path) are read
    before that; such a model has to be loaded again afterwards.

    Args:
        model: The model. Its initializers may be any onnx_ir tensors.
        path: Where to. A symbolic link there is replaced.
        external_data: Whether the weights go to a file of their own; None: only if they do not fit into one file.

    Returns:
        The files that were written, the model first.

    Raises:
        SaveError: The files could not be written; nothing has changed on the disk.
        UsageError: The path is no path, or a weight has no data to write.
    """
    target = _checked_path(path)
    weights_target = target.with_name(target.name + ".data")
    content = _serialize(model)
    size = content.size()
    if external_data is None:
        external_data = size > _ONE_FILE_BYTES
    elif not external_data and size > _ONE_FILE_BYTES:
        raise SaveError(
            f"{target} was not written: it would be {_readable(size)}, and one ONNX file holds at most 2 GB, a limit "
            "of protobuf's. Leave external_data out, or set it to True, to have the weights in a file beside it."
        )
    stored = content.move_out(weights_target.name) if external_data else []
    if content.size() > _ONE_FILE_BYTES:
        raise SaveError(_TOO_MUCH_INSIDE)

    superseded = _superseded(target, weights_target, replaced=bool(stored))
    try:
        if stored:
            _check_place(weights_target)
        with Replacement(target.parent) as files:
            if stored:
                offset, _, last = stored[-1]
                sink = _Sink(files.open(weights_target, offset + last.nbytes), weights_target)
                for offset, name, tensor in stored:
                    sink.write(bytes(offset - sink.position))
                    sink.write_tensor(name, tensor)
            _write_model(_Sink(files.open(target, content.size()), target), content)
            files.commit()
    except OSError as error:
        raise _refused(target, error) from error
    if superseded:
        with contextlib.suppress(OSError):
            weights_target.unlink()
    return [target, weights_target] if stored else [target]


def to_bytes(model: ir.Model) -> bytes:
    """A model as the content of an ONNX file, with its weights inside.

    Raises:
        SaveError: It is larger than the 2 GB that one file can hold.
        UsageError: A weight has no data.
    """
    content = _serialize(model)
    if (size := content.size()) > _ONE_FILE_BYTES:
        raise SaveError(
            f"The model is {_readable(size)} large, and a model in memory can have at most 2 GB, a limit of "
            "protobuf's. Save it to a file, which keeps the weights in a second one, and use that."
        )
    buffer = io.BytesIO()
    _write_model(_Sink(buffer, "The model"), content)
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

    def lead(self) -> bytes:
        """Everything that stands before the raw data, from the initializer's own tag on."""
        head: bytes = self.proto.SerializeToString()
        raw = b"" if self.tensor is None else lead(RAW_DATA, self.tensor.nbytes)
        return lead(INITIALIZER, len(head) + len(raw) + self.nbytes) + head + raw

    @property
    def nbytes(self) -> int:
        return 0 if self.tensor is None else self.tensor.nbytes


@dataclass
class _Content:
    """A model, serialized all but the initializers of its main graph."""

    model: bytes
    graph: bytes
    weights: list[_Weight] = field(default_factory=list)

    def graph_size(self) -> int:
        return len(self.graph) + sum(len(weight.lead()) + weight.nbytes for weight in self.weights)

    def size(self) -> int:
        graph = self.graph_size()
        return len(self.model) + len(lead(GRAPH, graph)) + graph

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


def _serialize(model: ir.Model) -> _Content:
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
        raise SaveError(_TOO_MUCH_INSIDE) from error
    proto.ClearField("graph")
    return _Content(proto.SerializeToString(), graph_bytes, weights)


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


class _Sink:
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
            raise _refused(self._target, error) from error
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


def _write_model(sink: _Sink, content: _Content) -> None:
    sink.write(content.model)
    sink.write(lead(GRAPH, content.graph_size()))
    sink.write(content.graph)
    for weight in content.weights:
        sink.write(weight.lead())
        if weight.tensor is not None:
            sink.write_tensor(weight.proto.name, weight.tensor)


def _checked_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a file can be put there.

    Raises:
        SaveError: It cannot; what is in the way is named.
    """
    try:
        target = Path(path)
        target.name.encode()  # goes into the file, as the location of the weights
        _check_place(target)
        if not target.parent.is_dir():
            raise SaveError(
                f"{target} was not written: there is no folder {target.parent}. Create it, or choose another path."
            )
    except TypeError:
        raise UsageError(f"A model is saved to a path, a string or pathlib.Path, not to {path!r}.") from None
    except ValueError as error:
        raise SaveError(f"Nothing was written: {path!r} is no path for a file ({error}). Choose another.") from None
    except OSError as error:
        raise _refused(target, error) from error
    return target


def _check_place(target: Path) -> None:
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe, not a file,"
        raise SaveError(f"Nothing was written: {kind} stands at {target}. Name a file to write.")


def _superseded(target: Path, weights: Path, *, replaced: bool) -> bool:
    """Whether a weights file, of a model that is about to be replaced, is to be removed afterwards.

    Raises:
        SaveError: The weights file is to be replaced, and a model beside this one uses it.
    """
    if not os.path.isfile(weights):
        return False
    users = [file for file in target.parent.glob("*.onnx") if file != target and _mentions(file, weights.name)]
    if replaced and users:
        raise SaveError(
            f"{target} was not written: its weights would replace {weights.name}, which {users[0].name} beside it "
            "uses too. Save under another name, or move or delete the other model first."
        )
    return not replaced and not users and target.exists() and _mentions(target, weights.name)


def _mentions(model: Path, name: str) -> bool:
    """Whether an ONNX file names another file, anywhere but in the numbers of its weights.

    A file that cannot be opened may; one that is no ONNX file does not.
    """
    try:
        with open(model, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return False
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
                return _finds(content, name.encode(), 0, size, (GRAPH, INITIALIZER))
    except OSError:
        return True
    except ValueError:
        return False


def _finds(content: mmap.mmap, needle: bytes, start: int, end: int, inner: tuple[int, ...]) -> bool:
    for number, first, last in fields(content, start, end):
        if inner and number == inner[0]:
            if _finds(content, needle, first, last, inner[1:]):
                return True
        elif (inner or number != RAW_DATA) and content.find(needle, first, last) >= 0:
            return True
    return False


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


def _refused(target: Path | str, error: OSError) -> SaveError:
    cause, remedy = _CAUSES.get(error.errno or 0, (str(error), "Look into that, or save to another folder"))
    return SaveError(f"{target} was not written: {cause}. What stood there before is still there. {remedy}.")


def _readable(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
