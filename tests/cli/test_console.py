from __future__ import annotations

import io
import time
from types import SimpleNamespace

import onnx
import onnx_ir as ir
import pytest
from rich.console import Console

from opbridge.base.sources import Source
from opbridge.cli import console, export_view, operator_view, plan_view
from opbridge.cli.stages import Stages
from opbridge.graph.decisions import Branch, Decision
from opbridge.plan.data import Plan
from opbridge.plan.rows import PlanRow
from opbridge.translations.registry import Translation
from opbridge.verification import Run, Verification
from opbridge.verification.compare import Comparison, Tolerance
from opbridge.verification.report import BranchReport

NOTE = "the model is in training mode, so that dropout and batch norm behave as they do in training; call model.eval()"


def screen(*, terminal: bool, width: int = 80) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=width, height=24, color_system=None, legacy_windows=False
    )


def text_of(target: Console) -> str:
    return target.file.getvalue()


def words_of(target: Console) -> str:
    return " ".join(text_of(target).split())


@pytest.fixture
def plan():
    def line(number: int) -> Source:
        return Source("torchvision/models/resnet.py", number, "forward", "x = self.conv(x)")

    missing = PlanRow(
        "mylib::foo",
        2,
        None,
        "",
        (Source("net.py", 7, "forward", "y = foo(x[0])"), Source("net.py", 9, "forward", "z = foo(y)")),
        "It has no translation, and PyTorch has no decomposition for it.",
        'Write a translation: @opbridge.translation("mylib::foo") over a function of its arguments.',
        "mylib::foo(Tensor x) -> Tensor",
    )
    rows = [
        missing,
        PlanRow("aten::conv2d", 20, "standard", "torchlib translation, opset 18", (line(92), line(96), line(268))),
        PlanRow("aten::relu_", 17, "standard", "torchlib translation, opset 18", (line(94),)),
        PlanRow("torchvision::deform_conv2d", 1, "kernel", "opbridge translation, opset 18", ()),
    ]
    return Plan(rows, 23, notes=(NOTE,))


def comparison(name: str = "logits", outside: int = 0, **changes) -> Comparison:
    allowed = Tolerance(3.5e-4, 1e-4, "float32: 3.5e-04 = sqrt(eps), scaled by the RMS of the output")
    values = {"absolute": 1.2e-6, "relative": 3e-7, "excess": 0.01, "elements": 4000, "outside": outside, **changes}
    return Comparison(name, "float32", (4, 1000), "float32", (4, 1000), allowed, **values)


def verification(*comparisons: Comparison, **changes) -> Verification:
    runs = tuple(Run("sizes", label, comparisons) for label in ("example", "fresh 1", "fresh 2", "batch=1", "batch=7"))
    return Verification("net.onnx", "onnxruntime 1.31.1", runs, **changes)


@pytest.fixture
def program(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path.relative_to(tmp_path) / "net.onnx"
    path.write_bytes(bytes(1500))
    data = path.with_name("net.onnx.1a2b3c4d.data")
    data.write_bytes(bytes(2_500_000))
    plan.rows.pop(0)
    plan.notes = ()
    timings = {"capture": 1.02, "plan": 0.02, "translate": 0.4, "save": 0.03, "verify": 2.74}
    return SimpleNamespace(
        path=path,
        files=[path, data],
        plan=plan,
        verification=verification(comparison()),
        timings=timings,
        kernels=[],
        libraries=[],
        unverified="",
        repairs=(),
        findings=None,
        narrowed=None,
        capture=SimpleNamespace(mode="non-strict"),
        model=net_of("float"),
    )


def net_of(dtype: str) -> ir.Model:
    """A model of one node."""
    text = f'<ir_version: 8, opset_import: ["" : 18]> g ({dtype}[4] x) => ({dtype}[4] y) {{ y = Relu(x) }}'
    return ir.from_proto(onnx.parser.parse_model(text))


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (340_000_000, "340.0 MB"), (2_500_000_000_000, "2500.0 GB")],
)
def test_size(count, said):
    assert console.size(count) == said


def test_aligned():
    assert console.aligned([("a", "count"), ("long", "7"), ("b", "")], right=[1]) == "a     count\nlong      7\nb"


def test_an_error_is_shown_as_it_is():
    target = screen(terminal=False, width=20)
    console.print_error(target, "the input [float32, [1, 2]] of :smile: is 1 of 2, and this goes on for long")
    assert text_of(target) == "error: the input [float32, [1, 2]] of :smile: is 1 of 2, and this goes on for long\n"


def test_a_plan_outside_a_terminal_is_its_text(plan):
    target = screen(terminal=False, width=40)
    plan_view.print_plan(target, plan)
    assert [line.rstrip() for line in text_of(target).splitlines()] == [
        line.rstrip() for line in str(plan).splitlines()
    ]


def test_a_plan_on_a_terminal(plan):
    target = screen(terminal=True)
    plan_view.print_plan(target, plan)
    lines = text_of(target).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split() == ["operator", "count", "route", "source"]
    assert lines[1].split() == ["aten::conv2d", "20", "standard", "torchvision/models/resnet.py:92", "+2"]
    assert lines[3].split() == ["torchvision::deform_conv2d", "1", "kernel"]
    assert lines[4].split() == ["mylib::foo", "2", "missing", "net.py:7", "+1"]
    shown = words_of(target)
    for said in (
        "net.py:7 y = foo(x[0]) net.py:9 z = foo(y)",
        "why It has no translation",
        "do Write a translation: @opbridge",
    ):
        assert said in shown
    assert "schema mylib::foo(Tensor x) -> Tensor" in shown
    assert plan.summary() in lines
    assert f"note: {NOTE}" in shown


def test_a_wide_terminal_also_says_how(plan):
    target = screen(terminal=True, width=140)
    plan_view.print_plan(target, plan)
    assert "torchlib translation, opset 18" in text_of(target)
    assert "see below" in text_of(target)


def test_a_plan_without_anything_missing(plan):
    plan.rows.pop(0)
    target = screen(terminal=True)
    plan_view.print_plan(target, plan)
    assert "missing" not in text_of(target)
    assert "why" not in text_of(target)


def test_an_export_outside_a_terminal(program):
    target = screen(terminal=False, width=40)
    export_view.print_export(target, program, "net.py:build")
    assert text_of(target).splitlines() == [
        "file       net.onnx (1.5 kB)",
        "file       net.onnx.1a2b3c4d.data (2.5 MB)",
        f"operators  {program.plan.summary()}",
        f"verified   {program.verification.summary()}",
        "           worst error 1.2e-06 absolute, 3.0e-07 relative, in 'logits'; "
        "tolerance: float32: 3.5e-04 = sqrt(eps), scaled by the RMS of the output",
        "time       4.21 s: capture 1.02, plan 0.02, translate 0.40, save 0.03, verify 2.74",
        "next       opbridge.session('net.onnx') loads its kernels and runs it",
    ]


DECISION = Decision(
    0,
    (Source("net.py", 7, "forward", "if x.sum() > 0:"),),
    (Branch(True, ("aten::mul.Tensor", "aten::mul.Tensor", "aten::exp")), Branch(False)),
)


@pytest.mark.parametrize("terminal", [True, False])
def test_decisions_of_a_plan(plan, terminal):
    plan.decisions = (DECISION,)
    target = screen(terminal=terminal, width=120)
    plan_view.print_plan(target, plan)
    said = words_of(target)
    assert "condition net.py:7: x.sum() > 0 True: aten::mul.Tensor (2x), aten::exp False: nothing" in said
    assert "1 condition that depends on data, both branches in the file" in said


@pytest.mark.parametrize("terminal", [True, False])
def test_decisions_of_an_export(program, terminal):
    program.plan.decisions = (DECISION,)
    branches = [
        BranchReport("net.py:7", "x.sum() > 0", answer, (), runs)
        for answer, runs in ((True, ("example",)), (False, ()))
    ]
    program.verification = verification(comparison(), branches=tuple(branches))
    target = screen(terminal=terminal, width=120)
    export_view.print_export(target, program, "net.py:build")
    said = words_of(target)
    assert "control flow 1 condition that depends on data, both branches in the file" in said
    assert "1 of 2 branches not exercised by any run: net.py:7 `x.sum() > 0` is False" in said


def test_the_worst_output_is_the_one_nearest_to_what_is_allowed(program):
    program.verification = verification(
        comparison("large", absolute=5.0, excess=0.1),
        comparison("near", absolute=1e-5, excess=0.9),
        comparison("drawn", random=True, excess=7.0),
    )
    target = screen(terminal=False)
    export_view.print_export(target, program, "net.py:build")
    assert "worst error 1.0e-05 absolute, 3.0e-07 relative, in 'near'" in text_of(target)


def test_the_next_step_depends_on_the_kernels(program):
    program.plan.rows.pop()
    target = screen(terminal=False)
    export_view.print_export(target, program, "net.py:build")
    assert "as does any ONNX runtime" in text_of(target)
    program.kernels, program.unverified, program.verification = ["mylib::foo"], "no kernel for mylib::foo", None
    target = screen(terminal=False)
    export_view.print_export(target, program, "net.py:build")
    assert "verified   not verified: no kernel for mylib::foo" in text_of(target)
    assert "with kernels for mylib::foo in onnxruntime.SessionOptions" in text_of(target)


def test_the_next_step_of_a_file_with_fused_forms(program):
    program.plan.rows.pop()
    node = ir.node("SkipSimplifiedLayerNormalization", [], domain="com.microsoft")
    program.model = ir.Model(ir.Graph([], [], nodes=[node], opset_imports={"": 21}), ir_version=10)
    target = screen(terminal=False)
    export_view.print_export(target, program, "net.py:build")
    assert "as does ONNX Runtime; another runtime needs a file without fused forms" in text_of(target)


def test_the_next_step_of_a_folder_for_genai(program, tmp_path):
    program.path = tmp_path / "model.onnx"
    program.files = [program.path, tmp_path / "genai_config.json"]
    for each in program.files:
        each.touch()
    target = screen(terminal=False)
    export_view.print_export(target, program, "net.py:build")
    assert f"onnxruntime_genai.Model('{tmp_path}') runs it" in text_of(target)


def test_the_next_step_of_a_file_of_bfloat16(program):
    program.plan.rows.pop()
    program.model = net_of("bfloat16")
    target = screen(terminal=False)
    export_view.print_export(target, program, "net.py:build")
    assert "runs it, in float32 on a CPU and takes OrtValues; another runtime needs bfloat16 kernels" in text_of(target)
    assert "any ONNX runtime" not in text_of(target)


def test_an_export_that_was_not_verified(program):
    program.verification = None
    target = screen(terminal=False)
    export_view.print_export(target, program, "net.py:build")
    assert "verified   not verified: --no-verify" in text_of(target)
    assert "opbridge verify net.onnx net.py:build" in text_of(target)


def test_stages_and_summary_fit_on_one_screen(program):
    program.plan.notes = tuple(f"{number}: {NOTE * 2}" for number in range(9))
    target = screen(terminal=True)
    export_view.print_export(target, program, "net.py:build")
    lines = text_of(target).splitlines()
    stages = ["load", *program.timings]
    assert len(stages) + len(lines) <= 24 - 1  # the prompt takes one
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert "7 more; 'opbridge check net.py:build' lists all" in text_of(target)


def test_nothing_is_shortened_where_it_is_piped(program):
    program.plan.notes = tuple(f"{number}: {NOTE * 2}" for number in range(9))
    target = screen(terminal=False)
    export_view.print_export(target, program, "net.py:build")
    assert all(note in text_of(target) for note in program.plan.notes)


@pytest.mark.slow
def test_stages_are_drawn_while_they_run_and_stay():
    target = screen(terminal=True)
    with Stages(target) as stages:
        with stages.stage("capture") as stage:
            stage.detail("non-strict, [92] nodes")
            time.sleep(0.25)
            running = text_of(target)
        with stages.stage("plan") as stage:
            stage.detail("a long story " * 20)
    assert "capture" in running
    assert "✓" not in running
    assert "✓ capture non-strict, [92] nodes" in words_of(target)
    assert "✓ plan a long story" in words_of(target)
    assert "…" in text_of(target)
    for line in text_of(target).splitlines():
        assert len(line) < 120  # one row of the screen, with the codes that move the cursor


def test_a_stage_that_fails_is_marked_and_the_error_goes_on():
    target = screen(terminal=True)
    with pytest.raises(KeyError), Stages(target) as stages, stages.stage("capture"):
        raise KeyError("x")
    assert "✗ capture" in words_of(target)
    assert "✓" not in text_of(target)


def test_without_a_stage_nothing_is_drawn():
    target = screen(terminal=True)
    with Stages(target):
        pass
    assert text_of(target) == ""


def test_stages_on_a_terminal_without_unicode():
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, "ascii", write_through=True)
    target = Console(file=file, force_terminal=True, width=80, color_system=None)
    with Stages(target) as stages:
        with stages.stage("capture"):
            time.sleep(0.15)
        with pytest.raises(KeyError), stages.stage("plan"):
            raise KeyError("x")
    shown = " ".join(raw.getvalue().decode("ascii").split())
    assert "+ capture 0." in shown
    assert "x plan 0." in shown


def test_a_verification_on_a_terminal():
    target = screen(terminal=True)
    good = verification(comparison(), kept=("position_ids",), notes=("sizes above 8 were not tried",))
    export_view.print_verification(target, good)
    shown = words_of(target)
    assert shown.startswith("verified net.onnx, onnxruntime 1.31.1: 1 output")
    assert "logits float32 4x1000 1.2e-06 3.0e-07 0 example" in shown
    assert shown.count("allowed float32: 3.5e-04 = sqrt(eps)") == 1
    assert "same as in the example in all runs: position_ids" in shown
    assert "note: sizes above 8 were not tried" in shown


def test_a_mismatch_on_a_terminal():
    target = screen(terminal=True)
    outputs = [comparison(f"y{number}") for number in range(20)]
    bad = verification(*outputs, comparison("bad", outside=17), comparison("odd", reason="its shape is [1] where ..."))
    export_view.print_verification(target, bad)
    lines = text_of(target).splitlines()
    table = next(i for i, line in enumerate(lines) if line.startswith("output"))
    assert lines[table + 1].split()[0] == "bad"  # those that differ come first
    assert lines[table + 2].split()[0] == "odd"
    assert "and 10 more outputs" in lines
    shown = words_of(target)
    assert shown.startswith("mismatch")
    assert " ".join(bad.describe_mismatch().split()) in shown


def test_a_verification_outside_a_terminal_is_its_text():
    target = screen(terminal=False, width=40)
    export_view.print_verification(target, verification(comparison()))
    assert text_of(target) == f"{verification(comparison())}\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_the_catalogue(terminal):
    target = screen(terminal=terminal)
    rows = [
        Translation("aten::cummax", abs, 18, "opbridge"),
        Translation("aten::exp", abs, 18, "torchlib", complex=True),
    ]
    operator_view.print_catalogue(target, rows)
    lines = text_of(target).splitlines()
    assert [line.split() for line in lines] == [
        ["operator", "route", "opset", "origin", "inputs"],
        ["aten::cummax", "standard", "18", "opbridge", "real"],
        ["aten::exp", "standard", "18", "torchlib", "complex"],
        ["2", "operators,", "2", "translations"],
    ]
    one = screen(terminal=terminal)
    operator_view.print_catalogue(one, rows[:1])
    assert text_of(one).splitlines()[-1] == "1 operator, 1 translation"
