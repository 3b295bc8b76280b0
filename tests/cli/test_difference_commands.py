"""Tests of bisect, compare and extract on the command line."""

import json

import pytest
from onnx import TensorProto, helper

from opbridge.cli import main


@pytest.fixture
def files(tmp_path):
    def make(name, operator):
        values = [helper.make_tensor_value_info(each, TensorProto.FLOAT, [2, 3]) for each in "xy"]
        nodes = [
            helper.make_node(operator, ["x"], ["a"], name="first"),
            helper.make_node("Exp", ["a"], ["y"], name="last"),
        ]
        graph = helper.make_graph(nodes, "g", values[:1], values[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        (tmp_path / name).write_bytes(model.SerializeToString())
        return str(tmp_path / name)

    return make("a.onnx", "Sin"), make("b.onnx", "Cos")


@pytest.mark.slow
def test_bisect_names_the_operator(files, capsys, tmp_path):
    assert main(["bisect", *files, "--reproduce", str(tmp_path / "case")]) == 1
    said = capsys.readouterr().out
    assert "The first operator that differs: Cos 'first'" in said and "reproduce.py" in said
    assert main(["bisect", files[0], files[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]


@pytest.mark.slow
def test_compare_says_which_outputs_differ(files, capsys):
    assert main(["compare", *files, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in document["runs"][0]["outputs"]] == ["y"]
    assert main(["compare", files[0], files[0]]) == 0
    assert "All outputs agree" in capsys.readouterr().out


@pytest.mark.slow
def test_extract_writes_a_part(files, capsys, tmp_path):
    assert main(["extract", files[0], "--node", "last", "-o", str(tmp_path / "part.onnx")]) == 0
    assert "1 node of 2." in capsys.readouterr().out and (tmp_path / "part.onnx").is_file()


def test_wrong_use_is_exit_status_2(files, capsys):
    assert main(["bisect", files[0]]) == 2
    assert "nothing to be compared with" in capsys.readouterr().err
    assert main(["extract", files[0], "--node", "fist"]) == 2
    assert "nearest names are: first" in capsys.readouterr().err
    assert main(["compare", files[0], "none.onnx"]) == 2
