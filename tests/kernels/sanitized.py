"""Calls kernels, built with sanitizers, in ONNX Runtime: python sanitized.py LIBRARY MODULE SEEDS.

Run by tests in a process of its own, into which the sanitizers' runtime has been preloaded: an error ends it.
"""

from __future__ import annotations

import importlib
import re
import sys

import onnxruntime
from kernels.running import TOLERANCE, assert_near, through_onnxruntime


def main(library: str, module: str, seeds: str) -> None:
    cases = importlib.import_module(module)

    def session(model: bytes) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 2
        options.register_custom_ops_library(library)
        return onnxruntime.InferenceSession(model, options)

    for seed in range(int(seeds)):
        dtype = list(TOLERANCE)[seed % len(TOLERANCE)]
        for case in cases.random_cases(seed):
            outputs = len(case.expected)
            assert_near(
                through_onnxruntime(case.operator, case.inputs, case.attributes, outputs, dtype, session), case, dtype
            )
    for refused in cases.REFUSED:
        inputs = refused.inputs()
        outputs = refused.outputs
        try:
            through_onnxruntime(refused.operator, inputs, refused.attributes, outputs, "float32", session)
        except Exception as error:  # ONNX Runtime's errors share no other class
            if re.search(refused.words, str(error)):
                continue
            raise
        raise SystemExit(f"{refused} was not refused")
    print("clean")


if __name__ == "__main__":
    main(*sys.argv[1:])
