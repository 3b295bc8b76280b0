"""Every device function of the project compiles for every architecture, with NVRTC, which needs no device."""

from __future__ import annotations

import pytest
from device import LAUNCHES, SMALL_CU, SOURCE, has_nvrtc, small
from helpers.rows import one_in

import opbridge
from opbridge.errors import BuildError
from opbridge.kernels.device_images import compile_program
from opbridge.kernels.shipped import shipped, sources

DEVICE_FILES = [each for each in sources("_builtin") if each.with_suffix(".cu").is_file()]
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


@pytest.mark.parametrize("architecture", one_in(3, ("sm_75", "sm_120", "compute_80")))
def test_kernels_of_a_cu_file_compile(architecture: str) -> None:
    code = compile_program(opbridge.build(LAUNCHES, flags=["-O0"]), 0, architecture)
    names = (b"softmax_rows<opbridge::Half>", b"count_bins<8, true>", b"shares", b"take<float>", b"repeat_rows<double>")
    for name in names:
        assert b"\n" + name + b"\t" in code


def test_errors_name_the_line_of_the_cu_file(tmp_path) -> None:
    library = opbridge.build(small(tmp_path, SMALL_CU.replace("2 *", "nothing *")), flags=["-O0"])
    with pytest.raises(BuildError, match=r'small\.cu\(4\): error: identifier "nothing" is undefined'):
        compile_program(library, 0, "sm_90")


def test_a_cu_file_without_the_kernel_is_named(tmp_path) -> None:
    library = opbridge.build(small(tmp_path, "#include <opbridge/device.h>\n"), flags=["-O0"])
    with pytest.raises(BuildError, match=r"small\.cu does not compile for CUDA(.|\n)*twice"):
        compile_program(library, 0, "sm_90")


@pytest.mark.parametrize(
    ("number", "architecture"),
    # Each for a third of the architectures, so that all of them are tried.
    one_in(
        3, ((number, each) for number in range(len(DEVICE_FILES)) for each in (ARCHITECTURES * 2)[number : number + 3])
    ),
)
def test_the_built_in_kernels_compile(number: int, architecture: str) -> None:
    code = compile_program(shipped("_builtin"), number, architecture)
    for name in (b"float", b"double", b"opbridge::Half", b"opbridge::BFloat16"):
        assert b"<" + name in code.partition(b"\x7fELF")[0]


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
