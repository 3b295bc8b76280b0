"""Which inputs and outputs of a node take a format of 16 bits.

The schemas say it: inputs of one type variable have one type, so all of a variable change or none does. What is given
by an attribute (`to`, `dtype`, the value of a ConstantOfShape) changes with that attribute.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx
import onnx_ir as ir

from opbridge.conversion import schemas
from opbridge.precision.formats import Format
from opbridge.precision.types import FUSED_FORMS, Floats
from opbridge.runtimes.onnxruntime import cpu_kernels

__all__ = ["CONTROL_FLOW", "Form", "form_of", "has_kernel", "is_function"]

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})

# The attribute that gives the type of the first output.
_TYPE_ATTRIBUTES = {
    "Bernoulli": "dtype",
    "BlackmanWindow": "output_datatype",
    "Cast": "to",
    "DequantizeLinear": "output_dtype",
    "EyeLike": "dtype",
    "HammingWindow": "output_datatype",
    "HannWindow": "output_datatype",
    "MelWeightMatrix": "output_datatype",
    "RandomNormal": "dtype",
    "RandomNormalLike": "dtype",
    "RandomUniform": "dtype",
    "RandomUniformLike": "dtype",
}

# Without that attribute, the output has the type of the first input, but for these.
_FLOAT_BY_DEFAULT = frozenset(
    {"BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", "RandomNormal", "RandomUniform"}
)


@dataclass(frozen=True)
class Form:
    """What of a node is of 16 bits when it is cast.

    Attributes:
        inputs: For each input whether it is.
        outputs: For each output.
        attribute: The attribute that names the type; "": none is to be set.
        why: Why nothing is, where float32 could be there.
    """

    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    attribute: str = ""
    why: str = ""

    @property
    def changes(self) -> bool:
        """Whether anything is."""
        return any(self.inputs) or any(self.outputs)


def form_of(node: ir.Node, opset: int, to: Format, floats: Floats) -> Form:
    """What of a node is of 16 bits when it is cast.

    Nothing is of an operator that is neither ONNX's own nor a fused form of ONNX Runtime.

    Args:
        node: The node.
        opset: The opset of the model.
        to: The format.
        floats: The values of float32.
    """

    def nothing(why: str = "") -> Form:
        return Form((False,) * len(node.inputs), (False,) * len(node.outputs), why=why)

    values = [each for each in (*node.inputs, *node.outputs) if each is not None]
    if not any(each in floats for each in values):
        return nothing()
    if to.name in FUSED_FORMS.get((node.domain, node.op_type), ()):
        return Form(tuple(each in floats for each in node.inputs), tuple(each in floats for each in node.outputs))
    if node.domain not in ("", "ai.onnx"):
        return nothing(f"The types that operators of the domain '{node.domain}' take are not known.")
    if node.op_type in CONTROL_FLOW:
        # The number of iterations and the condition are no floats.
        return Form(tuple(each in floats for each in node.inputs), tuple(each in floats for each in node.outputs))
    if node.op_type == "BitCast":
        return nothing("It reads the bits of its input.")
    schema = schemas.form(node.op_type, opset)
    if schema is None:
        return nothing(f"{node.op_type} is no operator of opset {opset}.")
    if any(map(floats.is_other, values)):
        return nothing("It takes or gives a sequence or an optional, which stay as they are.")
    found = _by_schema(node, schema, to, floats)
    if found.changes:
        return found
    if node.op_type in _TYPE_ATTRIBUTES and _takes(schema, schema.outputs[0], to):
        return nothing(f"ONNX Runtime has no kernel for {node.op_type} that gives {to.name}.")
    return nothing(f"{node.op_type} does not take {to.name} at opset {opset}.")


def _by_schema(node: ir.Node, schema: onnx.defs.OpSchema, to: Format, floats: Floats) -> Form:
    inputs = tuple(
        value in floats and _takes(schema, schemas.type_of_value(schema, schema.inputs, at), to)
        for at, value in enumerate(node.inputs)
    )
    given = {schemas.type_of_value(schema, schema.inputs, at).type_str for at, is_half in enumerate(inputs) if is_half}
    attribute = ""
    outputs = []
    for at, value in enumerate(node.outputs):
        parameter = schemas.type_of_value(schema, schema.outputs, at)
        if value not in floats or not _takes(schema, parameter, to):
            outputs.append(False)
        elif at == 0 and node.op_type in _TYPE_ATTRIBUTES:
            name = _TYPE_ATTRIBUTES[node.op_type]
            is_half, attribute = _by_attribute(node, name, inputs, to)
            outputs.append(is_half)
        elif node.op_type in ("Constant", "ConstantOfShape"):
            outputs.append(True)
            attribute = "value"
        else:
            outputs.append(parameter.type_str in given)
    return Form(inputs, tuple(outputs), attribute)


def _by_attribute(node: ir.Node, name: str, inputs: tuple[bool, ...], to: Format) -> tuple[bool, str]:
    """Whether the output that an attribute gives the type of is of 16 bits, and the attribute that is to be set."""
    given = node.attributes.get(name)
    if given is not None and given.value:
        is_set = True
    elif node.op_type in _FLOAT_BY_DEFAULT:
        is_set = True
    elif node.op_type == "DequantizeLinear":
        return len(inputs) > 1 and inputs[1], ""
    else:
        return bool(inputs and inputs[0]), ""
    # ONNX Runtime casts around a node with an input of 16 bits that it has no kernel for, and not around one without.
    if node.op_type != "Cast" and not any(inputs) and not has_kernel(node.op_type):
        return False, ""
    return is_set, name


def has_kernel(op_type: str) -> bool:
    """Whether ONNX Runtime's CPU has a kernel that takes float16 in all that it takes float32 in."""
    found = cpu_kernels().get(op_type, ())
    return any(
        all("tensor(float16)" in types for types in each.types.values() if "tensor(float)" in types) for each in found
    )


def is_function(op_type: str) -> bool:
    """Whether ONNX defines an operator by others, in its newest form."""
    found = schemas.form(op_type, schemas.newest())
    return found is not None and bool(found.has_function or found.has_context_dependent_function)


def _takes(schema: onnx.defs.OpSchema, parameter: object, to: Format) -> bool:
    return to.spelled in schemas.permitted(schema, parameter)
