"""onnxruntime-web in a page of headless Chromium, where both are installed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import onnx
import pytest

import opbridge
from opbridge.runtimes import browser
from opbridge.runtimes.browser import page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not browser.version(), reason=f"not installed: {browser.INSTALL}"),
]

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 3] x) => (float[n, 3] y) <float[3] b = {1, 2, 3}> { y = Add (x, b) }"""


def test_weights_beside_the_file_are_read_from_its_folder_alone(tmp_path):
    model = onnx.parser.parse_model(TEXT)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.float32([1, 2, 3]), "b"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    x = np.ones((2, 3), np.float32)
    with opbridge.session(tmp_path / "m.onnx", runtime="browser") as session:
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x + np.float32([1, 2, 3]))
    (tmp_path / "m.data").rename(tmp_path.parent / "outside.data")
    (tmp_path / "m.data").symlink_to(tmp_path.parent / "outside.data")
    with pytest.raises(opbridge.ModelFileError, match="outside of its folder"):
        opbridge.session(tmp_path / "m.onnx", runtime="browser")


def test_a_page_that_ends_is_an_error_of_one_call_and_another_one_is_opened(monkeypatch):
    content = onnx.parser.parse_model(TEXT).SerializeToString()
    x = np.zeros((1, 3), np.float32)
    opened = page.shared("wasm")
    try:
        assert opened.run(opened.load(content), {"x": x})[0].tolist() == [[1, 2, 3]]
        for each in _renderers(opened._process.pid):
            os.kill(each, signal.SIGKILL)
        with pytest.raises(opbridge.RunError, match="The browser page terminated"):
            opened.load(content)
        profile = Path(opened._profile)
        assert not profile.exists()
        opened = page.shared("wasm")
        assert opened.run(opened.load(content), {"x": x})[0].tolist() == [[1, 2, 3]]
    finally:
        opened.close()


def _renderers(pid: int) -> list[int]:
    """The processes of a browser that run pages."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            said = (each / "cmdline").read_bytes()
            parents = {int(line.split()[1]) for line in (each / "status").read_text().splitlines() if "PPid" in line}
        except OSError:
            continue
        if b"--type=renderer" in said and (pid in parents or _is_below(pid, parents)):
            found.append(int(each.name))
    return found


def _is_below(pid: int, parents: set[int]) -> bool:
    """Whether a process is among the ancestors of one with these parents."""
    while parents and parents != {0}:
        if pid in parents:
            return True
        (parent,) = parents
        try:
            text = Path(f"/proc/{parent}/status").read_text()
        except OSError:
            return False
        parents = {int(line.split()[1]) for line in text.splitlines() if line.startswith("PPid")}
    return False


def test_what_is_missing_is_said_with_the_command(monkeypatch):
    monkeypatch.setenv("OPBRIDGE_CHROMIUM", "/no/such/program")
    assert browser.version() == ""
    with pytest.raises(opbridge.UsageError, match="apt install chromium"):
        opbridge.session(b"", runtime="browser")
