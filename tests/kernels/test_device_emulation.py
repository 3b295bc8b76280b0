"""The emulation of CUDA's language runs device functions on the CPU, and the sanitizers see what they do wrong."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from device import HERE

from opbridge.kernels.compiler import INCLUDE, find_compiler

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["address,undefined", "thread", ""])
def emulated(request, tmp_path_factory):
    """The program, built with sanitizers, and which; without, its threads take turns."""
    path = tmp_path_factory.mktemp("emulated") / "emulated"
    how = f"-fsanitize={request.param}" if request.param else "-DOPBRIDGE_EMULATES_BARRIERS=2"
    command = [*find_compiler().command, "-std=c++17", "-O0", "-g", how, f"-I{INCLUDE}"]
    subprocess.run([*command, str(HERE / "emulated.cpp"), "-o", str(path), "-pthread"], check=True)
    return path, request.param


def run(program: Path, case: str) -> tuple[int, str]:
    options = {"ASAN_OPTIONS": "detect_leaks=0:exitcode=66", "TSAN_OPTIONS": "exitcode=66"}
    done = subprocess.run([program, case], capture_output=True, text=True, env={**os.environ, **options})
    return done.returncode, done.stdout + done.stderr


def test_blocks_barriers_shared_memory_and_shuffles(emulated):
    # sums of 64 numbers in a row; the last block has 8
    assert run(emulated[0], "barriers") == (0, "2016 6112 10208 1564\n")


def test_atomic_operations_and_indices(emulated):
    assert run(emulated[0], "atomics") == (0, "32 113\n")


def test_numbers_of_elements_beyond_31_bits(emulated):
    assert run(emulated[0], "large") == (0, "3 5 7, 3 0 9\n")


def test_a_function_of_an_element_with_a_broadcast_input(emulated):
    assert run(emulated[0], "elements") == (0, "right\n")


def test_a_barrier_that_some_threads_do_not_reach_is_an_error(emulated):
    status, said = run(emulated[0], "divergence")
    assert status == 1 and "not all threads of a block reach the same barrier" in said


def test_what_sanitizers_see(emulated):
    program, sanitizers = emulated
    if not sanitizers:
        pytest.skip("this build has no sanitizer")
    if sanitizers == "thread":
        status, said = run(program, "race")
        assert status == 66 and "data race" in said and "block_sums" in said
    else:
        status, said = run(program, "outside")
        assert status == 66 and "heap-buffer-overflow" in said and "outside" in said
