"""Files written past the page cache."""

from __future__ import annotations

import errno
import os
import stat

import numpy as np
import pytest

from opbridge.save import direct
from opbridge.save.direct import DirectFile


def written(path, pieces) -> bytes:
    file = DirectFile(path)
    for piece in pieces:
        assert file.write(piece) == memoryview(piece).nbytes
    file.close()
    return path.read_bytes()


@pytest.fixture
def small_buffer(monkeypatch):
    monkeypatch.setattr(direct, "_BUFFER_BYTES", 2 * direct._BLOCK_BYTES)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 12288, 50_001])
@pytest.mark.parametrize("piece", [1000, 4096, 20_000])
def test_any_size_in_any_pieces(tmp_path, small_buffer, size, piece):
    content = np.random.default_rng(size).bytes(size)
    pieces = [content[start : start + piece] for start in range(0, size, piece)]
    assert written(tmp_path / "file", pieces) == content


def test_arrays_of_any_type(tmp_path, small_buffer):
    arrays = [np.arange(5000, dtype=np.float32), np.ones((3, 7), np.int16), np.zeros(0, np.float64)]
    assert written(tmp_path / "file", arrays) == b"".join(array.tobytes() for array in arrays)


def test_the_umask_decides_about_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        written(tmp_path / "file", [b"x"])
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_file_in_the_way(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"there")
    with pytest.raises(FileExistsError):
        DirectFile(path)
    assert path.read_bytes() == b"there"


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="this system has no direct writes")
def test_a_file_system_that_refuses_to_open_for_direct_writes(tmp_path, small_buffer, monkeypatch):
    real = os.open
    refused = []

    def refuse(path, flags, mode=0o777):
        if flags & os.O_DIRECT:
            os.close(real(path, flags & ~os.O_DIRECT, mode))  # Linux leaves the file
            refused.append(path)
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    assert written(tmp_path / "file", [b"ab" * 9000]) == b"ab" * 9000
    assert len(refused) == 1


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="this system has no direct writes")
def test_a_file_system_that_refuses_direct_writes_and_writes_by_halves(tmp_path, small_buffer, monkeypatch):
    import fcntl

    real = os.write

    def refuse(descriptor, data):
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(descriptor, data[: len(data) // 2 + 1])

    monkeypatch.setattr(os, "write", refuse)
    assert written(tmp_path / "file", [b"ab" * 9000, b"c"]) == b"ab" * 9000 + b"c"


def test_an_error_at_close_still_closes(tmp_path, monkeypatch):
    file = DirectFile(tmp_path / "file")
    file.write(b"x")

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        file.close()
    assert file.closed
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file.fileno())
    file.close()  # does nothing


def test_an_error_of_the_disk_is_raised_before_the_next_buffers_are_written(tmp_path, small_buffer, monkeypatch):
    file = DirectFile(tmp_path / "file")

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            file.write(b"ab" * 9000)
    file.close()
    assert file.closed


def test_without_direct_writes(tmp_path, small_buffer, monkeypatch):
    monkeypatch.setattr(direct, "_DIRECT", 0)
    assert written(tmp_path / "file", [b"abc" * 9000]) == b"abc" * 9000
