"""Every device function of the project compiles for every architecture, with NVRTC, which needs no device."""

from __future__ import annotations

import pytest
from device import SOURCE, has_nvrtc
from helpers.rows import one_in

import opbridge
from opbridge.errors import BuildError
from opbridge.kernels.device_images import compile_program
from opbridge.kernels.shipped import shipped

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nvrtc() -> None:
    if not has_nvrtc():
        pytest.skip("NVRTC is not installed (pip install nvidia-cuda-nvrtc)")


@pytest.mark.parametrize("architecture", [*one_in(4, ARCHITECTURES), *one_in(2, ("compute_75", "compute_120"))])
def test_functions_of_an_element_compile(architecture: str) -> None:
    code = compile_program(opbridge.build(SOURCE), 0, architecture)
    assert code.startswith(f"opbridge device code 1\n{architecture}\n".encode())
    assert b"\x7fELF" in code if architecture.startswith("sm_") else b".entry" in code
    for name in (b"scaled_add<float>", b"scaled_add<int64_t>", b"split<opbridge::BFloat16>", b"smooth<opbridge::Half>"):
        assert b"opbridge::detail::elements<&::" + name + b">\t" in code


@pytest.mark.parametrize("architecture", one_in(4, ARCHITECTURES))
def test_functions_of_the_built_in_kernels_compile(architecture: str) -> None:
    code = compile_program(shipped("_builtin"), 0, architecture)
    for name in ("float", "double", "opbridge::Half", "opbridge::BFloat16"):
        assert f"dynamic_conv_element<{name}>>\t".encode() in code


def test_no_thread_keeps_its_arguments_in_memory() -> None:
    """Views are read where the launch puts them: a copy for each thread would cost more than the work."""
    assert b".local" not in compile_program(opbridge.build(SOURCE), 0, "compute_90")


def test_programs_that_are_not_there_are_named(tmp_path) -> None:
    with pytest.raises(BuildError, match="has no source 7 with functions for CUDA devices"):
        compile_program(opbridge.build(SOURCE), 7, "sm_90")
    source = tmp_path / "plain.cpp"
    source.write_text(
        "#include <opbridge/kernel.h>\nusing namespace opbridge;\nvoid f(Input<float>, Output<float>) {}\n"
        'Shape s(Shape x) { return x; }\nOPBRIDGE_KERNELS("plaintest::f(Tensor x) -> Tensor", s, f);\n'
    )
    with pytest.raises(BuildError, match="has no functions for CUDA devices. Register one"):
        compile_program(opbridge.build(source, flags=["-O0"]), 0, "sm_90")


WRONG = """\
#include <opbridge/kernel.h>
{include}
using namespace opbridge;

template <class T>
void wrong(int64_t i, View<const T> x, View<T> y) {{
#ifdef OPBRIDGE_ON_DEVICE
    {statement}
#endif
    y[i] = x[i];
}}

OPBRIDGE_ELEMENT_KERNEL("wrongtest::wrong(Tensor x) -> Tensor", wrong, same_shape, types<float>);
"""


@pytest.mark.parametrize(
    ("include", "statement", "words"),
    [
        ("", "y[i] = nothing;", r'wrong\.cpp\(8\): error: identifier "nothing" is undefined'),
        ("", "std::sqrt(1.0);", r"wrong\.cpp\(8\): error: .*std"),
        ("#include <vector>", "", r"wrong\.cpp\(2\): catastrophic error: .*vector(.|\n)*#ifndef OPBRIDGE_ON_DEVICE"),
        ('#include "own.h"', "", r"own\.h\(3\): error"),
    ],
)
def test_errors_of_the_device_compiler_name_the_line(tmp_path, include, statement, words):
    (tmp_path / "own.h").write_text("#pragma once\n#ifdef OPBRIDGE_ON_DEVICE\nint broken = ;\n#endif\n")
    source = tmp_path / "wrong.cpp"
    source.write_text(WRONG.format(include=include, statement=statement))
    library = opbridge.build(source, flags=["-O0"])
    with pytest.raises(BuildError, match=words) as raised:
        compile_program(library, 0, "sm_90")
    assert "does not compile for CUDA (sm_90, NVRTC" in str(raised.value)
