"""A whole sweep: workers that crash and hang, interruption, the results and their file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.sweeps import Interrupted

from opbridge import SaveError, UsageError
from opbridge.cli import main
from opbridge.coverage import results, sweep

HERE = Path(__file__).parent
FILE = HERE / "samples_to_sweep.py"
ROUTES = ("standard", "function", "kernel")
COMMAND = [sys.executable, "-c", "import sys; from opbridge.cli import main; sys.exit(main())", "coverage"]


def swept(database, **options):
    return sweep(options.pop("ops", "*"), db=f"{FILE}:{database}", allow=ROUTES, **{"jobs": 2, **options})


def outcomes(found):
    return {(each["operator"], each["variant"], each["index"]): each["outcome"] for each in found.samples}


def without_times(found):
    return [
        {name: value for name, value in each.items() if name not in ("seconds", "cpu_seconds", "timings")}
        for each in found.samples
    ]


@pytest.mark.slow
def test_a_crash_or_a_hang_costs_its_sample_only():
    found = swept("BREAKING", timeout=30)  # a disk that is busy with something else has stalled a sample for 20 seconds
    messages = {each["operator"]: each["message"] for each in found.samples}
    got = outcomes(found)
    assert got.pop(("abort", "", 0)) == "crash" and "SIGABRT" in messages["abort"]
    assert got.pop(("exit", "", 0)) == "crash" and "exit status 7" in messages["exit"]
    assert got.pop(("sleep", "", 0)) == "timeout" and "timeout after 30 seconds" in messages["sleep"]
    assert got == {(name, "", index): "pass" for name in ("relu", "tanh") for index in range(3)}
    assert not found.ok
    assert found.document["summary"]["operators"]["deterministic"] == {"crash": 2, "timeout": 1, "pass": 2}


@pytest.mark.slow
def test_the_file(tmp_path):
    path = tmp_path / "results.json"
    found = swept("ALL", samples=2, output=path)
    content = json.loads(path.read_text())
    assert content == found.document == results.read(path).document
    assert list(tmp_path.iterdir()) == [path]
    assert content["format"] == 1
    assert {"torch", "onnx", "onnxruntime", "opbridge", "python"} <= content["versions"].keys()
    assert content["settings"]["samples"] == 2 and content["settings"]["allow"] == list(ROUTES)
    (sample,) = (each for each in content["samples"] if (each["operator"], each["index"]) == ("split", 1))
    assert sample["routes"] and set(sample["routes"].values()) == {"standard"}
    assert sample["seconds"] > 0 and sample["cpu_seconds"] > 0
    operators = {(each["operator"], each["variant"]): each for each in content["operators"]}
    assert operators["dropout", ""]["kind"] == "random" and operators["empty", ""]["kind"] == "undefined"
    assert {name for (name, _), each in operators.items() if each["outcome"] == "wrong"} == {"half", "biased"}
    assert operators["unknown", ""]["outcome"] == "refused"
    reasons = {each["reason"]: each["operators"] for each in content["summary"]["left_out"]}
    assert reasons["it supports no dtype on the CPU"] == ["nowhere"]
    assert reasons["ONNX has none of its dtypes (complex32)"] == ["foreign"]
    assert reasons["it returns no tensor"] == ["number"]
    assert content["summary"]["samples_that_operators_do_not_have"] == 3
    assert sum(content["summary"]["samples"].values()) == len(content["samples"])


@pytest.mark.slow
def test_dtypes():
    found = swept("GOOD", ops="relu", dtypes="all", samples=1)
    assert [(each["variant"], each["dtype"]) for each in found.samples] == [
        ("", "float32"),
        ("", "float64"),
        ("", "int64"),
        ("doubled", "float32"),
    ]
    assert found.ok


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on(tmp_path):
    path = tmp_path / "results.json"
    with pytest.raises(KeyboardInterrupt):
        swept("MANY", output=path, progress=Interrupted(25))
    journal = tmp_path / "results.json.partial"
    assert list(tmp_path.iterdir()) == [journal]
    with journal.open("a") as file:
        file.write('{"task": {"database": "cut o')
    told = Interrupted(1000)
    found = swept("MANY", output=path, progress=told, jobs=1)
    assert found.document["run"]["resumed_samples"] == told.first == 25
    assert list(tmp_path.iterdir()) == [path]
    assert without_times(found) == without_times(swept("MANY")) and found.ok


@pytest.mark.slow
def test_other_settings_start_anew(tmp_path):
    path = tmp_path / "results.json"
    with pytest.raises(KeyboardInterrupt):
        swept("MANY", output=path, progress=Interrupted(10))
    found = swept("MANY", output=path, samples=1)
    assert found.document["run"]["resumed_samples"] == 0
    assert len(found.samples) == 20


def _hears_ctrl_c():
    # A shell starts what runs in its background deaf to Ctrl-C, and a test of that would inherit it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.long
@pytest.mark.slow
def test_ctrl_c_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "results.json"
    options = ["--db", f"{FILE}:MANY", "--samples", "3", "--jobs", "2", "-o", str(path)]
    running = subprocess.Popen(
        [*COMMAND, *options],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src"), "OMP_NUM_THREADS": "1", "SWEEP_PAUSE": "0.1"},
        start_new_session=True,
        preexec_fn=_hears_ctrl_c,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    journal = tmp_path / "results.json.partial"
    deadline = time.monotonic() + 120
    while not journal.exists() or len(journal.read_text().splitlines()) < 5:
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Run the same command again to continue" in said and "Traceback" not in said
    assert main(["coverage", *options]) == 0
    assert "20 of 20 deterministic operators pass" in capsys.readouterr().out
    content = json.loads(path.read_text())
    assert 4 <= content["run"]["resumed_samples"] < 60 and len(content["samples"]) == 60


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    path = tmp_path / "results.json"
    options = ["--db", f"{FILE}:ALL", "--samples", "1", "--jobs", "2", "--allow", "standard", "-o", str(path)]
    assert main(["coverage", *options]) == 1
    said = capsys.readouterr().out
    assert "wrong    half" in said and "refused  unknown" in said and "left out:" in said
    assert "random" in said and f"written: {path}" in said
    assert main(["coverage", "--db", f"{FILE}:GOOD", "--samples", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ops", "no_such_operator"], "No operator of the database torch matches no_such_operator"),
        (["--samples", "0"], "samples=0"),
        (["--timeout", "0"], "number of seconds above 0"),
        (["--jobs", "0"], "expected 1 or more"),
        (["--dtypes", "float31"], "Unknown dtype 'float31'"),
        (["--exporter", "other"], "Unknown exporter 'other'"),
        (["--allow", "around"], "Unknown route 'around'"),
        (["--jobs", "2", "--ray", "auto"], "Leave one of them out"),
        (["--db", "nothing.py:X"], "nothing.py does not exist"),
        (["--ops", "torchvision::nms", "--ops", "add"], "cannot be combined in one run"),
    ],
)
def test_what_the_command_refuses(options, said, capsys):
    assert main(["coverage", *options]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(SaveError, match="Give another file with -o"):
        swept("GOOD", output=tmp_path / "absent" / "results.json")


def test_results_of_another_form(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"format": 99, "operators": [], "samples": [], "settings": {}}')
    with pytest.raises(UsageError, match="a format other than"):
        results.read(path)
    path.write_text("[]")
    with pytest.raises(UsageError, match="not a result file"):
        results.read(path)


@pytest.mark.slow
def test_the_table_of_exporters():
    from opbridge.cli.coverage_report import comparison

    table = comparison([swept("ALL", samples=1)]).splitlines()
    assert table[0].startswith("| exporter | pass | refused | silently wrong |")
    assert "| 5 of 7 (71.4 %) | 1 | 1 | 0 | 0 |" in table[2]
