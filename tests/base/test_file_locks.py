from __future__ import annotations

import pytest

from opbridge.base import file_locks

pytest.importorskip("fcntl")


def test_a_lock_is_held_until_the_file_is_closed(tmp_path):
    path = tmp_path / "locked"
    with path.open("w") as file, path.open() as other:
        assert file_locks.lock(file.fileno()) is True
        assert file_locks.lock(other.fileno()) is False
        file_locks.unlock(file.fileno())
        assert file_locks.lock(other.fileno(), wait=True) is True
    with path.open() as file:
        assert file_locks.lock(file.fileno()) is True


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    def fails(*arguments):
        raise OSError(37, "No locks available")

    with (tmp_path / "locked").open("w") as file:
        monkeypatch.setattr(file_locks.fcntl, "flock", fails)
        assert file_locks.lock(file.fileno(), wait=True) is None
        monkeypatch.setattr(file_locks, "fcntl", None)
        assert file_locks.lock(file.fileno()) is None
