"""What every library holds is compiled once for all flags that change nothing in it."""

from __future__ import annotations

import pytest

from opbridge.kernels.build import _part_flags
from opbridge.kernels.compiler import Compiler, Settings

GCC = Compiler(("g++",), "g++ 12")
PLAIN = _part_flags(GCC, Settings())


@pytest.mark.parametrize(
    "flags",
    [("-O0",), ("-Ofast", "-DSIZE=4"), ("-Iinclude", "-DNDEBUG", "-O2")],
    ids=" ".join,
)
@pytest.mark.parametrize("debug", [False, True])
def test_flags_of_the_kernels_alone(flags: tuple[str, ...], debug: bool) -> None:
    assert _part_flags(GCC, Settings(debug=debug, flags=flags)) == _part_flags(GCC, Settings(debug=debug))


@pytest.mark.parametrize(
    "flags",
    [
        ("-D_GLIBCXX_USE_CXX11_ABI=0",),
        ("-DOPBRIDGE_LIBCUDA=none",),
        ("-stdlib=libc++",),
        ("-mavx2",),
        ("-I", "include", "-DSIZE=4"),
        ("-Xclang", "-Ofast"),
    ],
    ids=" ".join,
)
def test_flags_of_all(flags: tuple[str, ...]) -> None:
    assert _part_flags(GCC, Settings(flags=flags)) == [*PLAIN, *flags]


def test_it_is_optimised_little_and_debugged_as_the_kernels_are() -> None:
    assert "-Og" in PLAIN and "-O3" not in PLAIN
    assert {"-O0", "-g", "-DOPBRIDGE_CHECK_BOUNDS"} <= set(_part_flags(GCC, Settings(debug=True)))
    assert "-fsanitize=address" in _part_flags(GCC, Settings(sanitize=("address",), flags=("-O0",)))
