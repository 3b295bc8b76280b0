"""The order of ONNX Runtime's C interface, read from its published header.

    python ort_order.py HEADER RELEASE > ort_order.txt

The header, `onnxruntime_c_api.h`, is in ONNX Runtime's repository and its C and C++ packages, not in the Python one.
What is kept of it is the names of the fields of two structures, in order.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

__all__ = ["STRUCTURES", "fields", "recorded"]

STRUCTURES = ("OrtApi", "OrtCustomOp")
"""The table of functions, and what a library of custom operators fills in."""

_RECORD = Path(__file__).with_name("ort_order.txt")

_FIELD = re.compile(
    r"ORT_CLASS_RELEASE\(\s*(?P<released>\w+)\s*\)"
    r"|ORT_API2_STATUS\(\s*(?P<status>\w+)"
    r"|ORT_API_T\(\s*[^,]+,\s*(?P<typed>\w+)"
    r"|\(\s*(?:ORT_API_CALL)?\s*\*\s*(?P<pointer>\w+)\s*\)\s*\("
    r"|(?P<plain>\w+)\s*$"
)


def fields(header: str, structure: str) -> list[str]:
    """The names of a structure's fields, in order.

    Args:
        header: The header's text.
        structure: The structure's name.

    Raises:
        ValueError: the header does not define it, or has a field in a form that is not known.
    """
    text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*(?:\\\n[^\n]*)*", "", header, flags=re.DOTALL | re.MULTILINE)
    body = re.search(rf"^struct {structure} \{{(.*?)^\}};", text, flags=re.DOTALL | re.MULTILINE)
    if body is None:
        raise ValueError(f"the header does not define {structure}")
    names = []
    for declaration in body[1].split(";"):
        if not declaration.strip():
            continue
        found = _FIELD.search(declaration)
        if found is None:
            raise ValueError(f"{structure} has a field in a form that is not known: {declaration.strip()}")
        name = next(each for each in found.groups() if each)
        names.append(f"Release{name}" if found["released"] else name)
    return names


def recorded() -> dict[str, list[str]]:
    """The fields of each structure, as ort_order.txt has them."""
    found: dict[str, list[str]] = {}
    for line in _RECORD.read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        if line.startswith("struct "):
            current = found[line.removeprefix("struct ")] = []
        else:
            current.append(line)
    return found


def main(header: str, release: str) -> None:
    text = Path(header).read_text()
    print(f"# Fields of structures in onnxruntime_c_api.h of ONNX Runtime {release}, in order; made by ort_order.py.")
    for structure in STRUCTURES:
        print(f"\nstruct {structure}", *fields(text, structure), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
