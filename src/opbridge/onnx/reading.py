"""A model file -> an onnx_ir model."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from opbridge.base.garbage import no_collection
from opbridge.errors import ModelFileError
from opbridge.onnx import clashes, light_reading

__all__ = ["CLASHES", "from_part", "load", "load_proto", "load_with_clashes"]

CLASHES = "opbridge.clashes"
"""Where a model that was read says which names several values had: a list, in `ir.Model.meta`."""


def load(model: str | bytes) -> ir.Model:
    """The model in a file.

    Args:
        model: The path of the file, or its content.

    Raises:
        ModelFileError: It cannot be read. ONNX Runtime may take such a file all the same.
    """
    try:
        with no_collection(), _quiet():
            loaded = ir.load(model) if isinstance(model, str) else ir.from_proto(onnx.ModelProto.FromString(model))
        _contain(loaded, model)
        _check_texts(loaded)
        return loaded
    except Exception as error:  # a damaged file raises anything
        raise _refusal(model, error) from error


def load_with_clashes(model: str | bytes) -> ir.Model:
    """The model in a file, where several values may have one name: the later ones are renamed, and named in its meta.

    Args:
        model: The path of the file, or its content.

    Raises:
        ModelFileError: It cannot be read.
    """
    try:
        if isinstance(model, str):
            with no_collection(), _quiet():
                light = light_reading.load(model)
            if light is not None:
                _contain(light, model)
                _check_texts(light)
                return light
    except Exception:  # it is read as a whole, which says what is wrong
        pass
    try:
        return load(model)
    except ModelFileError:
        try:
            with no_collection(), _quiet():
                path = model if isinstance(model, str) else ""
                proto = onnx.load(path, load_external_data=False) if path else onnx.ModelProto.FromString(model)
                names = clashes.rename(proto)
                if not names:
                    raise
                renamed = ir.from_proto(proto)
            _contain(renamed, model)
            _check_texts(renamed)
        except ModelFileError:
            raise
        except Exception as error:  # as above
            raise _refusal(model, error) from error
        renamed.meta[CLASHES] = names
        return renamed


def load_proto(model: str | bytes) -> onnx.ModelProto:
    """The message in a file. Weights beside the file are not read, and those in a large file are places in it.

    Args:
        model: The path of the file, or its content.

    Raises:
        ModelFileError: It cannot be read.
    """
    try:
        light = light_reading.content(model) if isinstance(model, str) else None
        if light is not None or isinstance(model, bytes):
            proto = onnx.ModelProto.FromString(model if light is None else light)
        else:
            proto = onnx.load(model, load_external_data=False)
        _check_names(proto.graph)
    except Exception as error:  # a damaged file raises anything
        raise _refusal(model, error) from error
    if not proto.HasField("graph") or not proto.graph.output:
        raise _refusal(model, ValueError("it has no graph with outputs"))
    return proto


def from_part(proto: onnx.ModelProto, source: str | bytes) -> ir.Model:
    """The model of a message, whose weights are where those of a file are that `load_proto` has read.

    Args:
        proto: The message.
        source: The path of that file, or its content.

    Raises:
        ModelFileError: It cannot be read.
    """
    try:
        with no_collection(), _quiet():
            made = ir.from_proto(proto)
        _contain(made, source)
    except Exception as error:  # as above
        raise _refusal(source, error) from error
    return made


def _check_names(graph: onnx.GraphProto) -> None:
    """Refuses names that are no text.

    Raises:
        ValueError: There is one.
    """
    for node in graph.node:
        for text in (node.op_type, node.domain, node.name, *node.input, *node.output):
            if not isinstance(text, str):
                raise ValueError(f"the name {text!r} is not UTF-8")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _check_names(attribute.g)
    for each in (*graph.input, *graph.output, *graph.initializer):
        if not isinstance(each.name, str):
            raise ValueError(f"the name {each.name!r} is not UTF-8")


def _contain(model: ir.Model, source: str | bytes) -> None:
    """Has weights beside the model read from its folder only; onnx_ir checks nothing for a tensor without a folder.

    Args:
        model: The model.
        source: The path of its file; or its content, whose weights are in the working directory.
    """
    path = os.path.abspath(source) if isinstance(source, str) else ""
    folder = os.path.dirname(path) if path else os.getcwd()
    for tensor in _tensors(model):
        if isinstance(tensor, ir.ExternalTensor):
            is_in_the_model = path and os.fspath(tensor.location) == path
            tensor.base_dir = "" if is_in_the_model else folder


def _check_texts(model: ir.Model) -> None:
    """Refuses names that are no text, which protobuf gives as bytes.

    Raises:
        ValueError: There is one.
    """
    for node in model.graph.all_nodes():
        for text in (node.op_type, node.domain, node.name, node.overload, *(each.name for each in node.outputs)):
            if not isinstance(text, str | None):
                raise ValueError(f"the name {text!r} is not UTF-8")
    for value in (*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values()):
        if not isinstance(value.name, str | None):
            raise ValueError(f"the name {value.name!r} is not UTF-8")
        for size in value.shape or ():
            if isinstance(size, ir.SymbolicDim) and not isinstance(size.value, str | None):
                raise ValueError(f"the dimension {size.value!r} is not UTF-8")


def _tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """All tensors of a model, those of bodies and functions included."""
    owners: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for owner in owners:
        for graph in (owner, *owner.subgraphs()):
            if isinstance(graph, ir.Graph):
                yield from (each.const_value for each in graph.initializers.values() if each.const_value is not None)
        for node in owner.all_nodes():
            for attribute in node.attributes.values():
                if attribute.is_ref():
                    continue
                if attribute.type == ir.AttributeType.TENSOR:
                    yield attribute.value
                elif attribute.type == ir.AttributeType.TENSORS:
                    yield from attribute.value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of onnx_ir, which hold names as the file has them; the rules say what is wrong."""
    logger = logging.getLogger("onnx_ir")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _refusal(model: str | bytes, error: Exception) -> ModelFileError:
    label = model if isinstance(model, str) else "The model in memory"
    inner: BaseException = error
    while inner.__cause__ is not None:  # onnx_ir says the field only, and its cause what is wrong
        inner = inner.__cause__
    said = " ".join(f"{type(inner).__name__}: {inner}".split())[:500]
    return ModelFileError(f"{label} cannot be read as an ONNX model ({said}). Export or copy it again.")
