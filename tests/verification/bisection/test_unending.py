"""Tests of files with Loops that may never end."""

import onnx
import pytest
import torch

import opbridge
from opbridge.errors import RunError
from opbridge.runtimes.limits import Limits
from opbridge.verification.bisection import files
from opbridge.verification.bisection.unending import may_never_end

_LOOP = """Loop({count}, go, x) <body = inner (int64 i, bool c, float[2] v) => (bool o, float[2] w) {{
    o = Identity(c)
    w = Neg(v)
}}>"""

_HEAD = '<ir_version: 8, opset_import: ["" : 18, "own" : 1]>'
_STORED = "<int64 few = {{3}}, int64 many = {{9223372036854775807}}, bool go = {{1}}>"

_FORMS = {
    "main": f"{_HEAD} graph (float[2] x, int64 n) => (float[2] y) {_STORED} {{{{ y = {_LOOP} }}}}",
    "branch": f"""{_HEAD} graph (float[2] x, int64 n, bool b) => (float[2] y) {_STORED} {{{{
        y = If(b) <then_branch = one () => (float[2] t) {{{{ t = {_LOOP} }}}},
                   else_branch = two () => (float[2] e) {{{{ e = Neg(x) }}}}>
    }}}}""",
}


@pytest.mark.parametrize("form", list(_FORMS))
@pytest.mark.parametrize(("count", "expected"), [("few", False), ("many", True), ("n", True), ("", True)])
def test_a_loop_may_never_end_unless_its_number_of_iterations_is_constant(form, count, expected):
    text = _FORMS[form].format(count=count)
    assert may_never_end(onnx.parser.parse_model(text)) is expected


@pytest.mark.parametrize(("count", "expected"), [("few", False), ("n", True)])
def test_loops_of_functions_count(count, expected):
    text = f"""{_HEAD} graph (float[2] x, int64 n) => (float[2] y) {{{{ y = own.f(x, n) }}}}
        <domain: "own", opset_import: ["" : 18]>
        f (x, n) => (y) {{{{
            few = Constant <value = int64 {{{{3}}}}> ()
            go = Constant <value = bool {{{{1}}}}> ()
            y = {_LOOP}
        }}}}"""
    assert may_never_end(onnx.parser.parse_model(text.format(count=count))) is expected


class _Ending(torch.nn.Module):
    def forward(self, x):
        y = torch.abs(x) + 0.1
        while y.sum() < 300:
            y = y * 1.5
        return y.log()


@pytest.fixture
def endless(tmp_path):
    """A model, its file, and another one whose loop never ends: what is summed up becomes smaller in each iteration."""
    model, args, path = _Ending().eval(), (torch.ones(2, 4),), tmp_path / "model.onnx"
    opbridge.export(model, args, path, verify=False)
    loaded = onnx.load(path)
    (loop,) = [each for each in loaded.graph.node if each.op_type == "Loop"]
    body = next(each.g for each in loop.attribute if each.name == "body")
    (node,) = [each for each in body.node if each.op_type == "Mul"]
    node.op_type = "Div"
    changed = tmp_path / "changed.onnx"
    onnx.save(loaded, changed)
    return model, args, path, changed


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnxruntime", "reference"])
def test_a_file_that_never_ends_is_ended(endless, runtime, monkeypatch):
    model, args, path, changed = endless
    monkeypatch.setattr(files, "Limits", lambda: Limits(seconds=1.5))
    with pytest.raises(RunError, match="exceeded the time limit of 1.5 s.*Raise the limit"):
        opbridge.bisect(changed, model, args, isolated=False, runtime=runtime)
    with pytest.raises(RunError, match="exceeded the time limit of 1.5 s.*Raise the limit"):
        opbridge.compare(path, changed, isolated=False, runtime=runtime)


@pytest.mark.slow
def test_a_file_that_ends_is_searched_as_ever(endless):
    model, args, path, _ = endless
    assert opbridge.bisect(path, model, args, isolated=False).ok
