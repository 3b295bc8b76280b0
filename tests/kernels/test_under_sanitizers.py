"""The sanitizers see what kernels do wrong, in the tests that run under them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from helpers.rows import one_in
from kernels import under_sanitizers

KERNEL = """
    #include <opbridge/kernel.h>
    using namespace opbridge;

    static int calls = 0;
    void wrong(Input<float> x, Output<float> y) {
        float* more = new float[4];
        for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + static_cast<float>(STATEMENT);
        delete[] more;
    }
    Shape same(Shape x) { return x; }
    OPBRIDGE_KERNELS("sanitizertest::wrong(Tensor x) -> Tensor", same, wrong);
"""
TEST = """
    import threading
    import torch
    import opbridge

    def test_it():
        opbridge.load(PATH)
        x = torch.zeros(64)

        def call():
            for _ in range(300):
                torch.ops.sanitizertest.wrong(x)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
"""
WRONG = {
    "thread": ("++calls + 0 * static_cast<int>(more[i % 4] = 1)", "data race"),
    "address": ("more[i % 5] = 1", "heap-buffer-overflow"),
    "undefined": ("(2147483000 + static_cast<int>(x.size()) * 64) * static_cast<int>(more[i % 4] = 1)", "overflow"),
}


# The libraries of the sanitizers are loaded before Python by LD_PRELOAD, which Linux has.
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the runtimes of the sanitizers are found as on Linux")
@pytest.mark.parametrize("sanitizer", one_in(3, WRONG))
def test_what_a_kernel_does_wrong_is_reported(tmp_path, sanitizer):
    statement, words = WRONG[sanitizer]
    folder = tmp_path / "opbridge"
    folder.mkdir()
    kernel, test = folder / "wrong.cpp", folder / "test_wrong.py"
    kernel.write_text(textwrap.dedent(KERNEL).replace("STATEMENT", statement))
    test.write_text(textwrap.dedent(TEST).replace("PATH", repr(str(kernel))))
    command = [sys.executable, under_sanitizers.__file__, sanitizer, str(test), "-q", "-s", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode != 0 and words in done.stdout + done.stderr, done.stdout + done.stderr


def test_races_between_others_do_not_count():
    ours = "  #0 kernel() /opbridge/kernels/a.cpp:3 (a.so+0x1)\n"
    theirs = "  #0 run() <null> (/lib/site-packages/onnxruntime/x.so+0x1)\n"
    for first, second, count in ((ours, ours, 1), (ours, theirs, 0), (theirs, theirs, 0)):
        text = f"==================\nWARNING: ThreadSanitizer: data race\n{first}{second}SUMMARY: x\n"
        assert len(under_sanitizers._of_ours(text)) == count
    assert len(under_sanitizers._of_ours("==================\nERROR: AddressSanitizer: x\nSUMMARY: x\n")) == 1
