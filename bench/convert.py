"""ONNX's own node tests, each converted to other opsets and compared with what it gave before.

    python bench/convert.py                     # all tests, all opsets: a table in RESULTS.md, and the wrong ones
    python bench/convert.py --opsets 13 --every 10 --list refused

A result is compared in ONNX Runtime with the original where both have kernels there, else by ONNX's reference evaluator
with what the test expects. WRONG has to be 0.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator
from results import table, write_section

from opbridge.conversion.converting import converted
from opbridge.conversion.schemas import newest
from opbridge.errors import ConversionError, OpbridgeError
from opbridge.side_by_side import difference, is_random

OPSETS = (11, 13, 15, 17, 18, 21, newest())


@dataclass(frozen=True)
class Outcome:
    """What became of one test at one opset: equal, refused, not run, original not run, random or WRONG."""

    test: str
    source: int
    opset: int
    kind: str
    why: str = ""


@dataclass
class Case:
    """One of ONNX's node tests."""

    name: str
    model: onnx.ModelProto
    inputs: list[Any]
    expected: list[Any]

    @property
    def opset(self) -> int:
        return next((each.version for each in self.model.opset_import if each.domain in ("", "ai.onnx")), 0)


def cases(every: int = 1, contains: str = "") -> Iterator[Case]:
    """The tests of single nodes of ONNX's own domain."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    for each in tests[::every]:
        model = each.model
        if contains not in each.name or model is None or not each.data_sets:
            continue
        if {node.domain for node in model.graph.node} <= {"", "ai.onnx"}:
            inputs, expected = each.data_sets[0]
            yield _with_constants(Case(each.name, model, list(inputs), list(expected)))


def _with_constants(case: Case) -> Case:
    """The test with what says how rather than what as constants, as in models: axes, sizes, bounds."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    kept, left = [], []
    for at, (value, given) in enumerate(zip(case.model.graph.input, case.inputs, strict=True)):
        array = given if isinstance(given, (np.ndarray, np.generic)) and value.type.HasField("tensor_type") else None
        small = array is not None and array.ndim <= 1 and (array.dtype == np.int64 or array.ndim == 0)
        if at and small and array is not None:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), value.name))
        else:
            kept.append(value)
            left.append(given)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return Case(case.name, model, left, case.expected)


def in_onnxruntime(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any] | None:
    """What ONNX Runtime gives; None where it does not run the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, _feeds(model, inputs)))
    except Exception:  # no kernel, or values that it does not take
        return None


def in_reference(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any] | None:
    """What ONNX's reference evaluator gives; None where it does not run the model."""
    try:
        return list(ReferenceEvaluator(model).run(None, _feeds(model, inputs)))
    except Exception:  # it has no implementation, or one of another opset
        return None


def _feeds(model: onnx.ModelProto, inputs: Sequence[Any]) -> dict[str, Any]:
    return {value.name: each for value, each in zip(model.graph.input, inputs, strict=True)}


def outcomes(case: Case, opsets: Sequence[int] = OPSETS) -> Iterator[Outcome]:
    """What becomes of a test at each opset."""
    if not 7 <= case.opset <= newest():
        return
    before: list[Any] | None = None
    reference: list[Any] | None = None
    looked = False
    for opset in opsets:
        if opset == case.opset:
            continue
        try:
            done = converted(case.model.SerializeToString(), case.name, opset, isolated=False)
        except ConversionError as error:
            kind = "refused" if error.refusals else "WRONG"
            yield Outcome(case.name, case.opset, opset, kind, " ".join(str(error).split()))
            continue
        except OpbridgeError as error:
            yield Outcome(case.name, case.opset, opset, "refused", " ".join(str(error).split()))
            continue
        except Exception as error:
            yield Outcome(case.name, case.opset, opset, "WRONG", f"{type(error).__name__}: {error}")
            continue
        if is_random(done.model):
            yield Outcome(case.name, case.opset, opset, "random")
            continue
        model = onnx.ModelProto.FromString(done.to_bytes())
        if not looked:
            looked = True
            before = in_onnxruntime(case.model, case.inputs)
            reference = None if before is not None else in_reference(case.model, case.inputs)
        now = in_onnxruntime(model, case.inputs)
        wanted = before if before is not None else reference
        if now is None:
            now, wanted = in_reference(model, case.inputs), in_reference(case.model, case.inputs)
        if now is None or wanted is None:
            kind = "original not run" if wanted is None else "not run"
            yield Outcome(case.name, case.opset, opset, kind)
            continue
        distances = [difference(_plain(one), _plain(two)) for one, two in zip(wanted, now, strict=True)]
        expected = [difference(_plain(one), _plain(two)) for one, two in zip(case.expected, now, strict=True)]
        if all(close for _, close in distances) or all(close for _, close in expected):
            yield Outcome(case.name, case.opset, opset, "equal")
        else:
            yield Outcome(case.name, case.opset, opset, "WRONG", f"differs by {max(each for each, _ in distances)}")


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (list, tuple)) else np.asarray(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opsets", default=",".join(map(str, OPSETS)))
    parser.add_argument("--every", type=int, default=1, help="only one in so many tests")
    parser.add_argument("--contains", default="", help="only tests with this in their names")
    parser.add_argument("--list", default="WRONG", help="the kinds to list, with commas")
    parser.add_argument("--print", action="store_true", help="write nothing to RESULTS.md")
    given = parser.parse_args()
    start = time.monotonic()
    found: Counter[tuple[int, str]] = Counter()
    opsets = [int(each) for each in given.opsets.split(",")]
    for case in cases(given.every, given.contains):
        for each in outcomes(case, opsets):
            found[each.opset, each.kind] += 1
            if each.kind in given.list.split(","):
                print(f"{each.kind}: {each.test} {each.source} -> {each.opset}: {each.why}", flush=True)
    kinds = sorted({kind for _, kind in found} | {"WRONG"})
    rows = [[str(opset), *(f"{found[opset, kind]:,}" for kind in kinds)] for opset in opsets]
    body = table(["to opset", *kinds], rows) + f"\n\n{time.monotonic() - start:.0f} s."
    if given.print or given.every > 1 or given.contains:
        print(body)
    else:
        write_section("convert", "ONNX's node tests at other opsets", body)
    return int(any(count for (_, kind), count in found.items() if kind == "WRONG"))


if __name__ == "__main__":
    sys.exit(main())
