"""The command `opbridge support`."""

from __future__ import annotations

import json
import sys

import pytest
from helpers.acme import Acme

from opbridge.cli import main


@pytest.mark.slow
def test_functions_that_have_changed(tmp_path, monkeypatch, capsys):
    acme = Acme(tmp_path, monkeypatch)
    assert main(["support", "acme", "--compare"]) == 0
    assert capsys.readouterr().out == (
        "acme (support by acme-onnx 1.2): "
        "2 of 3 functions with a known source, 0 changed, 1 absent; 0 with differences\n"
    )
    acme.write(factor=4)
    sys.modules.pop("acme.models")
    assert main(["support", "acme", "--compare"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("fingerprint") and "acme.models:outside differs on inputs 1:" in said
    assert main(["support", "acme", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    states = {each["target"]: each["state"] for each in document["packages"][0]["targets"]}
    assert not document["ok"] and states["acme.models:outside"] == "changed"
    assert main(["support", "a_package_without_support"]) == 2
