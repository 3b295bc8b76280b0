"""A whole sweep over models: workers that crash, hang and take memory, interruption, the results and their file."""

from __future__ import annotations

import itertools
import json
import os
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.rows import one_in
from helpers.scripts import run_script
from helpers.sweeps import Interrupted

from opbridge import UsageError
from opbridge.cli import main
from opbridge.coverage import models
from opbridge.coverage.engine.memory import own_memory
from opbridge.coverage.models import catalogue, results

FILE = Path(__file__).parent / "models_to_sweep.py"


def swept(family, **options):
    return models.sweep(f"{FILE}:{family}", **{"jobs": 2, "memory": 3, **options})


def outcomes(found):
    return {each["model"]: each["outcome"] for each in found.models}


@pytest.mark.long
@pytest.mark.slow
def test_a_crash_or_too_much_memory_costs_its_model_only(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = swept("BREAKING")
    assert outcomes(found) == {"abort": "crash", "relu": "pass", "eat": "memory", "tanh": "pass"}
    messages = {each["model"]: each["message"] for each in found.models}
    assert not list(tmp_path.glob("opbridge-*"))
    assert "SIGABRT" in messages["abort"] and "3 GB" in messages["eat"]
    seconds = {each["model"]: each["export_cpu_seconds"] for each in found.models}
    assert seconds["abort"] is None and seconds["relu"] > 0
    assert not found.ok


@pytest.mark.slow
def test_a_hang_costs_its_model_only(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = swept("HANGING", timeout=3, jobs=1)
    assert outcomes(found) == {"sleep": "timeout", "sleep again": "timeout"}
    assert all("3 seconds" in each["message"] for each in found.models)
    assert not list(tmp_path.glob("opbridge-*"))


@pytest.mark.slow
def test_the_file_of_models(tmp_path):
    path = tmp_path / "models.json"
    found = swept("BAD", output=path)
    content = json.loads(path.read_text())
    assert content == found.document == results.read(path).document
    assert list(tmp_path.iterdir()) == [path]
    assert content["format"] == 1 and {"torch", "onnx", "opbridge"} <= content["versions"].keys()
    assert content["settings"]["dynamic"] == "batch" and content["settings"]["memory"] == 3
    left_out = dict.fromkeys(("raises", "nothing", "not_built"), "left out")
    assert outcomes(found) == {"large": "wrong", "unknown": "refused", **left_out}
    assert content["summary"]["models"] == {"wrong": 1, "refused": 1, "left out": 3}
    (family,) = content["families"]
    assert family["models"] == content["summary"]["models"] and family["packages"] == []
    wrong, refused = content["summary"]["causes"]
    assert wrong["outcome"] == "wrong" and refused["cause"] == "MissingOperators"
    assert refused["models"] == [f"{FILE}:BAD/unknown"] and "modelstest::unknown" in refused["message"]
    assert found.summary() == "0 of 2 models pass (0.0 %)"


@pytest.mark.slow
def test_an_interrupted_sweep_over_models_goes_on(tmp_path):
    path = tmp_path / "models.json"
    with pytest.raises(KeyboardInterrupt):
        swept("MANY", output=path, progress=Interrupted(5))
    assert list(tmp_path.iterdir()) == [tmp_path / "models.json.partial"]
    told = Interrupted(1000)
    found = swept("MANY", output=path, progress=told, jobs=1)
    assert found.document["run"]["resumed_models"] == told.first == 5
    assert list(tmp_path.iterdir()) == [path]
    assert [each["model"] for each in found.models] == [f"relu{number}" for number in range(12)] and found.ok


@pytest.mark.slow
def test_the_command_for_models(tmp_path, capsys):
    path = tmp_path / "models.json"
    family = f"{FILE}:BAD"
    assert main(["models", "--family", family, "--jobs", "2", "--memory", "3", "-o", str(path)]) == 1
    said = capsys.readouterr().out
    assert "wrong    " in said and "refused  " in said and "left out:" in said and f"written: {path}" in said
    assert "the slowest:" in said and "0 of 2 models pass" in said
    options = ["--family", f"{FILE}:GOOD", "--name", "relu", "--jobs", "1", "--memory", "3", "--dynamic", "none"]
    assert main(["models", *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True and document["settings"]["dynamic"] == "none"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--family", "nothing"], "Unknown family 'nothing'"),
        (["--family", "nothing.py:X"], "nothing.py does not exist"),
        (["--family", f"{FILE}:GOOD", "--name", "x*"], "matches x*"),
        (["--family", f"{FILE}:GOOD", "--name", "*, cache"], "matches *, cache"),
        (["--dynamic", "some"], "Invalid value dynamic='some'"),
        (["--exporter", "other"], "Unknown exporter 'other'"),
        (["--timeout", "0"], "number of seconds above 0"),
        (["--memory", "0"], "Invalid value memory=0.0"),
        (["--shard", "0/4"], "is invalid; expected K/N"),
        (["--shard", "5/4"], "is invalid; expected K/N"),
        (["--shard", "half"], "is invalid; expected K/N"),
        (["--jobs", "0"], "expected 1 or more"),
        (["--jobs", "2", "--ray", "auto"], "Leave one of them out"),
    ],
)
def test_what_the_command_for_models_refuses(options, said, capsys):
    assert main(["models", *options]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("name", "said"),
    [("NONE", "is not a family of models"), ("OTHERS", "is not a family of models"), ("TWICE", "two models 'relu'")],
)
def test_a_family_that_is_none(name, said):
    with pytest.raises(UsageError, match=said):
        catalogue.entries_of(f"{FILE}:{name}")


def test_each_model_is_in_one_shard():
    names = [f"model{number}" for number in range(400)]
    shards = [[name for name in names if catalogue.in_shard(name, number, 4)] for number in (1, 2, 3, 4)]
    assert sorted(itertools.chain(*shards)) == sorted(names)
    assert all(60 < len(shard) < 140 for shard in shards)


@pytest.mark.slow
def test_a_sweep_of_a_shard():
    names = list(catalogue.entries_of(f"{FILE}:MANY"))
    found = swept("MANY", shard="2/3", jobs=1)
    assert [each["model"] for each in found.models] == [name for name in names if catalogue.in_shard(name, 2, 3)]
    assert found.document["settings"]["shard"] == "2/3" and 0 < len(found.models) < len(names)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("number", one_in(2, (signal.SIGTERM, signal.SIGKILL)))
def test_workers_end_with_a_sweep_that_is_killed(tmp_path, number):
    script, sweep, worker = (tmp_path / name for name in ("sweep.py", "sweep", "worker"))
    script.write_text(
        "import os, sys, tempfile\n"
        "from pathlib import Path\n"
        "from opbridge.cli import main\n"
        "if __name__ == '__main__':\n"
        f"    tempfile.tempdir = {str(tmp_path)!r}\n"
        f"    Path({str(sweep)!r}).write_text(str(os.getpid()))\n"
        f"    sys.exit(main(['models', '--family', '{FILE}:LONG', '--jobs', '1']))\n"
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_script, script, SWEEP_PID=str(worker))
        number_of_worker = int(_awaited(lambda: worker.exists() and worker.read_text()))
        os.kill(int(sweep.read_text()), number)
        assert running.result().returncode == -number
    _awaited(lambda: not own_memory(number_of_worker))


def _awaited(look, seconds=120):
    """What `look` gives as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def test_a_family_that_a_function_makes():
    assert list(catalogue.entries_of(f"{FILE}:made")) == ["relu", "keyword", "no_others"]


def test_families_whose_packages_are_absent(monkeypatch):
    monkeypatch.setattr(catalogue, "_is_installed", lambda package: False)
    with pytest.raises(UsageError, match="pip install timm"):
        models.sweep("timm")
    with pytest.raises(UsageError, match="timm: timm not installed"):
        models.sweep(names="resnet18")


def test_results_of_a_sweep_over_operators_are_other_results(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"format": 1, "operators": [], "samples": [], "settings": {}}')
    with pytest.raises(UsageError, match="a format other than"):
        results.read(path)
