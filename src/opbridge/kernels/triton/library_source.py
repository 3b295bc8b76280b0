"""The C++ text of a library of kernels: tables that say how each is launched; see `opbridge/triton.h`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch

from opbridge.base.dtypes import onnx_dtype
from opbridge.kernels.triton.specialization import DOMAIN, Attribute, Specialization

__all__ = ["tables"]

_KINDS = {"int": "integer", "bool": "boolean", "float": "number", "str": "text"}


def tables(kernels: Sequence[Specialization]) -> str:
    """The text of a source file that registers kernels; the number of each is that of its device code."""
    lines = [
        "#include <opbridge/triton.h>",
        "namespace {",
        "using namespace opbridge;",
        "using namespace opbridge::detail;",
    ]
    for number, each in enumerate(kernels):
        lines += _kernel(number, each)
    return "\n".join([*lines, "}  // namespace", ""])


def _kernel(number: int, made: Specialization) -> list[str]:
    places = {name: place for place, (_, name) in enumerate(made.arguments)}
    dtypes = dict(made.inputs)
    typed = [
        *((_KINDS.get(kind, "tensor"), dtypes.get(name, torch.uint8)) for kind, name in made.arguments),
        *(("output", output.dtype) for output in made.outputs),
    ]
    parameters = _parameters(made, places)
    names = ", ".join(json.dumps(name) for name in places)
    return [
        f"const char* const names_{number}[] = {{{names}}};",
        f"const TritonParameter launch_{number}[] = {{{', '.join(parameters)}}};",
        f"const TritonKernel kernel_{number}{{{json.dumps(made.kernel.__name__)}, {number}, {places[made.grid_name]}, "
        f"{len(places)}, names_{number}, {len(parameters)}, launch_{number}}};",
        f"struct Kernel{number} {{",
        f"    static void run(Call& call) {{ run_triton(kernel_{number}, call); }}",
        f"    static void launch(Call& call) {{ launch_triton(kernel_{number}, call); }}",
        f"    static Shapes shapes(Call& call) {{ return triton_shapes(kernel_{number}, call); }}",
        "};",
        f"const Parameter parameters_{number}[] = {{{', '.join(_parameter(*each) for each in typed)}}};",
        f"const Instance instances_{number}[] = {{{{parameters_{number}, {len(typed)}, &Kernel{number}::run, "
        f"&Kernel{number}::launch, nullptr, parameters_{number}, {len(typed)}}}}};",
        f"const Registration<Kernel{number}> operator_{number}{{{json.dumps(f'{DOMAIN}::{made.schema}')}, "
        f"ShapeFunction{{parameters_{number}, {len(places)}, &Kernel{number}::shapes}}, instances_{number}}};",
    ]


def _parameter(kind: str, dtype: torch.dtype) -> str:
    has_type = kind in ("tensor", "output")
    type_ = f"static_cast<Type>({int(onnx_dtype(dtype))})" if has_type else "Type::any"
    return f"{{Kind::{kind}, false, {type_}, any_rank}}"


def _parameters(made: Specialization, places: dict[str, int]) -> list[str]:
    """What the compiled kernel takes, in order."""
    outputs = {output.parameter: place for place, output in enumerate(made.outputs)}
    attributes = {each.parameter: each for each in made.attributes}
    found = []
    for name, type_ in made.types.items():
        if type_ == "constexpr":
            continue
        multiple = 16 if name in made.multiples else 1
        if name in outputs:
            output = made.outputs[outputs[name]]
            initial, shape = (-1, places[made.shape_name(output)]) if output.is_fresh else (places[name], -1)
            kind, place, width = "output", outputs[name], 8
        elif name in attributes:
            kind, place, width = _kind_of(attributes[name]), places[name], attributes[name].width
            initial = shape = -1
        else:
            kind, place, width, initial, shape = "tensor", places[name], 8, -1, -1
        found.append(f"{{{json.dumps(name)}, TritonKind::{kind}, {place}, {width}, {multiple}, {initial}, {shape}}}")
    return found


def _kind_of(attribute: Attribute) -> str:
    if attribute.kind == "float":
        return "number"
    return "natural" if attribute.type.startswith("u") else "integer"
