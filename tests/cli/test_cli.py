"""The command line, over stand-ins for what it calls."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx_ir as ir
import pytest

import opbridge
from opbridge import errors
from opbridge.cli import main
from opbridge.cli.stages import Stages
from opbridge.translations import catalogue as all_translations
from opbridge.translations import registry

SOURCE = Path(__file__).parents[2] / "src"


@dataclass
class FakePlan:
    faults = ()
    decisions = ()
    ok: bool = True
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "operators": []}

    def summary(self) -> str:
        return "2 operators, 3 nodes"

    def routes(self) -> dict[str, int]:
        return {"standard": 2}

    def describe_missing(self) -> str:
        return "1 of 2 operators have no route: [mylib::foo]"

    def __str__(self) -> str:
        return "the plan as text"


@dataclass
class FakeVerification:
    ok: bool = True
    worst: float = 1e-6
    outputs: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    untaken: tuple[Any, ...] = ()
    verdict: str = "verified"

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "worst": self.worst}

    def summary(self) -> str:
        return "3 cases agree"

    def describe_mismatch(self) -> str:
        return "the output 'y' differs"

    def __str__(self) -> str:
        return "the verification as text"


@dataclass
class Calls:
    """What the command line called, and what it is answered."""

    made: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    plan: FakePlan = field(default_factory=FakePlan)
    verification: FakeVerification = field(default_factory=FakeVerification)
    kernels: tuple[str, ...] = ()
    raises: BaseException | None = None

    @property
    def keywords(self) -> dict[str, Any]:
        return self.made[-1][2]


def stand_in(function, name: str, calls: Calls, answer):
    """A function with the signature of the real one, which notes its calls."""
    signature = inspect.signature(function)

    def called(*args, **kwargs):
        signature.bind(*args, **kwargs)
        calls.made.append((name, args, kwargs))
        if calls.raises is not None:
            raise calls.raises
        return answer(*args, **kwargs)

    called.__signature__ = signature
    return called


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Stand-ins in place, in an empty folder with a factory in net.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.delenv("OPBRIDGE_DEBUG", raising=False)
    Path("net.py").write_text(
        "def build():\n"
        "    print('building')\n"
        "    return abs, (1,), {'kwargs': {'k': 2}, 'opset_version': 19, 'input_names': ['x'], 'dynamic_shapes': [3]}\n"
        "def plain():\n"
        "    return abs, (1,)\n"
    )
    calls = Calls()

    def exported(model, args, path, **keywords):
        path.write_bytes(b"12345")
        verification = calls.verification if keywords.get("verify", True) and not calls.kernels else None
        timings = {"capture": 0.5, "save": 0.25}
        return SimpleNamespace(
            path=path,
            files=[path],
            model=ir.Model(ir.Graph([], [], nodes=[]), ir_version=10),
            plan=calls.plan,
            verification=verification,
            timings=timings,
            peaks={"capture": 5_000_000, "save": 6_000_000},
            kernels=[*calls.kernels],
            unverified="no kernel for mylib::foo" if calls.kernels else "",
            repairs=(),
            findings=None,
            libraries=[],
            narrowed=None,
        )

    answers = {
        "check": lambda *args, **kwargs: calls.plan,
        "export": exported,
        "verify": lambda *args, **kwargs: calls.verification,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(opbridge, name, stand_in(getattr(opbridge, name), name, calls, answer))
    return calls


def test_check(calls, capsys):
    assert main(["check", "net.py:build"]) == 0
    assert capsys.readouterr().out == "building\nthe plan as text\n"
    name, args, keywords = calls.made[0]
    assert (name, args) == ("check", (abs, (1,)))
    assert keywords == {"kwargs": {"k": 2}, "opset_version": 19, "dynamic_shapes": [3], "input_names": ["x"]}


@pytest.mark.parametrize("command", [["check", "net.py:plain"], ["export", "net.py:plain", "-o", "m.onnx"]])
def test_limits_of_the_captures(command, calls):
    assert main([*command, "--max-captures", "8", "--max-capture-seconds", "2.5"]) == 0
    keywords = {name: value for name, value in calls.keywords.items() if name != "progress"}
    assert keywords == {"max_captures": 8, "max_capture_seconds": 2.5}


def test_check_with_something_missing_ends_with_one(calls, capsys):
    calls.plan.ok = False
    assert main(["check", "net.py:build"]) == 1
    assert "the plan as text" in capsys.readouterr().out


def test_options_go_over_the_factorys_keywords(calls):
    options = ["--opset", "20", "--target", "onnxruntime", "--dynamic", "auto"]
    assert main(["check", "net.py:build", *options]) == 0
    assert calls.keywords["opset_version"] == 20
    assert calls.keywords["target"] == "onnxruntime"
    assert calls.keywords["dynamic_shapes"] == "auto"


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ([], None),
        (["--allow", "aten"], ("standard", "function", "kernel", "aten")),
        (["--allow", "aten,fallthrough"], ("standard", "function", "kernel", "aten", "fallthrough")),
        (["--allow", "aten", "--allow", "kernel"], ("standard", "function", "kernel", "aten")),
        (["--only", "standard"], ("standard",)),
        (["--only", "standard,aten", "--allow", "function"], ("standard", "aten", "function")),
    ],
)
def test_routes(calls, options, allowed):
    for command in (["check", "net.py:plain"], ["export", "net.py:plain", "-o", "net.onnx"]):
        assert main([*command, *options]) == 0
        assert calls.keywords.get("allow") == allowed


def test_export(calls, capsys):
    assert main(["export", "net.py:build", "-o", "net.onnx"]) == 0
    _, args, keywords = calls.made[0]
    assert args == (abs, (1,), Path("net.onnx"))
    assert keywords.pop("progress") is None
    assert keywords == {"kwargs": {"k": 2}, "opset_version": 19, "dynamic_shapes": [3], "input_names": ["x"]}
    out = capsys.readouterr().out
    for said in ("net.onnx (5 B)", "2 operators, 3 nodes", "3 cases agree", "0.75 s: capture 0.50, save 0.25", "next"):
        assert said in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        ([], {}),
        (["--no-verify"], {"verify": False}),
        (["--verify"], {"verify": True}),
        (["--external-data"], {"external_data": True}),
        (["--no-external-data"], {"external_data": False}),
    ],
)
def test_export_options(calls, options, keywords):
    assert main(["export", "net.py:plain", "-o", "net.onnx", *options]) == 0
    assert {**calls.keywords, "progress": None} == {**keywords, "progress": None}


def test_an_export_on_a_terminal_shows_its_stages(calls, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["export", "net.py:plain", "-o", "net.onnx"]) == 0
    assert isinstance(calls.keywords["progress"], Stages)
    assert "load" in capsys.readouterr().out
    assert main(["export", "net.py:plain", "-o", "net.onnx", "--json"]) == 0
    assert calls.keywords["progress"] is None
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_an_unverified_export_says_how_to_verify(calls, capsys):
    assert main(["export", "net.py:plain", "-o", "net.onnx", "--no-verify"]) == 0
    assert "opbridge verify net.onnx net.py:plain" in capsys.readouterr().out


def test_an_export_that_needs_kernels_is_fine_and_says_so(calls, capsys):
    calls.kernels = ("mylib::foo",)
    assert main(["export", "net.py:plain", "-o", "net.onnx"]) == 0
    out = capsys.readouterr().out
    assert "not verified: no kernel for mylib::foo" in out
    assert "register a library with kernels for mylib::foo" in out
    assert "opbridge verify" not in out
    assert main(["export", "net.py:plain", "-o", "net.onnx", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kernels"] == ["mylib::foo"]
    assert document["unverified"] == "no kernel for mylib::foo"
    assert document["verification"] is None


def test_a_mode_is_passed_on(calls):
    for command in (["check", "net.py:plain"], ["export", "net.py:plain", "-o", "net.onnx"]):
        assert main([*command, "--operator-export-type", "ONNX_ATEN"]) == 0
        assert calls.keywords["operator_export_type"] == "ONNX_ATEN"


LINEAR = """
import torch
def build():
    return torch.nn.Linear(3, 2), (torch.ones(4, 3),), {"dynamic_shapes": {"input": {0: "batch"}}}
"""


@pytest.mark.slow
def test_raw_prints_the_capture_and_writes_no_file(calls, capsys):
    Path("linear.py").write_text(LINEAR)
    before = set(Path().iterdir())
    assert main(["export", "linear.py:build", "--raw"]) == 0
    out = capsys.readouterr().out
    assert "linear = aten::linear(input, p_weight, p_bias)  float32[batch, 2]" in out
    assert "weight p_weight = weight" in out
    assert "1 operator, 1 node, captured as they are" in out
    assert main(["export", "linear.py:build", "--raw", "--json"]) == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [node["operator"] for node in nodes if node["kind"] == "operator"] == ["aten::linear"]
    assert {path for path in Path().iterdir() if path.suffix == ".onnx"} <= before
    assert not calls.made


@pytest.mark.parametrize("option", [["-o", "net.onnx"], ["--allow", "aten"], ["--no-verify"]])
def test_raw_takes_no_options_of_a_file(calls, capsys, option):
    assert main(["export", "net.py:plain", "--raw", *option]) == 2
    assert "has no effect with --raw" in capsys.readouterr().err


def test_verify(calls, capsys):
    assert main(["verify", "net.onnx", "net.py:build"]) == 0
    _, args, keywords = calls.made[0]
    assert args == (Path("net.onnx"), abs, (1,))
    assert keywords == {"kwargs": {"k": 2}, "dynamic_shapes": [3]}
    assert main(["verify", "net.onnx", "net.py:plain", "--rtol", "0.01", "--atol", "1e-3"]) == 0
    assert calls.keywords == {"rtol": 0.01, "atol": 0.001}
    calls.verification.ok = False
    assert main(["verify", "net.onnx", "net.py:build"]) == 1
    assert capsys.readouterr().out.count("the verification as text") == 3


def rows():
    def entry(operator, opset=18, origin="torchlib", complex=False):
        return registry.Translation(operator, abs, opset, origin, complex)

    return [entry("aten::cummax", 18, "opbridge"), entry("aten::cumsum"), entry("aten::cumsum", complex=True)]


@pytest.fixture
def catalogue(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setattr(all_translations, "catalogue", lambda pattern="*": rows() if pattern in ("*", "cum*") else [])


def test_ops(catalogue, capsys):
    assert main(["ops", "cum*"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "operator      route     opset  origin    inputs",
        "aten::cummax  standard     18  opbridge  real",
        "aten::cumsum  standard     18  torchlib  real",
        "aten::cumsum  standard     18  torchlib  complex",
        "2 operators, 3 translations",
    ]
    assert main(["ops", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["operators"][0] == {
        "operator": "aten::cummax",
        "route": "standard",
        "opset": 18,
        "origin": "opbridge",
        "complex": False,
    }


def test_ops_without_a_match_names_what_is_near(catalogue, capsys):
    assert main(["ops", "aten::cumax"]) == 1
    assert "'aten::cumax'. Similar names: aten::cummax" in capsys.readouterr().out
    assert main(["ops", "zzz", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document == {"ok": False, "pattern": "zzz", "operators": [], "near": []}


COMMANDS = [
    ["check", "net.py:build"],
    ["export", "net.py:build", "-o", "net.onnx"],
    ["verify", "net.onnx", "net.py:build"],
]


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_exactly_one_document(calls, capfd, command):
    calls.verification.worst = float("inf")
    assert main([*command, "--json"]) == 0
    captured = capfd.readouterr()
    document = json.loads(captured.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert document["ok"] is True
    assert "building" in captured.err
    if command[0] == "export":
        assert document["files"] == [{"path": "net.onnx", "bytes": 5}]
        assert document["plan"]["ok"] is True
        assert document["verification"] == {"ok": True, "worst": "inf"}


@pytest.mark.slow
def test_json_holds_when_native_code_prints(calls, tmp_path):
    Path("net.py").write_text("import os\ndef build():\n    os.write(1, b'from native code')\n    return 1, 2\n")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, opbridge.cli; sys.exit(opbridge.cli.main())",
            "check",
            "net.py:build",
            "--json",
        ],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "UsageError"
    assert "from native code" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UsageError("opset 99 [too new] is out of range"), 2),
        (errors.CaptureError("the line x.item() cannot be captured"), 1),
        (errors.SaveError("no room"), 2),
        (errors.ModelFileError("damaged"), 2),
        (errors.MissingOperators(FakePlan(ok=False)), 1),
        (errors.VerificationError(FakeVerification(ok=False)), 1),
        (KeyError("a fault"), 3),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_errors(calls, capsys, command, error, status):
    calls.raises = error
    assert main(command) == status
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == "building\n"
    if isinstance(error, errors.OpbridgeError):
        assert captured.err == f"error: {error}\n"
    if isinstance(error, KeyboardInterrupt):
        assert captured.err.startswith("Interrupted.")


@pytest.mark.parametrize(
    ("before", "written", "left"),
    [
        (None, None, "net.onnx was not written."),
        (b"old", None, "net.onnx is unchanged."),
        (None, b"new", "net.onnx was written, but the comparison with PyTorch did not finish."),
        (b"old", b"newer", "net.onnx was written, but the comparison with PyTorch did not finish."),
    ],
)
def test_an_interrupt_says_what_is_left(calls, capsys, monkeypatch, before, written, left):
    path = Path("net.onnx")
    if before is not None:
        path.write_bytes(before)

    def interrupted(model, args, output, **keywords):
        if written is not None:
            output.write_bytes(written)
        raise KeyboardInterrupt

    monkeypatch.setattr(opbridge, "export", stand_in(opbridge.export, "export", calls, interrupted))
    assert main(["export", "net.py:build", "-o", "net.onnx"]) == 130
    assert capsys.readouterr().err == f"Interrupted. {left}\n"
    if before is not None:
        path.write_bytes(before)
    else:
        path.unlink(missing_ok=True)
    assert main(["export", "net.py:build", "-o", "net.onnx", "--json"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert document == {"ok": False, "error": {"kind": "Interrupted", "message": left}}


def test_errors_as_json(calls, capsys):
    calls.raises = errors.MissingOperators(FakePlan(ok=False))
    assert main(["export", "net.py:build", "-o", "net.onnx", "--json"]) == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document == {
        "ok": False,
        "error": {"kind": "MissingOperators", "message": calls.plan.describe_missing()},
        "plan": {"ok": False, "operators": []},
    }
    assert calls.plan.describe_missing() in captured.err


@pytest.mark.parametrize("debug", ["", "before", "after", "environment"])
def test_a_fault_of_opbridge_shows_a_traceback_only_when_asked(calls, capsys, monkeypatch, debug):
    calls.raises = KeyError("a fault")
    if debug == "environment":
        monkeypatch.setenv("OPBRIDGE_DEBUG", "1")
    command = ["check", "net.py:build"]
    command = {"before": ["--debug", *command], "after": [*command, "--debug"]}.get(debug, command)
    assert main(command) == 3
    said = capsys.readouterr().err
    assert "Internal error in opbridge (a bug): KeyError: 'a fault', in called at test_cli.py:" in said
    assert ("Traceback" in said) == bool(debug)
    assert ("Run it again with --debug" in said) == (not debug)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["check"], "Missing argument 'SPEC'"),
        (["check", "net.py:build", "--opsett", "18"], "No such option"),
        (["check", "net.py:build", "--opset", "new"], "Invalid value for '--opset'"),
        (["export", "net.py:build"], "Missing option '--output' / '-o'"),
        (["exprot"], "No such command"),
        (["check", "nets.py:build"], "nets.py does not exist"),
        (["check", "net.py:biuld"], "net.py has no function 'biuld'"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_wrong_use(calls, capsys, command, said, as_json):
    assert main([*command, *(["--json"] if as_json else [])]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert (not as_json and captured.out == "") or json.loads(captured.out)["ok"] is False


def test_help_and_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"opbridge {opbridge.__version__}\n"
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("check", "export", "verify", "ops"))
    assert main(["export", "--help"]) == 0
    assert "--allow" in capsys.readouterr().out


@pytest.mark.slow
def test_as_a_module(tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "opbridge", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    version, usage, wrong = run("--version"), run("export", "--help"), run("export", "net.py:build", "--no-such-option")
    assert (version.returncode, version.stdout) == (0, f"opbridge {opbridge.__version__}\n")
    assert (usage.returncode, "Usage: opbridge export" in usage.stdout) == (0, True)
    assert (wrong.returncode, wrong.stderr.startswith("error: No such option")) == (2, True)


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(tmp_path):
    code = "import sys, opbridge.cli; sys.exit(opbridge.cli.main(['ops', '--json']))"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child.stdout.close()
    said = child.stderr.read()
    child.wait(60)
    child.stderr.close()
    assert "Traceback" not in said
    assert "BrokenPipe" not in said
