"""Files that are made to hold up, mislead or stop whoever loads them."""

from __future__ import annotations

import os
import time

import onnx
import pytest
import torch

import opbridge
from opbridge.base import files
from opbridge.cli import main
from opbridge.coverage import results
from opbridge.errors import ModelFileError, OpbridgeError, UsageError, printable
from opbridge.kernels import library
from opbridge.onnx.wire import METADATA, OPSET, field_header
from opbridge.runtimes import onnxruntime as runtime
from opbridge.runtimes.onnxruntime.model_file import required_kernels

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
).SerializeToString()


def metadata(key: str, value: str) -> bytes:
    entry = b"".join(
        field_header(number, len(text.encode())) + text.encode() for number, text in ((1, key), (2, value))
    )
    return field_header(METADATA, len(entry)) + entry


def opset(domain: str) -> bytes:
    entry = field_header(1, len(domain.encode())) + domain.encode() + b"\x10\x01"
    return field_header(OPSET, len(entry)) + entry


def seconds_of(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def refusal(model) -> str:
    with pytest.raises(ModelFileError) as caught:
        runtime.session(model)
    return str(caught.value)


def test_thousands_of_domains_take_no_time(monkeypatch):
    runtime.session(MODEL)
    # To compile the built-in kernels takes a minute, and a kernel of another domain is none of them.
    monkeypatch.setattr(library, "builtin", lambda: pytest.fail("the built-in kernels are asked for"))
    names = " ".join(f"domain{number}::f" for number in range(8000))
    model = MODEL + metadata("opbridge.kernels", names)
    said = []
    assert seconds_of(lambda: said.append(refusal(model))) < 2
    assert "kernels for domain0::f, domain1::f" in said[0] and "and 7990 more" in said[0] and len(said[0]) < 1000
    many = MODEL + b"".join(opset(f"domain{number}") for number in range(8000))
    assert seconds_of(lambda: runtime.session(many)) < 2


def test_millions_of_empty_fields_are_not_read_by_hand():
    assert seconds_of(lambda: required_kernels(b"\x08\x08" * 5_000_000)) < 1
    entry = b"\x08\x01" * 1_000_000
    assert seconds_of(lambda: required_kernels(field_header(METADATA, len(entry)) + entry)) < 1


def test_metadata_that_opbridge_did_not_write():
    names = "no-domain a::b a::b ::: \x1b"
    assert required_kernels(MODEL + metadata("opbridge.kernels", names)) == ["a::b", ":::"]
    assert "kernels for a::b" in refusal(MODEL + metadata("opbridge.kernels", names))


def pipe(folder):
    os.mkfifo(folder / "pipe.onnx")
    return folder / "pipe.onnx", "it is a pipe, not a file"


def device(folder):
    return "/dev/zero", "it is a device, not a file"


def link_to_a_device(folder):
    (folder / "m.onnx").symlink_to("/dev/zero")
    return folder / "m.onnx", "it is a device, not a file"


def huge(folder):
    path = folder / "huge.onnx"
    with path.open("wb") as file:
        file.write(MODEL)
        file.truncate(1 << 33)
    return path, "it has 8,589,934,592 bytes, and at most 2,147,483,647 can be read"


MAKE = [pipe, device, link_to_a_device, huge]


@pytest.mark.parametrize("make", MAKE)
def test_what_is_no_file_is_refused_at_once(tmp_path, make):
    path, why = make(tmp_path)
    assert f"cannot be read as an ONNX file: {why}. Give another file." in refusal(path)
    with pytest.raises(ModelFileError, match=why):
        opbridge.verify(path, lambda x: x, ())


@pytest.mark.parametrize("make", MAKE[:3])
@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_so_are_inputs(tmp_path, make, suffix):
    path, why = make(tmp_path)
    link = tmp_path / f"inputs{suffix}"
    link.symlink_to(path)
    from opbridge.verification.given_inputs import example_from_file

    with pytest.raises(UsageError, match=f"cannot be read: {why}"):
        example_from_file(link)


@pytest.mark.parametrize("make", MAKE)
def test_so_are_results_of_a_sweep(tmp_path, make):
    path, _ = make(tmp_path)
    with pytest.raises(UsageError, match="is not a result file: it"):
        results.read(path)


def test_what_is_there_may_be_opened(tmp_path):
    (tmp_path / "file").write_bytes(b"1234")
    assert files.problem(tmp_path / "file", 4) == files.problem(tmp_path / "none", 4) == files.problem("a\0b", 4) == ""
    assert files.problem(tmp_path / "file", 3) == "it has 4 bytes, and at most 3 can be read"
    assert files.problem(tmp_path, 4) == "it is a folder, not a file"


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202ecod.exe\r"


def test_text_that_controls_a_terminal_is_escaped():
    assert printable(HOSTILE) == r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202ecod.exe\x0d"
    assert printable("a\tb\nc é 𝄞 名前 �") == "a\tb\nc é 𝄞 名前 �"
    assert printable(os.fsdecode(b"\xff.onnx")) == r"\udcff.onnx"
    assert str(OpbridgeError(f"one {HOSTILE}")) == f"one {printable(HOSTILE)}"


@pytest.mark.slow
def test_names_in_a_file_control_no_terminal(tmp_path, capsys):
    model = onnx.ModelProto.FromString(MODEL)
    model.graph.node[0].op_type = HOSTILE
    assert "\x1b" not in refusal(model.SerializeToString())
    model = onnx.ModelProto.FromString(MODEL)
    model.graph.output[0].name = model.graph.node[0].output[0] = HOSTILE
    path = tmp_path / f"m{HOSTILE}.onnx"
    path.write_bytes(model.SerializeToString())
    (tmp_path / "spec.py").write_text("import torch\ndef build():\n    return torch.sigmoid, (torch.randn(2),)\n")
    for more in ([], ["--json"]):
        assert main(["verify", str(path), f"{tmp_path}/spec.py:build", *more]) == 1
        said = "".join(capsys.readouterr())
        assert "owned" in said and not set(said) & set("\x1b\x07\x9b\u202e\r")
    assert main(["verify", f"{tmp_path}/{HOSTILE}", f"{tmp_path}/spec.py:build"]) == 2
    said = "".join(capsys.readouterr())
    assert "owned" in said and not set(said) & set("\x1b\x07\x9b\u202e\r")


def test_names_that_are_no_text():
    content = MODEL.replace(b"Relu", b"R\xfclu")
    assert "R\ufffdlu" in refusal(content)


def test_metadata_that_are_no_text():
    for name in ("opbridge.other", "opbridge.read_inputs"):
        content = MODEL + metadata(name, "an entry").replace(b"entry", b"\xffntry")
        assert "is damaged: 'an \ufffdntry' is a name or a metadata entry" in refusal(content)


@pytest.mark.parametrize("text", ["{", "3", '{"x": 1}', "[3, [], null]", "[" * 100_000])
def test_metadata_of_the_verification_that_opbridge_did_not_write(tmp_path, text):
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL + metadata("opbridge.read_inputs", text))
    assert opbridge.verify(path, torch.relu, (torch.randn(2),)).ok
