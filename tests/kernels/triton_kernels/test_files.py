"""The library beside a file, programs of torch.export, and the commands."""

from __future__ import annotations

import ctypes

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: pip install 'opbridge[triton]'")

from kernels.triton_kernels.forms import FORMS, add, add_operator, wrapped

import opbridge
from opbridge.cli import main
from opbridge.errors import CaptureError
from opbridge.kernels.library import Library

pytestmark = pytest.mark.slow

X = torch.randn(5, 30)


class Adding(torch.nn.Module):
    def forward(self, x, y):
        return add_operator(x, y)


def test_one_library_has_all_kernels_of_the_file(tmp_path):
    form = FORMS["two kernels"]
    path = tmp_path / "model.onnx"
    program = opbridge.export(form.model, form.args, path, architectures=["sm_75", "sm_90"])
    assert program.libraries == [path.with_name(f"model.kernels{program.libraries[0].suffix}")]
    assert program.files == [path, *program.libraries]
    assert sorted(Library(program.libraries[0]).names) == sorted(program.kernels)
    content = program.libraries[0].read_bytes()
    for architecture in (b"sm_75", b"sm_90", b"compute_75"):
        assert content.count(b"opbridge device code 1\n" + architecture + b"\n") == 2  # for each kernel
    assert b".target sm_75" in content


def test_ptx_is_for_all_later_architectures(tmp_path):
    program = opbridge.export(add, (X, X), tmp_path / "model.onnx", architectures=["sm_90"])
    content = program.libraries[0].read_bytes()
    assert b"compute_80\n" in content and b".target sm_80" in content
    assert b"sm_90a\n" not in content


def test_saving_a_program_writes_the_library_too(tmp_path):
    program = opbridge.export(add, (X, X))
    assert program.libraries == []
    program.save(tmp_path / "later.onnx")
    assert [each.name.partition(".")[0] for each in program.files] == ["later", "later"]


def test_a_session_without_an_interpreter_says_where_the_kernel_runs(tmp_path):
    program = opbridge.export(add, (X, X), tmp_path / "model.onnx", dynamic_shapes={0: "rows"})
    session = opbridge.session(program.path, kernels=program.libraries)
    assert "Triton's interpreter" in session.note
    ctypes.CDLL(str(program.libraries[0])).opbridge_triton_host(None)
    x = X.numpy()
    with pytest.raises(Exception, match="this Triton kernel runs on CUDA devices only.*CUDAExecutionProvider"):
        session.run(None, {"x": x, "y": x})
    (found,) = opbridge.session(program.path, kernels=program.libraries).run(None, {"x": x, "y": x})
    torch.testing.assert_close(torch.from_numpy(found), X + X)


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_program_of_torch_export_is_exported(decomposed):
    rows = torch.export.Dim("rows")
    program = torch.export.export(Adding(), (X, X), dynamic_shapes=({0: rows}, {0: rows}))
    exported = opbridge.export(program.run_decompositions({}) if decomposed else program, (X, X))
    assert exported.verification.ok
    assert any(each.kind == "sizes" for each in exported.verification.runs)
    assert [node.domain for node in exported.model.graph.all_nodes()] == ["triton"]


def test_a_program_that_shows_its_launches_is_exported():
    class Wrapped(torch.nn.Module):
        def forward(self, x):
            return wrapped(x)

    exported = opbridge.export(torch.export.export(Wrapped(), (X,)), (X,))
    assert exported.verification.ok
    assert [node.domain for node in exported.model.graph.all_nodes()] == ["triton"]


def test_torch_exports_capture_is_refused():
    with pytest.raises(CaptureError, match='Capture it with opbridge\'s own capture, capture="export"'):
        opbridge.check(Adding(), (X, X), capture="torch.export")


def test_the_commands(tmp_path, capsys):
    spec = "kernels.triton_kernels.forms:built"
    path = str(tmp_path / "model.onnx")
    assert main(["check", spec, "--arch", "sm_90"]) == 0
    assert "triton::add_kernel" in capsys.readouterr().out
    assert main(["export", spec, "-o", path, "--arch", "sm_80,sm_90"]) == 0
    said = capsys.readouterr().out
    assert "model.kernels" in said and "providers=['CUDAExecutionProvider']" in said
    library = str(next(tmp_path.glob("*.kernels.*")))
    assert main(["verify", path, spec, "--kernels", library]) == 0
    assert "Triton's interpreter" in capsys.readouterr().out
    assert main(["check", spec, "--autotune", "tuned_kernel"]) == 2
    assert "Give a kernel and a number, such as matmul_kernel=2" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["add", "a loop", "matmul in float16", "a softmax", "atomics", "several outputs"])
def test_kernels_compile_for_all_architectures(name, tmp_path):
    form = FORMS[name]
    architectures = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
    program = opbridge.export(form.model, form.args, tmp_path / "m.onnx", architectures=architectures, verify=False)
    content = program.libraries[0].read_bytes()
    for each in (*architectures, "compute_89"):
        assert f"{each}\n".encode() in content
