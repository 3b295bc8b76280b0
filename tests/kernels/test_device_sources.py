"""What NVRTC is given of a source: its headers, under their names, without what only the CPU sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from opbridge.errors import UsageError
from opbridge.kernels.compiler import Settings
from opbridge.kernels.device_sources import (
    DeviceImage,
    DeviceProgram,
    _literal,
    _seen_by_device,
    has_device_functions,
    read_program,
    registration,
)


def test_lines_that_only_the_cpu_sees_are_left_out() -> None:
    text = """
    one
    #ifndef OPBRIDGE_ON_DEVICE
    #include <vector>
    #if X
    two
    #else
    three
    #endif
    #else
    four
    #endif
    #ifdef OPBRIDGE_ON_DEVICE
    five
    #else
    six
    #endif
    #ifdef __CUDA_ARCH__
    seven
    #else
    eight
    #endif
    #if defined(OPBRIDGE_ON_DEVICE) && X
    nine
    #endif
    """
    lines = text.splitlines()
    seen = _seen_by_device(lines)
    assert len(seen) == len(lines)  # what is said of a line has its number
    words = [line.strip() for line in seen if line.strip()]
    assert words == [
        *("one", "four", "five", "#ifdef __CUDA_ARCH__", "seven", "#else", "eight", "#endif"),
        *("#if defined(OPBRIDGE_ON_DEVICE) && X", "nine", "#endif"),
    ]


def test_headers_are_found_as_the_compiler_finds_them(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    (own / "deep").mkdir(parents=True)
    other.mkdir()
    source = own / "a.cpp"
    source.write_text(
        '#include "b.h"\n#include <c.h>\n#include <cuda_fp16.h>\n  OPBRIDGE_ELEMENT_KERNEL("n::f(Tensor x)", f, s)'
    )
    (own / "b.h").write_text('#pragma once\n#include "deep/b.h"\n#include "b.h"\n')
    (own / "deep" / "b.h").write_text("int deep;\n")
    (other / "c.h").write_text("int c;\n")
    program = read_program(source, "a.cpp", tmp_path / "none", [f"-I{other}", "-DX=1", "-U", "Y", "-O2"])
    assert has_device_functions(program)
    assert program.options == ("-DX=1", "-UY")
    assert {Path(name) for name in program.headers} == {own / "b.h", own / "deep/b.h", other / "c.h"}
    assert f'#include "{own / "b.h"}"' in program.text and "#include <cuda_fp16.h>" in program.text
    assert program.text.startswith('#line 1 "a.cpp"\n')
    assert {each.name for each in program.files} == {"a.cpp", "b.h", "c.h"}


def test_a_comment_about_the_macro_registers_nothing() -> None:
    assert not has_device_functions(DeviceProgram("a.cpp", "//     OPBRIDGE_ELEMENT_KERNEL(schema, function)\n"))
    assert not has_device_functions(DeviceProgram("a.cpp", "OPBRIDGE_KERNEL(schema, kernel)\n"))
    assert has_device_functions(DeviceProgram("a.cpp", "", {"b.h": "OPBRIDGE_ELEMENT_KERNEL(schema, function)\n"}))


def test_any_bytes_have_a_literal() -> None:
    data = bytes(range(256)) * 20 + b'"\\?\n1'
    literal = _literal(data)
    assert all(ord(each) < 127 for each in literal)
    python = "".join(line[1:-1] for line in literal.split("\n"))
    assert python.encode().decode("unicode_escape").encode("latin1") == data


def test_the_registration_names_every_program_and_image() -> None:
    programs = [DeviceProgram("a.cpp", "text a", {"h.h": "header"}), DeviceProgram("b.cpp", "text b", options=("-DX",))]
    text = registration(programs, [DeviceImage(1, "sm_90", b"\0code")])
    for part in ('"text a"', '"header"', '"text b"', '"-DX"', '"\\000code"', '{1, "sm_90", image_0, 5}', "code{2, "):
        assert part in text


@pytest.mark.parametrize("architecture", ["90", "sm_", "compute_90", "sm_90 -DX", "SM_90"])
def test_an_architecture_is_named_as_cuda_names_it(architecture: str) -> None:
    with pytest.raises(UsageError, match="Name CUDA architectures as in sm_80"):
        Settings(architectures=(architecture,))


def test_sanitizers_and_architectures_are_not_built_together() -> None:
    with pytest.raises(UsageError, match="cannot be built with sanitizers"):
        Settings(sanitize=("address",), architectures=("sm_90",))
