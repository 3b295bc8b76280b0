from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import pytest
import torch
from helpers.forks import code_in_fork
from helpers.saved_models import data_of, torch_model, weights_of

from opbridge.base import file_locks
from opbridge.save import staging
from opbridge.save.data_names import data_files, data_key, data_name, keys, plain_name
from opbridge.save.writer import save


def killed_save(path: Path, value: float, syscall: int) -> bool:
    """Saves a model in a process that is killed before its n-th rename or removal; whether it had so many."""
    left = [syscall]

    def count(function):
        def counted(*args, **keywords):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **keywords)

        return counted

    def work() -> None:
        for name in ("replace", "unlink", "rmdir", "mkdir", "chmod"):
            setattr(os, name, count(getattr(os, name)))
        save(torch_model(w=torch.full((1000,), value)), path, external_data=True)

    code = code_in_fork(work)
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.slow
def test_a_killed_save_leaves_a_model_that_loads_and_the_next_one_removes_the_rest(tmp_path):
    path = tmp_path / "m.onnx"
    save(torch_model(w=torch.full((1000,), -1.0)), path, external_data=True)
    found, call = {-1.0}, 1
    while killed_save(path, float(call), call):
        [value] = set(weights_of(path)["w"].tolist())
        assert value in found | {float(call)}
        found.add(value)
        call += 1
    assert call > 4 and len(found) > 2
    save(torch_model(w=torch.zeros(1000)), path, external_data=True)
    assert sorted(tmp_path.iterdir()) == [path, data_of(path)]


def test_data_of_other_models_and_files_of_users_are_kept(tmp_path):
    path = tmp_path / "m.onnx"
    kept = [tmp_path / name for name in ("n.onnx.12345678.data", "m.onnx.1234567.data", "m.onnx.data", "m.onnx.a.data")]
    for file in kept:
        file.write_text("mine")
    (tmp_path / "m.onnx.87654321.data").write_text("left behind")
    (tmp_path / ".opbridge-mine.tmp").write_text("a file")
    save(torch_model(w=torch.zeros(1000)), path)
    assert sorted(tmp_path.iterdir()) == sorted([*kept, path, tmp_path / ".opbridge-mine.tmp"])


def test_a_save_that_is_still_running_is_left_alone(tmp_path):
    running = staging.make(tmp_path, ["12345678"])
    (running.path / "m.onnx").write_text("half")
    (tmp_path / "m.onnx.12345678.data").write_text("about to be named")
    save(torch_model(w=torch.zeros(1000)), tmp_path / "m.onnx")
    assert (running.path / "m.onnx").read_text() == "half"
    assert (tmp_path / "m.onnx.12345678.data").exists()
    running.remove()
    save(torch_model(w=torch.zeros(1000)), tmp_path / "m.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]


def test_a_running_save_keeps_its_name_for_itself(tmp_path):
    first = staging.make(tmp_path, ["11111111", "22222222"])
    second = staging.make(tmp_path, ["11111111", "22222222"])
    assert (first.key, second.key) == ("11111111", "22222222")
    with pytest.raises(FileExistsError, match="no name is left"):
        staging.make(tmp_path, ["11111111"])
    third = staging.make(tmp_path, ["33333333", "44444444"], lambda key: key != "33333333")
    assert third.key == "44444444"
    for each in (first, second, third):
        each.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to give a folder away")
def test_a_folder_of_another_user_is_not_taken_for_an_abandoned_one(tmp_path):
    planted = tmp_path / ".opbridge-12345678.tmp"
    (planted / staging.REPLACED).mkdir(parents=True)
    (planted / "m.onnx").write_text("not yours")
    os.chown(planted, 65534, 65534)
    save(torch_model(w=torch.zeros(1000)), tmp_path / "m.onnx")
    assert (planted / "m.onnx").read_text() == "not yours"
    assert len(weights_of(tmp_path / "m.onnx")["w"]) == 1000


@pytest.mark.parametrize("lock", ["none", "fails"])
def test_where_folders_cannot_be_locked_the_age_decides(tmp_path, monkeypatch, lock):
    if lock == "none":
        monkeypatch.setattr(file_locks, "fcntl", None)
    else:

        def fails(*arguments):
            raise OSError(37, "No locks available")

        monkeypatch.setattr(file_locks.fcntl, "flock", fails)
    path = tmp_path / ".opbridge-12345678.tmp"
    path.mkdir()
    (path / "m.onnx").write_text("half")
    staging.clear_abandoned(tmp_path)
    assert path.exists()
    os.utime(path, (0, 0))
    staging.clear_abandoned(tmp_path)
    assert not path.exists()
    made = staging.make(tmp_path)
    made.remove()
    assert not list(tmp_path.iterdir())


def test_names():
    plain = plain_name(Path("a", "net.v1.onnx"))
    assert plain == Path("a", "net.v1.onnx.data")
    first, second = itertools.islice(keys(b"content"), 2)
    assert first != second and next(keys(b"content")) == first != next(keys(b"other"))
    named = data_name(plain, first)
    assert named == Path("a", f"net.v1.onnx.{first}.data") and data_key(plain, named) == first


def test_data_files_are_told_from_others(tmp_path):
    plain = plain_name(tmp_path / "m.onnx")
    wanted = data_name(plain, "0123abcd")
    wanted.touch()
    data_name(plain, "fedcba98").mkdir()
    for name in ("m.onnx", "m.onnx.data", "m.onnx.0123ABCD.data", "m.onnx.0123abcd.data.bak", "x.onnx.0123abcd.data"):
        (tmp_path / name).touch()
    assert data_files(plain) == [wanted]


def test_names_are_of_the_content(tmp_path):
    torch.manual_seed(0)
    names = set()
    weight = torch.randn(50, 60)
    for number, other in enumerate((weight, weight + 1, weight[:, :30], weight.t(), weight.half(), weight.clone())):
        (tmp_path / str(number)).mkdir()
        names.add(save(torch_model(w=other), tmp_path / str(number) / "m.onnx", external_data=True)[1].name)
    assert len(names) == 5  # the last one is as the first
