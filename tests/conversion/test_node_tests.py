"""A sample of ONNX's own node tests, converted to other opsets; `bench/convert.py` takes all of them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_none_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    # The script and the module of tables that it imports stand in one folder, which no other test adds to the path.
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "bench")
    bench = importlib.import_module("convert")
    found = [each for case in bench.cases(every=29) for each in bench.outcomes(case, (11, 17, 21))]
    assert [each for each in found if each.kind == "WRONG"] == []
    kinds = [each.kind for each in found]
    assert kinds.count("equal") > 2 * kinds.count("refused")
    assert all("needs opset" in each.why or "has no form" in each.why for each in found if each.kind == "refused")
