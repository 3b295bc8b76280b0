"""The columns of the pages of sweeps."""

from __future__ import annotations

from typing import Any

import pytest

from opbridge.coverage import models, page
from opbridge.errors import UsageError


def results(family: str, outcomes: dict[str, str], exporter: str = "opbridge", **versions: str) -> models.Results:
    plain: dict[str, Any] = {"message": "", "cause": "", "capture": "", "routes": {}, "missing": [], "nodes": 1}
    entries = [
        {"family": family, "model": name, "outcome": outcome, **plain, "notes": [], "timings": {"export": 1.0}}
        for name, outcome in outcomes.items()
    ]
    settings = {"families": [family], "exporter": exporter, "dynamic": "all"}
    return models.Results({"models": entries, "settings": settings, "versions": {"opbridge": "1", **versions}})


def test_files_of_one_exporter_are_one_column():
    found = page.of_models(
        [
            results("timm", {"vit": "pass", "bit": "refused"}, timm="1"),
            results("timm", {"vit": "pass", "bit": "pass"}, "torch", timm="1"),
            results("kornia", {"Affine": "pass"}, kornia="2"),
            results("kornia", {"Affine": "left out"}, "torch", kornia="2"),
        ]
    )
    assert [each["name"] for each in found["columns"]] == ["opbridge", "torch.onnx (dynamo)"]
    assert [each["line"] for each in found["columns"]] == ["2 of 3 pass", "2 of 2 pass"]
    assert found["columns"][0]["versions"] == {"opbridge": "1", "timm": "1", "kornia": "2"}
    rows = {row["n"]: [cell["s"] for cell in row["c"]] for row in found["rows"]}
    assert rows == {"Affine": ["pass", "left out"], "bit": ["refused", "pass"], "vit": ["pass", "pass"]}


@pytest.mark.parametrize(
    "second",
    [
        results("timm", {"vit": "refused"}, timm="1"),  # the same model again
        results("timm", {"bit": "pass"}, timm="2"),  # of another release
    ],
)
def test_other_results_of_an_exporter_are_another_column(second: models.Results) -> None:
    found = page.of_models([results("timm", {"vit": "pass"}, timm="1"), second])
    assert found["columns"][0]["line"] == "1 of 1 pass"
    assert len(found["columns"]) == 2


def test_columns_are_told_apart_by_the_fewest_versions():
    one = results("timm", {"vit": "pass"}, torch="2.15.0+cu132", torchvision="0.29")
    two = results("timm", {"vit": "pass"}, torch="2.13.0+cpu")
    names = [each["name"] for each in page.of_models([one, two])["columns"]]
    assert names == ["opbridge, torch 2.15.0", "opbridge, torch 2.13.0"]


def test_models_that_are_built_are_a_column_of_their_own():
    built = results("timm", {"vit": "built", "bit": "build error"}, timm="1")
    built.document["settings"]["target"] = "tensorrt-rtx"
    half = results("timm", {"vit": "built"}, timm="1")
    half.document["settings"].update(target="tensorrt-rtx", dtype="float16")
    found = page.of_models([results("timm", {"vit": "pass", "bit": "pass"}, timm="1"), built, half])
    names = ["opbridge", "opbridge for tensorrt-rtx", "opbridge for tensorrt-rtx, float16"]
    assert [each["name"] for each in found["columns"]] == names
    assert [each["line"] for each in found["columns"]] == [
        "2 of 2 pass",
        "1 of 2 built, not run",
        "1 of 1 built, not run",
    ]
    assert dict(found["states"])["built"] == "good" and dict(found["states"])["build error"] == "bad"


def test_no_results_are_no_page():
    with pytest.raises(UsageError, match="no results"):
        page.of_models([])
