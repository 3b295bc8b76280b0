"""Where a model is saved: names, folders, links, permissions and owners."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import torch
from helpers.saved_models import listing, torch_model, weights_of

from opbridge.errors import SaveError, UsageError
from opbridge.save import permissions
from opbridge.save.writer import save


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def file_as_folder(folder: Path) -> Path:
    (folder / "file").write_text("mine")
    return folder / "file" / "m.onnx"


BAD_PATHS = {
    "no folder": (lambda folder: folder / "none" / "m.onnx", r"the folder .*none does not exist\. Create it"),
    "a folder": (lambda folder: folder, r" is a folder\. Give the path of a file"),
    "in a file": (file_as_folder, "a component of the path is a file, not a folder"),
    "a pipe": (pipe, "a device or a pipe"),
    "a device": (lambda folder: "/dev/null", "/dev/null is a device or a pipe"),
    "empty": (lambda folder: "", "is a folder"),
    "zero byte": (lambda folder: f"{folder}/a\0b", "is not a valid path"),
    "not UTF-8": (lambda folder: os.path.join(folder, os.fsdecode(b"\xff.onnx")), "is not a valid path"),
    "too long": (lambda folder: folder / ("m" * 300), "the name is too long"),
}


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize(("make", "words"), BAD_PATHS.values(), ids=list(BAD_PATHS))
def test_paths_that_cannot_be_written(tmp_path, make, words, external):
    path = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SaveError, match=words):
        save(torch_model(w=torch.zeros(1000)), path, external_data=external)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_with_the_name_of_the_weights(tmp_path):
    model = torch_model(w=torch.ones(1000))
    [path, data] = save(model, tmp_path / "m.onnx", external_data=True)
    path.unlink()
    data.unlink()
    data.mkdir()
    assert save(model, path, external_data=True)[1] != data
    assert weights_of(path)["w"].all()
    assert data.is_dir()


def test_a_name_that_leaves_no_room_for_the_weights(tmp_path):
    path = tmp_path / ("m" * 252)
    save(torch_model(w=torch.zeros(1000)), path)
    with pytest.raises(SaveError, match="the name is too long"):
        save(torch_model(w=torch.zeros(1000)), path, external_data=True)


def test_something_that_is_no_path():
    with pytest.raises(UsageError, match=r"Expected a path.*got 5"):
        save(torch_model(w=torch.zeros(1)), 5)


def test_a_folder_without_permission(tmp_path):
    model = torch_model(w=torch.zeros(1000))
    save(model, tmp_path / "m.onnx")
    there = listing(tmp_path)
    tmp_path.chmod(0o500)
    if root := os.geteuid() == 0:
        os.seteuid(65534)  # root may write anywhere
    try:
        with pytest.raises(SaveError, match=r"permission denied.*Use a writable folder"):
            save(model, tmp_path / "m.onnx")
    finally:
        if root:
            os.seteuid(0)
        tmp_path.chmod(0o700)
    assert listing(tmp_path) == there


def test_a_link_is_replaced_and_its_target_kept(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "m.onnx").symlink_to("target")
    save(torch_model(w=torch.zeros(1000)), tmp_path / "m.onnx", external_data=True)
    assert not (tmp_path / "m.onnx").is_symlink()
    assert (tmp_path / "target").read_text() == "mine"
    assert len(weights_of(tmp_path / "m.onnx")["w"]) == 1000


def test_permissions_are_those_of_a_file_that_is_opened(tmp_path):
    (tmp_path / "other").write_bytes(b"")
    save(torch_model(w=torch.zeros(1000)), tmp_path / "m.onnx", external_data=True)
    assert len({file.stat().st_mode for file in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
@pytest.mark.parametrize("external", [False, True])
def test_permissions_of_the_file_that_is_replaced_are_kept(tmp_path, mode, external):
    path = tmp_path / "m.onnx"
    path.write_text("old")
    path.chmod(mode)
    files = save(torch_model(w=torch.zeros(1000)), path, external_data=external)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [mode] * (1 + external)
    assert sorted(tmp_path.iterdir()) == sorted(files)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to give files away")
def test_the_owner_and_the_group_are_kept(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_text("old")
    path.chmod(0o640)
    os.chown(path, 65534, 12345)
    for file in save(torch_model(w=torch.zeros(1000)), path, external_data=True):
        assert (file.stat().st_uid, file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (65534, 12345, 0o640)


def test_another_group_gets_no_more_than_everybody(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    path.write_text("old")
    path.chmod(0o664)
    real = os.lstat

    def of_another_group(file, **settings):
        found = list(real(file, **settings))
        if Path(file) == path:
            found[5] += 1  # st_gid
        return os.stat_result(found)

    def refused(*arguments):
        raise PermissionError

    monkeypatch.setattr(permissions.os, "lstat", of_another_group)
    monkeypatch.setattr(permissions.os, "chown", refused)
    save(torch_model(w=torch.zeros(1000)), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
