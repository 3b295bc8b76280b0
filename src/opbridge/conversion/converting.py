"""A model file at another opset: read, converted, checked, compared and written."""

from __future__ import annotations

import os

import onnx
import onnx_ir as ir

from opbridge.base.wording import within
from opbridge.conversion import schemas
from opbridge.conversion.report import Conversion, Refusal
from opbridge.conversion.steps import Converter
from opbridge.conversion.types import Types, checked, inferred, lean
from opbridge.errors import ConversionError, UsageError
from opbridge.onnx import damage, reading
from opbridge.onnx.serialize import damage_is_said, serialize, to_bytes
from opbridge.runtimes.onnxruntime import Limits
from opbridge.runtimes.onnxruntime.model_file import checked_model
from opbridge.save import writer
from opbridge.side_by_side import SideBySide, compare, is_random

__all__ = ["OLDEST", "convert", "converted", "converted_in_place", "is_external", "without_weights"]

OLDEST = 7
"""The oldest opset that models are converted to and from."""

_LARGEST_CHECKED = 1024

_IR_OF_INITIALIZERS, _IR_OF_FUNCTIONS = 4, 8


def convert(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    opset_version: int,
    output: str | os.PathLike[str] | None = None,
    *,
    ir_version: int | None = None,
    verify: bool = True,
    external_data: bool | None = None,
    isolated: bool | Limits = True,
) -> Conversion:
    """Converts a model to another opset with the same results, or raises an error that lists every node that cannot
    be converted.

    Both models run in ONNX Runtime on the same random inputs. If the results differ, or the converted model does not
    run, no file is written.

    Args:
        model: The path of an ONNX file, or its content. Whoever made it.
        opset_version: The opset, from 7 to the newest that the installed onnx package knows.
        output: The path of the file to write; it may be the original's. None: nothing is written.
        ir_version: The version of the file format; None: the one that belongs to the opset.
        verify: Whether the models are compared.
        external_data: Whether weights go to a file beside the model; None: where the original's do, or where one file
            cannot hold them.
        isolated: Whether the models run in processes of their own, or with which limits they do.

    Returns:
        The conversion: the model, what was changed, and the comparison.

    Raises:
        ConversionError: Nodes cannot be converted to that opset, or the results would change; the message says which
            and why.
        ModelFileError: The file cannot be read as an ONNX model.
        SaveError: The file cannot be written.
        UsageError: There is no such opset or IR version, or the model's own is not known.
    """
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    content, label = checked_model(model)
    result = converted(content, label, opset_version, ir_version, isolated=isolated is not False)
    random = is_random(result.model)
    external = is_external(result.model) if external_data is None else external_data
    if output is None:
        if verify:
            result.comparison = compare(content, to_bytes(result.model), random=random, isolated=isolated)
            _check(result)
        return result
    with writer.staged(result.model, output, external_data=external or None) as files:
        if verify:
            result.comparison = compare(content, files.path, random=random, isolated=isolated)
            _check(result)
        result.files = files.commit()
    return result


def converted(
    content: str | bytes, label: str, opset: int, ir_version: int | None = None, *, isolated: bool = True
) -> Conversion:
    """The model at another opset, checked by ONNX's checker and not yet compared.

    Args:
        content: The path of the file, or its content.
        label: Its name in messages.
        opset: The opset.
        ir_version: The version of the file format; None: the one that belongs to the opset.
        isolated: Whether ONNX's inference and checker run in a process of their own.

    Raises:
        ConversionError: Nodes cannot be put at that opset, or the converted model is not valid where the original is.
        ModelFileError: The file cannot be read as an ONNX model.
        UsageError: There is no such opset or IR version, or the model's own is not known.
    """
    if not OLDEST <= opset <= schemas.newest():
        raise UsageError(
            f"Opset {opset} is not supported. Use {OLDEST} to {schemas.newest()}, the newest one of the installed "
            f"onnx {onnx.__version__}."
        )
    loaded = reading.load(content)
    damage.refuse(loaded, label)
    return _converted(loaded, _proto(content), label, opset, ir_version, isolated)


def converted_in_place(model: ir.Model, label: str, opset: int, *, isolated: bool = True) -> Conversion:
    """As `converted`, for a model in memory; one that cannot be converted is not to be used afterwards."""
    return _converted(model, without_weights(model), label, opset, None, isolated)


def _converted(
    loaded: ir.Model, proto: onnx.ModelProto, label: str, opset: int, ir_version: int | None, isolated: bool
) -> Conversion:
    """The model at another opset, with the same one as it is read without its weights."""
    source = loaded.graph.opset_imports.get("", loaded.graph.opset_imports.get("ai.onnx", opset))
    if not OLDEST <= source <= schemas.newest():
        remedy = (
            f"Convert it to opset {OLDEST} first (onnx.version_converter.convert_version), or export the model again."
            if source < OLDEST
            else "Install a newer onnx package, or export the model again."
        )
        raise UsageError(f"{label} has opset {source}; supported are {OLDEST} to {schemas.newest()}. {remedy}")
    before = loaded.ir_version or _IR_OF_INITIALIZERS
    versions = before, _ir_version(loaded, opset, ir_version)
    converter = Converter(loaded, Types(loaded, inferred(proto, isolated=isolated)), opset)
    converter.convert()
    if converter.refusals:
        raise ConversionError(_refusal(label, source, opset, converter.refusals), converter.refusals)
    loaded.ir_version = versions[1]
    _as_inputs(loaded)
    _check_form(label, proto, loaded, isolated)
    return Conversion(
        loaded, source, opset, versions, converter.changes, SideBySide(note="The comparison was disabled.")
    )


def _proto(content: str | bytes) -> onnx.ModelProto:
    """The model without its external data."""
    if isinstance(content, bytes):
        return onnx.ModelProto.FromString(content)
    return onnx.load(content, load_external_data=False)


def _refusal(label: str, source: int, opset: int, refusals: list[Refusal]) -> str:
    lines = [each.line() for each in refusals]
    needed = [each.needed for each in refusals]
    said = f"{len(refusals)} node{'s' if len(refusals) > 1 else ''} of {within(label)}"
    text = f"{said} cannot be converted from opset {source} to opset {opset}:\n  " + "\n  ".join(lines)
    if all(each is not None for each in needed):
        least = max(each for each in needed if each is not None)
        text += f"\nNothing was written. Opset {least} supports all of them: convert to it, or change the model."
    else:
        text += "\nNothing was written. Change these lines of the model, or use another opset."
    return text


def _ir_version(model: ir.Model, opset: int, asked: int | None) -> int:
    """The version of the file format: what was asked for, or what the opsets need.

    Raises:
        UsageError: That version does not exist, or cannot hold the model.
    """
    newest = int(onnx.IR_VERSION)
    least = _IR_OF_FUNCTIONS if model.functions else 3
    if asked is not None:
        if not least <= asked <= newest:
            why = " (the model has functions)" if model.functions else ""
            raise UsageError(f"ir_version={asked} is not valid for this model{why}. Use {least} to {newest}.")
        return asked
    imports = [
        onnx.helper.make_opsetid(domain, version)
        for domain, version in {**model.graph.opset_imports, "": opset}.items()
        if domain != "ai.onnx"
    ]
    found = int(onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True))
    return max(found, least, _IR_OF_INITIALIZERS)


def _as_inputs(model: ir.Model) -> None:
    """Before version 4 of the format, initializers are inputs too."""
    if (model.ir_version or 0) >= _IR_OF_INITIALIZERS:
        return
    given = set(model.graph.inputs)
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if value not in given and tensor is not None:
            value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
            model.graph.inputs.append(value)


def _check_form(label: str, original: onnx.ModelProto, model: ir.Model, isolated: bool) -> None:
    """Checks that the converted model is valid where the original is.

    Raises:
        ConversionError: It is not.
    """
    said = checked(without_weights(model), isolated=isolated)
    if said and not checked(lean(original), isolated=isolated):
        raise ConversionError(
            f"{label} was not converted: ONNX's checker rejects the result ({' '.join(said.split())[:400]}). "
            "Nothing was written. This is a bug in opbridge; please report it with the model."
        )


def without_weights(model: ir.Model) -> onnx.ModelProto:
    """The model as it will be written, without its larger weights."""
    content = serialize(model)
    proto = onnx.ModelProto.FromString(content.model + content.rest)
    proto.graph.ParseFromString(content.graph)
    for weight in content.weights:
        tensor = proto.graph.initializer.add()
        tensor.CopyFrom(weight.proto)
        if weight.tensor is not None and weight.tensor.nbytes <= _LARGEST_CHECKED:
            with damage_is_said():
                tensor.raw_data = weight.tensor.tobytes()
    return proto


def is_external(model: ir.Model) -> bool:
    """Whether a weight of a model lies in another file."""
    return any(isinstance(each.const_value, ir.ExternalTensor) for each in model.graph.initializers.values())


def _check(result: Conversion) -> None:
    """Checks that nothing speaks against the converted model.

    Raises:
        ConversionError: Something does.
    """
    if not result.comparison.ok:
        raise ConversionError(f"{result.comparison.summary()} Nothing was written.", comparison=result.comparison)
