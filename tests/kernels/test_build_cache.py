"""The cache of builds takes nothing that is damaged, or that others may have put there."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import opbridge
from opbridge.base.file_locks import ABANDONED_SECONDS
from opbridge.kernels import build
from opbridge.kernels.build import build_parts
from opbridge.kernels.cache import Cache
from opbridge.kernels.compiler import Settings

SOURCE = 'extern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }\n'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a small source in it, and a cache of its own."""
    monkeypatch.setenv("OPBRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    (tmp_path / "small.cpp").write_text('#include "answer.h"\n' + SOURCE)
    return tmp_path


def answer(library: Path) -> int:
    """What the library's function returns, in a process of its own."""
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).answer())"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def truncate(file):
    os.truncate(file, file.stat().st_size // 2)


def empty(file):
    os.truncate(file, 0)


def change(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def remove(file):
    file.unlink()


@pytest.mark.parametrize("damage", [truncate, empty, change, remove])
@pytest.mark.parametrize("what", ["*/small.so", "*/small.so.check", "index/*.json"])
def test_what_is_damaged_is_built_again(folder, damage, what):
    built = build_parts(["small.cpp"])
    [file] = (folder / "cache" / "kernels").glob(what)
    damage(file)
    assert build_parts(["small.cpp"]) == built
    assert answer(built) == 42


@pytest.mark.parametrize("content", ["[]", "7", "[null]", '{"a": 1}', '["/"]', '["\\u0000"]', "\0" * 100])
def test_an_index_of_another_form_is_made_again(folder, content):
    built = build_parts(["small.cpp"])
    [index] = (folder / "cache" / "kernels" / "index").glob("*.json")
    index.write_text(content)
    assert build_parts(["small.cpp"]) == built


def test_what_is_whole_is_built_once(folder, monkeypatch):
    built = build_parts(["small.cpp"])
    monkeypatch.setattr(build, "_run", None)
    assert build_parts(["small.cpp"]) == built


NAMES = [
    "-o.cpp",
    "--help.cpp",
    "a b.cpp",
    "#.cpp",
    "a\\b.cpp",
    "a\\ b.cpp",
    "$$a$(b).cpp",
    "a\nb c$.cpp",
    "-\n.cpp",
    ":.cpp",
    "'\".cpp",
    "\xe9\udcff.cpp",
    "x" * 248 + ".cpp",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_files(folder, name):
    header = "h #$'.h"
    (folder / "answer.h").rename(folder / header)
    (folder / name).write_text(f'#include "{header}"\n' + SOURCE)
    if len(name) > 200:
        with pytest.raises(opbridge.BuildError, match="File name too long"):
            build_parts([name])
        return
    first = build_parts([name])
    assert answer(first) == 42
    (folder / header).write_text("#define ANSWER 43\n")
    assert answer(build_parts([name])) == 43  # so that the header was found to be one of what was read


def test_a_header_whose_name_cannot_be_told_is_refused(folder):
    (folder / "in\nclude").mkdir()
    (folder / "in\nclude" / "answer.h").write_text("#define ANSWER 42\n")
    (folder / "answer.h").unlink()
    with pytest.raises(opbridge.BuildError, match="which does not exist. Rename it"):
        build_parts(["small.cpp"], settings=build.Settings(flags=("-Iin\nclude",)))


@pytest.mark.parametrize("part", ["", "kernels", "kernels/index"])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o703])
def test_a_cache_that_others_may_write_to_is_refused(folder, part, mode):
    build_parts(["small.cpp"])
    (folder / "cache" / part).chmod(mode)
    with pytest.raises(opbridge.BuildError, match=f"to which other users may write .its mode is {mode:o}.*chmod go-w"):
        build_parts(["small.cpp"])


def test_a_group_that_may_write(folder):
    cached = folder / "cache"
    cached.mkdir()
    cached.chmod(0o770)
    if cached.stat().st_gid == cached.stat().st_uid:
        build_parts(["small.cpp"])  # the user's own group
        if os.geteuid() != 0:
            return
        os.chown(cached, -1, 12345)
    with pytest.raises(opbridge.BuildError, match="to which other users may write"):
        build_parts(["small.cpp"])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to give a folder away")
def test_a_cache_of_another_user_is_refused(folder):
    (folder / "cache").mkdir(mode=0o755)
    os.chown(folder / "cache", 65534, 65534)
    with pytest.raises(opbridge.BuildError, match="belongs to another user .number 65534.*OPBRIDGE_CACHE"):
        build_parts(["small.cpp"])


@pytest.mark.slow
def test_the_cache_is_the_users_alone(folder):
    os.umask(before := os.umask(0))
    os.umask(0o002)
    try:
        built = build_parts(["small.cpp"])
    finally:
        os.umask(before)
    for each in (built.parent, *built.parent.parents[:2], built.parents[1] / "index"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700


def test_folders_of_builds_that_were_killed_are_removed(folder):
    kernels = Cache().folder
    killed, old, new = (kernels / f"build-{name}" for name in ("0123-abc", "old", "new"))
    for each in (killed, old, new):
        each.mkdir()
        (each / "half.o").write_text("")
    os.utime(old, (0, time.time() - 2 * ABANDONED_SECONDS))
    with Cache().building("4567") as running:
        with Cache().building("89ab"):
            assert running.exists()
        assert not killed.exists() and not old.exists() and new.exists()
    shutil.rmtree(new)
    assert not list(kernels.glob("build-*"))


def test_other_flags_are_another_library():
    flags = ((), ("-DX",), ("-DX=1",), ("-DX", "-DY"))
    built = [build_parts(["small.cpp"], settings=Settings(flags=each)) for each in flags]
    assert len(set(built)) == len(flags)
    assert [build_parts(["small.cpp"], settings=Settings(flags=each)) for each in flags] == built
