"""Libraries at the path that their user names, and what ended processes leave beside them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import opbridge
from opbridge.kernels.copying import copied

KILLED = """
    import os, sys
    from pathlib import Path
    from opbridge.kernels import copying

    copying.shutil.copystat = lambda *_: os.kill(os.getpid(), 9)
    copying.copied(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.fixture
def built(tmp_path):
    path = tmp_path / "cache" / "my_add.so"
    path.parent.mkdir()
    path.write_bytes(b"new" * 1000)
    path.chmod(0o755)
    return path


def test_a_library_takes_the_place_of_the_older_one(built, tmp_path):
    target = tmp_path / "my_add.so"
    target.write_bytes(b"old")
    with target.open("rb") as older:
        assert copied(built, target) == target
        assert older.read() == b"old"  # of a process that has it loaded
    assert target.read_bytes() == built.read_bytes() and target.stat().st_mode & 0o777 == 0o755
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cache", "my_add.so"]


def test_what_a_killed_process_left_is_removed_by_the_next_one(built, tmp_path):
    target = tmp_path / "my_add.so"
    target.write_bytes(b"old")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(KILLED), built, target]
    assert subprocess.run(command, env=environment).returncode == -9
    (left,) = tmp_path.glob(".my_add.so.*.part")
    assert target.read_bytes() == b"old"
    os.utime(left, (0, 0))
    others = [tmp_path / name for name in (".my_add.so.0123.part", ".other.so.01234567.part", ".my_add.so.link.part")]
    for each in others:
        each.write_bytes(b"")
    copied(built, target)
    assert not left.exists() and all(each.exists() for each in others)


def test_what_is_being_written_is_left_alone(built, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    target = tmp_path / "my_add.so"
    being_written, just_begun = (tmp_path / f".my_add.so.{key}.part" for key in ("01234567", "89abcdef"))
    just_begun.write_bytes(b"")
    with being_written.open("xb") as file:
        os.utime(being_written, (0, 0))
        fcntl.flock(file, fcntl.LOCK_EX)
        copied(built, target)
        assert being_written.exists() and just_begun.exists()


def test_a_path_that_cannot_be_written_is_an_error_and_leaves_nothing(built, tmp_path):
    with pytest.raises(opbridge.SaveError, match="is not writable"):
        copied(built, tmp_path / "not" / "there.so")
    (tmp_path / "folder.so").mkdir()
    with pytest.raises(opbridge.SaveError, match="is not writable"):
        copied(built, tmp_path / "folder.so")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cache", "folder.so"]
