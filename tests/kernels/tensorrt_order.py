"""What TensorRT's published headers declare of its plug-in interface: virtual functions in order, fields, numbers.

    python tensorrt_order.py FOLDER RELEASE > tensorrt_RELEASE.txt

The folder is `include` of NVIDIA/TensorRT. What is kept of its headers is, for each structure that
`opbridge/adapter/tensorrt_api.h` declares, the names and types that the binary interface consists of.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

__all__ = ["CLASSES", "ENUMS", "STRUCTURES", "base", "enumerators", "fields", "functions", "kinds", "recorded"]

HEADERS = (
    "NvInferRuntimeBase.h",
    "NvInferPluginBase.h",
    "NvInferRuntimePlugin.h",
    "NvInferImpl.h",
    "NvInferRuntime.h",
)

CLASSES = (
    "IVersionedInterface",
    "ILogger",
    "ILoggerFinder",
    "VRoot",
    "VDimensionExpr",
    "VExprBuilder",
    "INoCopy",
    "IDimensionExpr",
    "IExprBuilder",
    "IPluginV3",
    "IPluginCapability",
    "IPluginV3OneCore",
    "IPluginV3OneBuild",
    "IPluginV3OneRuntime",
    "IPluginCreatorInterface",
    "IPluginCreatorV3One",
)
"""With virtual functions that one side calls and the other one has."""

STRUCTURES = (
    "Dims64",
    "PluginTensorDesc",
    "DynamicPluginTensorDesc",
    "PluginField",
    "PluginFieldCollection",
    "InterfaceInfo",
    "DimsExprs",
    "IDimensionExpr",
    "IExprBuilder",
)
"""Read and written by both sides."""

ENUMS = (
    "DataType",
    "TensorFormat",
    "PluginFieldType",
    "TensorRTPhase",
    "PluginCapabilityType",
    "DimensionOperation",
    "APILanguage",
    "Severity",
)

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*(?:\\\n[^\n]*)*", re.DOTALL | re.MULTILINE)
_VIRTUAL = re.compile(
    r"\bvirtual\s+(?P<result>[^();]*?)(?P<name>~?\w+)\s*\((?P<parameters>[^()]*)\)(?P<after>[^;{]*)", re.DOTALL
)
_FIELD = re.compile(r"^(?P<type>[\w:\s*]+?)(?P<name>\w+)(?P<array>\[[\w:]+\])?(?:\{\}|\s*=\s*nullptr)?$", re.DOTALL)
_ENUMERATOR = re.compile(r"(\w+)\s*=\s*(\d+)")
_KIND = re.compile(r'getInterfaceInfo\(\) const noexcept override\s*\{\s*return (?:InterfaceInfo)?\{("[^}]*)\}')

# What the published headers call by other names.
_NAMES = (("AsciiChar", "char"), ("InterfaceKind", "char const*"), ("std::size_t", "size_t"), ("apiv::", ""))


def _body(text: str, what: str, name: str) -> str:
    """What stands between the braces of the first definition of a structure or an enumeration."""
    plain = _COMMENT.sub("", text)
    found = re.search(rf"\b(?:{what})\s+{name}\b[^;{{]*\{{", plain)
    if found is None:
        raise ValueError(f"the headers do not define {name}")
    depth, end = 1, found.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(plain[end], 0)
        end += 1
    return plain[found.end() : end - 1]


def _type(written: str) -> str:
    """A type, with each const after what it is about: `char const*`."""
    text = re.sub(r"\bclass\b|\bstruct\b", "", written)
    for published, ours in _NAMES:
        text = text.replace(published, ours)
    text = re.sub(r"^\s*const\s+([\w:]+)", r"\1 const", text.strip())
    return re.sub(r"\s*([*&])\s*", r"\1", re.sub(r"\s+", " ", text)).strip()


def _parameter(written: str) -> str:
    """The type of a parameter without its name; a const of the parameter itself is nothing to the caller."""
    text = _type(written)
    text = re.sub(r"([*&]|\bconst\b|\b(?:u?int\d+_t|\w+))\s+?(?!const\b)\w+$", r"\1", text)
    text = re.sub(r"([*&])(?!const\b)\w+$", r"\1", text)
    return re.sub(r"\*const$", "*", text) if "*" in text or "&" in text else text.removesuffix(" const")


def base(text: str, name: str) -> str:
    """The class that a class is derived from, whose virtual functions come before its own; "" without one."""
    found = re.search(rf"\bclass {name}\b(?: : public (\w+))?\s*\{{", _COMMENT.sub("", text))
    if found is None:
        raise ValueError(f"the headers do not define {name}")
    return found[1] or ""


def functions(text: str, name: str) -> list[str]:
    """The virtual functions that a class adds to those of its base, in order, with types and qualifiers.

    A destructor has the place of the base's, where there is a base.
    """
    lines = []
    for found in _VIRTUAL.finditer(_body(text, "class", name)):
        parameters = [each for each in found["parameters"].split(",") if each.strip()]
        is_const = " const" if re.match(r"\s*const\b", found["after"]) else ""
        result = _type(found["result"].replace("TRT_DEPRECATED", ""))
        if found["name"].startswith("~") and base(text, name):
            continue
        lines.append(f"{result} {found['name']}({', '.join(map(_parameter, parameters))}){is_const}".strip())
    return lines


def fields(text: str, name: str) -> list[str]:
    """The fields of a structure, in order."""
    body = re.sub(r"\b(?:public|protected|private):", "", _body(text, "class|struct", name))
    while (
        "(" in body
        and (shorter := re.sub(r"[^;{}]*\([^()]*\)[^;{}]*(?:;|\{[^{}]*\}(?:[^;{}]*\{[^{}]*\})*)", ";", body)) != body
    ):
        body = shorter
    lines = []
    for declaration in (each.strip() for each in body.split(";")):
        if not declaration or declaration.startswith(("static", "using", "virtual")):
            continue
        found = _FIELD.match(declaration)
        if found is None:
            raise ValueError(f"{name} has a field in a form that is not known: {declaration}")
        lines.append(f"{_type(found['type'])} {found['name']}{found['array'] or ''}")
    return lines


def enumerators(text: str, name: str) -> dict[str, int]:
    """The numbers of an enumeration."""
    return {each: int(number) for each, number in _ENUMERATOR.findall(_body(text, "enum class", name))}


def kinds(text: str, name: str) -> list[str]:
    """What a class calls itself: its kind and version."""
    return [" ".join(each.split()) for each in _KIND.findall(_body(text, "class", name))]


@functools.cache
def recorded(release: str) -> dict[str, list[str]]:
    """The lines of each structure in a release: of "class NAME", "struct NAME", "enum NAME"."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name(f"tensorrt_{release}.txt").read_text().splitlines():
        if line.startswith(("class ", "struct ", "enum ")):
            current = found[line] = []
        elif line and not line.startswith("#"):
            current.append(line)
    return found


def main(folder: str, release: str) -> None:
    text = "\n".join((Path(folder) / name).read_text() for name in HEADERS)
    print(f"# The plug-in interface in the headers of TensorRT {release}; made by tensorrt_order.py.")
    for name in CLASSES:
        lines = [f"class {name}", f"base {base(text, name)}".strip(), *kinds(text, name), *functions(text, name)]
        print("", *lines, sep="\n")
    for name in STRUCTURES:
        print(f"\nstruct {name}", *fields(text, name), sep="\n")
    for name in ENUMS:
        print(f"\nenum {name}", *(f"{each} {number}" for each, number in enumerators(text, name).items()), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
