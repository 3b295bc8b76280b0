"""A large new file, written past the page cache.

Through the cache, writing costs what the kernel takes to find a page of memory for every page of the file: 0.15 s for
340 MB when it has pages at hand, and 0.9 to 1.4 s when it has to get them first, as it often has beside a process that
holds a model. Direct writes from one buffer take 0.25 to 0.3 s always, and leave the memory to the model.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["DirectFile"]

# Direct writes start and end at multiples of the disk's block, in the file and in memory. Blocks are of 512 or 4096
# bytes; a mapped buffer starts at a page.
_BLOCK_BYTES = 4096
_BUFFER_BYTES = 4 << 20

_DIRECT = getattr(os, "O_DIRECT", 0)  # Linux and some BSDs


class DirectFile:
    """A new file, opened for writing.

    1. What is written is collected in a buffer of 4 MB, which goes to the disk when it is full.
    2. The last, incomplete block is written through the page cache.
    3. Where the system or the file system has no direct writes, everything is written through the cache.

    Args:
        path: Where to. Nothing may stand there.

    Raises:
        FileExistsError: Something does.
        OSError: The file cannot be created.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            self._descriptor = os.open(path, flags | _DIRECT, 0o666)
        except OSError as error:
            if not _DIRECT or error.errno != errno.EINVAL:
                raise
            with_no_flag = flags & ~os.O_EXCL  # Linux creates the file before it refuses the flag
            self._descriptor = os.open(path, with_no_flag, 0o666)
        self._buffer = mmap.mmap(-1, _BUFFER_BYTES)
        self._filled = 0
        self.closed = False

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        """Writes all of a contiguous buffer.

        Raises:
            OSError: The disk refuses it.
        """
        view = memoryview(data).cast("B")
        start = 0
        while start < view.nbytes:
            stop = min(view.nbytes, start + _BUFFER_BYTES - self._filled)
            self._buffer[self._filled : self._filled + stop - start] = view[start:stop]
            self._filled += stop - start
            start = stop
            if self._filled == _BUFFER_BYTES:
                self._drain(_BUFFER_BYTES)
        return view.nbytes

    def close(self) -> None:
        """Writes what is left, and closes the file whether or not that succeeds."""
        if self.closed:
            return
        try:
            whole = self._filled - self._filled % _BLOCK_BYTES
            rest = self._buffer[whole : self._filled]
            self._drain(whole)
            if rest:
                self._no_longer_direct()
                self._buffer[: len(rest)] = rest
                self._drain(len(rest))
        finally:
            self.closed = True
            del self._buffer
            os.close(self._descriptor)

    def _drain(self, count: int) -> None:
        """Writes the first `count` bytes of the buffer, which is empty afterwards."""
        self._filled = 0
        with memoryview(self._buffer) as content:
            done = 0
            while done < count:
                try:
                    done += os.write(self._descriptor, content[done:count])
                except OSError as error:
                    if error.errno != errno.EINVAL or not self._no_longer_direct():
                        raise  # or else: the file system takes the flag and not the write, or wrote half a block

    def _no_longer_direct(self) -> bool:
        """Goes over to the page cache; whether that is a change."""
        if not _DIRECT or fcntl is None:
            return False
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        if not flags & _DIRECT:
            return False
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~_DIRECT)
        return True
