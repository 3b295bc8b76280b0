"""Libraries are built from C++, kept by content, and safe to build from many processes at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kernels_loaded import MY_ADD

import opbridge
from opbridge.cli import main
from opbridge.kernels import cache, library, scaffold, shipped

pytestmark = pytest.mark.slow

CHILD = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
SANITIZED = {"sanitize": ["address", "undefined"], "flags": ["-O0"]}
BUILD = "import sys, opbridge; print(opbridge.build(sys.argv[1]))"


@pytest.fixture(scope="module")
def host_parts(tmp_path_factory):
    """A cache that has what every library holds, compiled, and the built-in kernels: most of the time of a build.

    They are built in the usual cache, where other tests have them too, and copied.
    """
    opbridge.build(MY_ADD)
    for settings in ({"flags": ["-O0"]}, {"debug": True}, SANITIZED):
        opbridge.build(MY_ADD, **settings)
    usual = cache.cache_folder() / "kernels"
    copied = tmp_path_factory.mktemp("host_parts")
    shutil.copytree(usual / "index", copied / "kernels" / "index", ignore=shutil.ignore_patterns("*.lock"))
    for built in (*usual.glob("adapter*-*"), *usual.glob(shipped.shipped("_builtin").parent.name)):
        shutil.copytree(built, copied / "kernels" / built.name)
    return copied


@pytest.fixture
def folder(tmp_path, monkeypatch, host_parts):
    """A folder with my_add.cpp in it, and a cache of its own."""
    shutil.copytree(host_parts, tmp_path / "cache")
    monkeypatch.setenv("OPBRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_add.cpp").write_text(MY_ADD.read_text())
    return tmp_path


def built_in(folder):
    return sorted(path for path in (folder / "cache" / "kernels").glob("my_add-*/*.so"))


def test_what_was_built_is_built_once(folder):
    first = opbridge.build("my_add.cpp")
    written = first.stat().st_mtime_ns
    assert opbridge.build("my_add.cpp") == first
    assert first.stat().st_mtime_ns == written
    assert [each.schema for each in library.open_library(first).operators] == [
        "mylib::my_add(Tensor a, Tensor b, *, float alpha=2.0) -> Tensor"
    ]


def test_a_change_of_the_file_its_headers_or_the_flags_is_another_library(folder):
    source = folder / "my_add.cpp"
    (folder / "factor.h").write_text("constexpr int factor = 1;\n")
    source.write_text('#include "factor.h"\n' + source.read_text())
    first = opbridge.build(source)
    (folder / "factor.h").write_text("constexpr int factor = 2;\n")
    second = opbridge.build(source)
    third = opbridge.build(source, flags=["-DSOMETHING"])
    source.write_text(source.read_text() + "// changed\n")
    fourth = opbridge.build(source)
    assert len({first, second, third, fourth}) == 4
    (folder / "factor.h").write_text("constexpr int factor = 1;\n")
    source.write_text(source.read_text().removesuffix("// changed\n"))
    assert opbridge.build(source) in (first, second)  # the older build is found again, or made again in its place


def test_many_processes_build_the_same_at_once(folder):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, "my_add.cpp"], stdout=subprocess.PIPE, text=True, env={**os.environ, **CHILD}
        )
        for _ in range(4)
    ]
    paths = {process.communicate()[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(paths) == 1
    assert built_in(folder) == [Path(paths.pop())]
    assert not list((folder / "cache" / "kernels").glob("build-*"))


def test_errors_are_the_compilers_own_with_the_users_line(folder):
    source = folder / "my_add.cpp"
    source.write_text(source.read_text().replace("out[i] =", "uot[i] ="))
    line = next(number for number, text in enumerate(source.read_text().splitlines(), 1) if "uot[i]" in text)
    with pytest.raises(opbridge.BuildError) as caught:
        opbridge.build("my_add.cpp")
    assert f"my_add.cpp:{line}:" in str(caught.value)
    assert "uot" in str(caught.value)
    assert not built_in(folder)


def test_no_compiler_says_what_to_install(folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(opbridge.BuildError, match="requires a C\\+\\+ compiler.*Install one: apt-get install g"):
        opbridge.build("my_add.cpp")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(opbridge.BuildError, match="CXX is 'no-such-compiler'"):
        opbridge.build("my_add.cpp")


def test_a_folder_that_cannot_be_written_to(folder, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setenv("OPBRIDGE_CACHE", str(folder / "file"))
    with pytest.raises(opbridge.BuildError, match="OPBRIDGE_CACHE"):
        opbridge.build("my_add.cpp")


def test_wrong_use(folder):
    with pytest.raises(opbridge.UsageError, match="nothing.cpp does not exist"):
        opbridge.build("nothing.cpp")
    with pytest.raises(opbridge.UsageError, match="Unknown sanitizer 'adress'"):
        opbridge.build("my_add.cpp", sanitize=["adress"])
    with pytest.raises(opbridge.UsageError, match="requires a C\\+\\+ file"):
        opbridge.build()
    with pytest.raises(opbridge.UsageError, match="is source code"):
        library.open_library("my_add.cpp")
    (folder / "text.so").write_text("no library")
    with pytest.raises(opbridge.KernelError, match="cannot be loaded"):
        library.open_library("text.so")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Tensor b, *", "Tensor b, int k, *", "the kernel's parameter for 'k' is float, but the schema declares int"),
        ("float alpha=2.0", "float alpha=2.0, int k=1", "the kernel has no parameter for 'k'"),
        ("-> Tensor", "-> (Tensor, Tensor)", "the kernel has 1 outputs, but the schema returns 2 tensors"),
        ("-> Tensor", "-> int", "expected Tensor or Tensor[], the only return types of kernels"),
        (
            "-> Tensor",
            "-> Tensor[]",
            "output 0 is an Output<T>, but the schema returns Tensor[]: declare it as Outputs<T>",
        ),
        ("-> Tensor", "-> (Tensor[], Tensor)", "a list of tensors must be the last result of a kernel"),
        ("(Tensor a", "(Tensor(a!) a", "a kernel cannot write to its inputs"),
        ("float alpha=2.0", "Device alpha", "expected one of the types Tensor, int"),
        ("mylib::", "mylib:", "expected '::'"),
    ],
)
def test_a_schema_that_the_functions_do_not_have_is_an_error_at_load(folder, old, new, said):
    source = folder / "my_add.cpp"
    source.write_text(source.read_text().replace(old, new, 1))
    with pytest.raises(opbridge.KernelError) as caught:
        opbridge.load(source, flags=["-O0"])
    assert said in str(caught.value)


def test_several_files_are_one_library(folder):
    (folder / "other.cpp").write_text(MY_ADD.read_text().replace("my_add", "other"))
    built = opbridge.build("my_add.cpp", "other.cpp", output="both.so", flags=["-O0"])
    assert built == Path("both.so")
    assert library.open_library(built).names == {"mylib::my_add", "mylib::other"}


def test_a_file_that_is_compiled_by_hand(folder):
    """The headers need nothing but a compiler."""
    from opbridge.kernels.compiler import INCLUDE

    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", f"-I{INCLUDE}", "my_add.cpp", "-o", "libmy_add.so"]
    done = subprocess.run([*command, "-Wall", "-Wextra", "-Werror"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert library.open_library("libmy_add.so").names == {"mylib::my_add"}


def test_the_command_line(folder, capsys):
    assert main(["build", "my_add.cpp", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["library"] == "my_add.so"
    assert answer["operators"] == ["mylib::my_add(Tensor a, Tensor b, *, float alpha=2.0) -> Tensor"]
    assert main(["build", "my_add.cpp", "-g", "-o", "debug.so"]) == 0
    assert "debug.so" in capsys.readouterr().out
    assert main(["build", "missing.cpp"]) == 2
    assert "The file missing.cpp does not exist" in capsys.readouterr().err


def test_new_writes_files_that_work(folder, capsys):
    assert main(["new", "my_op"]) == 0
    assert sorted(path.name for path in folder.glob("*my_op*")) == ["my_op.cpp", "my_op_model.py", "test_my_op.py"]
    environment = {**os.environ, **CHILD}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_op.py"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert main(["export", "my_op_model.py:build", "-o", "my_op.onnx"]) == 0
    assert "verified" in capsys.readouterr().out
    assert main(["new", "my_op"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["new", "My-op"]) == 2


@pytest.mark.parametrize("name", ["double", "class", "xor", "co_await", "main", "std", "__add", "template"])
def test_new_refuses_what_cpp_does_not_take(tmp_path, name):
    with pytest.raises(
        opbridge.UsageError, match=rf"'{name}' .*(is not a valid name for an operator|is reserved in C\+\+)"
    ):
        scaffold.create(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_sanitizers(folder):
    """A kernel that writes beside its output is caught, in a process of its own."""
    source = folder / "my_add.cpp"
    source.write_text(source.read_text().replace("i < out.size()", "i <= out.size()"))
    built = opbridge.build(source, **SANITIZED, output="sanitized.so")
    from opbridge.kernels.compiler import Settings, find_compiler

    preload = find_compiler().preload(Settings(sanitize=("address",)))
    environment = {**os.environ, **CHILD, "LD_PRELOAD": str(preload), "ASAN_OPTIONS": "detect_leaks=0"}
    code = f"import opbridge, torch; print(opbridge.load('{built}').my_add(torch.ones(16), torch.ones(16)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "sanitized.so" in done.stderr


def test_bounds_are_checked_in_a_debug_build(folder):
    import torch

    source = folder / "my_add.cpp"
    source.write_text(source.read_text().replace("i < out.size()", "i <= out.size()").replace("mylib", "boundstest"))
    ops = opbridge.load(source, debug=True)
    with pytest.raises(RuntimeError, match="element 3 of a tensor with 3 elements"):
        ops.my_add(torch.ones(3), torch.ones(3))


def test_the_wheel_has_every_built_in_kernel() -> None:
    declared = {each.name for each in library.open_library(shipped.shipped("_builtin")).operators}
    named = {path.stem for path in shipped.sources("_builtin")}
    assert {name.partition("::")[0] for name in declared} == {"opbridge_ops"}
    assert named <= {name.partition("::")[2].partition(".")[0] for name in declared}
    assert not any(name.startswith("adapter") for name in named)


def test_no_compiler_and_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert not shipped.at_hand("_builtin")
    assert library.builtin() == []
