"""A sample of ONNX's own node tests, converted to other opsets; `bench/convert.py` takes all of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "convert.py"
    spec = importlib.util.spec_from_file_location("bench_convert", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_convert"] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_none_is_wrong(bench: ModuleType) -> None:
    found = [each for case in bench.cases(every=29) for each in bench.outcomes(case, (11, 17, 21))]
    assert [each for each in found if each.kind == "WRONG"] == []
    kinds = [each.kind for each in found]
    assert kinds.count("equal") > 2 * kinds.count("refused")
    assert all("needs opset" in each.why or "has no form" in each.why for each in found if each.kind == "refused")
