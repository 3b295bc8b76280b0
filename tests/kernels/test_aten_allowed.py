"""Which operators a file may have PyTorch run, and what becomes of files that are wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from aten_calls import node_model, run, session_of

import opbridge
from opbridge.cli import main
from opbridge.kernels import aten as aten_kernel
from opbridge.kernels.shipped import shipped
from opbridge.onnx import serialize

A = torch.ops.aten
X = torch.randn(3, 4)

torch.library.define("atenallowed::double", "(Tensor x) -> Tensor")
torch.library.impl("atenallowed::double", "CompositeExplicitAutograd")(lambda x: x * 2)
torch.library.register_fake("atenallowed::double")(torch.empty_like)
DOUBLE = torch.ops.atenallowed.double.default

REFUSED = {
    "files": (A.from_file.default, ["weights", False, 4], {}, X),
    "writes": (A.add_.Tensor, [X, X], {}, X),
    "another library": (DOUBLE, [X], {}, X),
    "not written": (A.empty.memory_format, [[2]], {}, torch.zeros(2)),
    "own steps": (A._ctc_loss.default, [torch.randn(3, 1, 4), torch.ones(1, 2).long(), [3], [2]], {}, (X, X)),
    "gradients": (A.gelu_backward.default, [X, X], {}, X),
    "ends the process": (A.range.step, [0, 3, 1], {}, X),
    "writes to them all the same": (A.cov.default, [X], {}, X),
    "sparse": (A.to_sparse.default, [X], {}, X),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_on_the_default_list_is_refused_when_the_file_is_loaded(name):
    model, _ = node_model(*REFUSED[name])
    operator = model.graph[0].attributes["operator"].as_string()
    with pytest.raises(opbridge.ModelFileError, match=rf"{operator}.* is not on the list .*aten=\('{operator}',\)"):
        session_of(model)


def test_naming_an_operator_allows_it():
    model, fed = node_model(DOUBLE, [X], {}, X)
    for patterns in (("atenallowed::*",), ("atenallowed::double",), "atenallowed::dou*", ("aten::empty", "*::double")):
        session = opbridge.session(serialize.to_bytes(model), aten=patterns)
        assert torch.equal(run(session, fed)[0], X * 2)
    for patterns in (("atenallowed::doubl",), ("aten::*",), ("atenallowed",)):
        with pytest.raises(opbridge.ModelFileError, match="does not belong to aten"):
            session_of(model, patterns)
    with pytest.raises(opbridge.UsageError, match="not the name of an operator"):
        session_of(model, ("atenallowed double",))


def test_naming_one_overload_allows_that_one():
    model, fed = node_model(A.empty_like.default, [X], {}, X)
    session_of(model, ("aten::empty_like",))
    model, fed = node_model(A.add_.Tensor, [X, X], {}, X)
    assert torch.equal(run(session_of(model, ("aten::add_.Tensor",)), fed)[0], X + X)
    with pytest.raises(opbridge.ModelFileError, match="it writes to its arguments"):
        session_of(model, ("aten::add_.Scalar",))


def test_what_a_node_says_of_itself_allows_nothing():
    model, _ = node_model(*REFUSED["writes"])
    attributes = model.graph[0].attributes
    schema = attributes["schema"].as_string()
    attributes["schema"] = ir.AttrString("schema", schema.replace("(a!)", ""))
    with pytest.raises(opbridge.ModelFileError, match="whose schema is"):
        session_of(model)
    attributes["operator"] = ir.AttrString("operator", "aten::add.Tensor")
    with pytest.raises(opbridge.ModelFileError, match="has no operator"):
        session_of(model)


@pytest.mark.slow
def test_a_programs_own_operators_need_not_be_named(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.ops.atenallowed.double(x) + 1

    path = tmp_path / "model.onnx"
    program = opbridge.export(Model(), (X,), path, allow=("standard", "aten"))
    assert program.verification.ok and program.aten_operators() == ("atenallowed::double",)
    program.session()
    assert opbridge.verify(program).ok
    with pytest.raises(opbridge.ModelFileError, match=r"aten=\('atenallowed::double',\)"):
        opbridge.session(path)
    with pytest.raises(opbridge.ModelFileError, match="atenallowed::double"):
        opbridge.verify(path, Model(), (X,))
    assert opbridge.verify(path, Model(), (X,), aten=("atenallowed::*",)).ok


SPEC = """
    import torch

    if not hasattr(torch.ops.atenspec, "double"):
        torch.library.define("atenspec::double", "(Tensor x) -> Tensor")
        torch.library.impl("atenspec::double", "CompositeExplicitAutograd")(lambda x: x * 2)
        torch.library.register_fake("atenspec::double")(torch.empty_like)

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.ops.atenspec.double(x) + 1

    def build():
        return Model(), (torch.randn(3),)
"""


@pytest.mark.slow
def test_the_command_line_names_them_too(tmp_path, capsys):
    spec = tmp_path / "atenspec_model.py"
    spec.write_text(textwrap.dedent(SPEC))
    named, path = f"{spec}:build", str(tmp_path / "model.onnx")
    assert main(["export", named, "-o", path, "--allow", "standard,aten", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verification"]["ok"]
    assert main(["verify", path, named, "--aten", "atenspec::*"]) == 0
    assert main(["verify", path, named]) == 2
    assert "aten=('atenspec::double',)" in " ".join(capsys.readouterr().err.split())


# -- files that are wrong ---------------------------------------------------------------------------------------------


def test_another_torch_fails_when_the_file_is_loaded_with_both_versions_named():
    model, _ = node_model(A.add.Tensor, [X, X], {}, X)
    attributes = model.graph[0].attributes
    attributes["schema"] = ir.AttrString("schema", "aten::add.Tensor(Tensor self, Tensor other) -> Tensor")
    attributes["torch_version"] = ir.AttrString("torch_version", "2.99.1")
    here = ".".join(torch.__version__.split(".")[:2])
    with pytest.raises(
        opbridge.ModelFileError, match=rf"torch 2\.99\.1, whose schema is .*, but torch {here} is installed"
    ):
        session_of(model)
    attributes["operator"] = ir.AttrString("operator", "aten::add_of_tomorrow")
    with pytest.raises(opbridge.ModelFileError, match=f"torch {here} has no operator aten::add_of_tomorrow.Tensor"):
        session_of(model)


WRONG = {
    "no kind": ("arguments", "self:Tensor other:Tensor=tensor alpha:Scalar=int", "has no kind"),
    "unknown kind": ("arguments", "self:Tensor=tensor other:Tensor=tensor alpha:Scalar=number", "is given as number"),
    "another name": ("arguments", "it:Tensor=tensor other:Tensor=tensor alpha:Scalar=int", "and not self:Tensor"),
    "another type": ("arguments", "self:int=int other:Tensor=tensor alpha:Scalar=int", "and not self:Tensor"),
    "a number for a tensor": ("arguments", "self:Tensor=int other:Tensor=tensor alpha:Scalar=int", "is given as int"),
    "a tensor for a number": ("arguments", "self:Tensor=tensor other:Tensor=tensor alpha:Scalar=tensor", "is given as"),
    "none": ("arguments", "self:Tensor=none other:Tensor=tensor alpha:Scalar=int", "is given as none"),
    "a list": ("arguments", "self:Tensor=[tensor] other:Tensor=tensor alpha:Scalar=int", "is given as"),
    "too few arguments": ("arguments", "self:Tensor=tensor other:Tensor=tensor", "it has 2 arguments"),
    "no attribute": ("arguments", "self:Tensor=tensor other:Tensor=tensor alpha:Scalar=float", "attribute 'alpha'"),
    "too few inputs": ("arguments", "self:Tensor=tensor other:Tensor=tensor alpha:Scalar=input_int", "no input for"),
    "a complex result": ("results", "Tensor=[tensor]", "is declared as"),
    "no result": ("results", "", "0 results"),
    "another result": ("results", "int=int", "is declared as int"),
    "nothing returned": ("results", "Tensor=none", "1 output"),
    "no such operator": ("operator", "triu", "has no operator triu.Tensor"),
    "a way out": ("operator", "prim::Print", "has no operator"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_malformed_node_is_refused_when_the_file_is_loaded(name):
    attribute, text, words = WRONG[name]
    model, _ = node_model(A.add.Tensor, [X, X], {"alpha": 2}, X)
    model.graph[0].attributes[attribute] = ir.AttrString(attribute, text)
    with pytest.raises(opbridge.ModelFileError, match=words):
        session_of(model)


def test_malformed_settings_are_refused_when_the_file_is_loaded():
    model, _ = node_model(A.sum.default, [X], {"dtype": torch.float32}, X.sum())
    for text in ("float33", "", "../float32", "float32\n", "layout_strided"):
        model.graph[0].attributes["dtype"] = ir.AttrString("dtype", text)
        with pytest.raises(opbridge.ModelFileError, match="has no dtype"):
            session_of(model)
    model, _ = node_model(A.full.default, [[2], 1], {"device": torch.device("cpu")}, torch.ones(2))
    model.graph[0].attributes["device"] = ir.AttrString("device", "abacus:0")
    with pytest.raises(opbridge.ModelFileError, match="abacus"):
        session_of(model)
    for types in ([], [1, 1], [8], [0], [-1], [99], [2**40]):
        model, _ = node_model(A.neg.default, [X], {}, X)
        model.graph[0].attributes["output_types"] = ir.AttrInt64s("output_types", types)
        with pytest.raises(opbridge.ModelFileError, match="output"):
            session_of(model)


def test_strings_and_other_dtypes_that_torch_lacks_are_errors():
    model, _ = node_model(A.neg.default, [X], {}, X)
    model.graph.inputs[0].type = ir.TensorType(ir.DataType.STRING)
    session = session_of(model)
    with pytest.raises(Exception, match="which torch does not support"):
        session.run(None, {"x0": np.array([["a"]])})


def test_a_session_of_ones_own(tmp_path):
    """What a program does that uses onnxruntime alone."""
    model, fed = node_model(DOUBLE, [X], {}, X)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("opbridge.aten", "mylib::f, atenallowed::*")
    options.register_custom_ops_library(str(shipped(aten_kernel.LIBRARY)))
    session = onnxruntime.InferenceSession(serialize.to_bytes(model), options)
    assert torch.equal(run(session, fed)[0], X * 2)


@pytest.mark.slow
def test_a_machine_without_torch_is_told_what_to_install(tmp_path):
    model, _ = node_model(A.neg.default, [X], {}, X)
    path = tmp_path / "model.onnx"
    path.write_bytes(serialize.to_bytes(model))
    code = f"""
        import sys
        sys.modules["torch"] = None
        import opbridge
        del sys.modules["torch"]
        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name == "torch":
                    raise ImportError("no torch here")
        sys.meta_path.insert(0, Missing())
        try:
            opbridge.session({str(path)!r})
        except opbridge.ModelFileError as error:
            print(error)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=environment
    )
    assert "torch cannot be imported" in done.stdout and "OPBRIDGE_LIBTORCH" in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.thorough  # other tests ask for the checks one by one
def test_mutated_nodes_end_in_errors_and_not_in_crashes(tmp_path):
    pytest.importorskip("expecttest", reason="PyTorch's test database needs it")
    from attack.campaigns import hostile_nodes

    seeds = tmp_path / "seeds.pt"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    script = Path(__file__).with_name("aten_seeds.py")
    subprocess.run([sys.executable, script, seeds, "40", "7"], check=True, env=environment, capture_output=True)
    tally, crashes = hostile_nodes.watch(seeds, seed=5, count=300)
    assert not crashes
    assert min(tally["ran"], tally["raised"], tally["refused"]) > 20, tally
