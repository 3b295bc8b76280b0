from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from opbridge.base import specs
from opbridge.errors import UsageError

KNOWN = {"kwargs", "dynamic_shapes", "input_names"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a Python file into an empty current directory and returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write(text: str, name: str = "net.py") -> str:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name

    yield write
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def refused(spec: str, **options) -> str:
    """The error's message, which has to be one paragraph."""
    with pytest.raises(UsageError) as caught:
        specs.load(spec, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_status == 2
    return message


def test_a_file(write):
    write("def build():\n    return abs, (1, 2)\n")
    subject = specs.load("net.py:build")
    assert (subject.spec, subject.model, subject.args, subject.keywords) == ("net.py:build", abs, (1, 2), {})


def test_a_module_of_the_current_directory(write):
    write("", "pack/__init__.py")
    write("def build():\n    return abs, (), {'kwargs': {'x': 1}}\n", "pack/net.py")
    subject = specs.load("pack.net:build", KNOWN)
    assert subject.keywords == {"kwargs": {"x": 1}}
    assert sys.path[0] == str(Path.cwd())


def test_a_file_finds_its_neighbours_and_hides_no_module(write):
    write("VALUE = 7\n", "models/neighbour.py")
    write("import json, neighbour\ndef build():\n    return json.dumps, (neighbour.VALUE,)\n", "models/json.py")
    assert specs.load("models/json.py:build").args == (7,)
    assert hasattr(sys.modules["json"], "dumps")


def test_a_file_may_define_dataclasses(write):
    write("import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: 'int' = 1\ndef build():\n    return A, (1,)\n")
    assert specs.load("net.py:build").model().x == 1


def test_a_changed_file_is_read_again(write):
    write("def build():\n    return abs, (1,)\n")
    specs.load("net.py:build")
    write("def build():\n    return abs, (1, 2, 3)\n")
    assert specs.load("net.py:build").args == (1, 2, 3)


def test_a_file_that_is_the_same_is_run_once(write):
    """A second definition of a custom operator frees the first, which objects of the first run still call."""
    write(
        "import torch\n"
        "@torch.library.custom_op('spectest::halved', mutates_args=())\n"
        "def halved(x: torch.Tensor) -> torch.Tensor:\n    return x / 2\n"
        "OTHERS = 1\n"
        "def build():\n    return halved, (torch.ones(2),)\n"
    )
    first = specs.load("net.py:build").model
    assert specs.attribute("net.py:OTHERS", "number") == 1
    assert specs.load("net.py:build").model is first


def test_random_weights_are_the_same_in_every_run(write):
    text = "import torch\nHEAD = torch.randn(3)\ndef build():\n    return abs, (HEAD, torch.randn(3))\n"
    for name in ("net.py", "again.py"):
        write(text, name)
    first, again = (specs.load(f"{name}:build").args for name in ("net.py", "again.py"))
    assert all(map(torch.equal, first, again))


def test_one_tensor_stands_for_a_tuple_of_one(write):
    write("import numpy\ndef build():\n    return abs, numpy.ones(3)\n")
    (only,) = specs.load("net.py:build").args
    assert only.shape == (3,)


@pytest.mark.parametrize("spec", ["net.py", "build", ":build", "net.py:", "net.py:not a name"])
def test_a_spec_without_a_file_or_a_factory(write, spec):
    write("def build(): ...\n")
    message = refused(spec)
    assert "FILE.py:FACTORY or package.module:FACTORY" in message
    assert ("net.py is a file" in message) == spec.startswith("net.py")


def test_a_file_that_does_not_exist(write):
    write("", "nets.py")
    message = refused("net.py:build")
    assert message.startswith("net.py does not exist")
    assert "Did you mean nets.py?" in message
    assert "is a folder" in refused("./:build")


def test_a_file_that_is_not_python(write):
    write("", "net.onnx")
    assert "net.onnx is not a Python file" in refused("net.onnx:build")
    write("def build(:\n")
    assert re.search(r"net.py is not valid Python: .*, at net.py:1 \(def build\(:\)\.", refused("net.py:build"))


def test_a_module_that_does_not_exist(write):
    assert "The module pack.net was not found" in refused("pack.net:build")
    write("import missing_package\n", "a.b/net.py")
    assert "write a.b/net.py" not in refused("a.b.net:build")


def test_a_file_written_as_a_module_that_cannot_be_imported(write, monkeypatch):
    write("", "json/net.py")  # json is another package's name
    assert "There is a file json/net.py: write json/net.py:build." in refused("json.net:build")


def test_a_module_that_imports_what_does_not_exist(write):
    write("import not_there_at_all\n")
    for spec in ("net:build", "net.py:build"):
        message = refused(spec)
        assert "raised ModuleNotFoundError: No module named 'not_there_at_all', at net.py:1" in message
        assert "Install the package that provides not_there_at_all" in message


def test_no_such_factory_lists_those_that_there_are(write):
    write("from os.path import join\nSIZE = 3\ndef build(): ...\ndef build_small(n=1): ...\ndef helper(x): ...\n")
    message = refused("net.py:biuld")
    assert "net.py has no function 'biuld'. It has build, build_small." in message
    assert "Did you mean net.py:build?" in message
    assert "'SIZE' in net.py is a int, not a function" in refused("net.py:SIZE")
    assert "helper() in net.py requires the arguments x" in refused("net.py:helper")
    write("")
    assert "It has no functions." in refused("net.py:build")


def test_a_factory_that_raises_is_told_with_the_users_last_line(write):
    write("import json\n\ndef build():\n    return load('{')\n\ndef load(text):\n    return json.loads(text)\n")
    message = refused("net.py:build")
    assert message.startswith("build() of net.py raised JSONDecodeError: Expecting property name")
    assert message.endswith(", at net.py:7 (return json.loads(text)).")


def test_a_long_message_of_many_lines_becomes_one_paragraph(write):
    write("def build():\n    raise ValueError('line\\n' * 300)\n")
    message = refused("net.py:build")
    assert len(message) < 600
    assert "raised ValueError: line line" in message


def test_a_file_that_ends_the_program(write):
    write("import sys\nsys.exit(4)\n")
    message = refused("net.py:build")
    assert "net.py ended the program (sys.exit(4)), at net.py:2" in message
    assert "__main__" in message


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("None", "returned a NoneType."),
        ("abs", "returned a builtin_function_or_method."),
        ("(abs,)", "returned a tuple of 1 values."),
        ("(abs, 1, 2, 3)", "returned a tuple of 4 values."),
        ("('model.pt', (1,))", "returned a str as its model"),
        ("(abs, 1)", "returned a int as its example inputs"),
        ("(abs, {'x': 1})", "Return keyword inputs in the keywords"),
        ("(abs, (1,), (2,))", "returned a tuple as its third value"),
        ("(abs, (1,), {1: 2})", "returned a dict as its third value"),
        ("(abs, (1,), {'dynamic_shape': 'auto'})", "Did you mean 'dynamic_shapes'?"),
        ("(abs, (1,), {'zzz': 'auto'})", "The valid keywords are dynamic_shapes, input_names, kwargs."),
    ],
)
def test_a_wrong_return(write, returned, said):
    write(f"def build():\n    return {returned}\n")
    message = refused("net.py:build", known=KNOWN)
    assert message.startswith("build() in net.py:build returned")
    assert said in message
