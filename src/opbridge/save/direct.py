"""A large new file, written past the page cache with O_DIRECT.

A write through the page cache needs a free page of memory for each page of the file: 340 MB take 0.15 s where there are
free pages, and 0.9 to 1.4 s where they have to be reclaimed first, as is common beside a process that holds a model.
Direct writes from one buffer always take 0.25 to 0.3 s, and need no further memory. Another thread makes them, while
the next buffer is filled: weights that are transposed on the way take as long as that.
"""

from __future__ import annotations

import errno
import mmap
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["DirectFile"]

# Direct writes have to start and end at multiples of the disk's block size (512 or 4096 bytes), in the file and in
# memory. A buffer from mmap starts at a page.
_BLOCK_BYTES = 4096
_BUFFER_BYTES = 2 << 20

_DIRECT = getattr(os, "O_DIRECT", 0)  # Linux and some BSDs


class DirectFile:
    """A new file, opened for writing.

    1. Data are collected in one of two buffers of 2 MB. A full one is written to the disk by a thread. An error of the
       disk is raised when that buffer is needed again, or by `close`.
    2. The last, incomplete block is written through the page cache.
    3. Where the operating system or the file system has no direct writes, the page cache is used for all.

    Attributes:
        closed: Whether the file is closed.

    Args:
        path: The path of the new file.

    Raises:
        FileExistsError: The path exists.
        OSError: The file cannot be created.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            self._descriptor = os.open(path, flags | _DIRECT, 0o666)
        except OSError as error:
            if not _DIRECT or error.errno != errno.EINVAL:
                raise
            # Linux creates the file before it refuses O_DIRECT, so that it exists by now.
            self._descriptor = os.open(path, flags & ~os.O_EXCL, 0o666)
        self._buffer, self._spare = mmap.mmap(-1, _BUFFER_BYTES), mmap.mmap(-1, _BUFFER_BYTES)
        self._filled = 0
        self._writer = ThreadPoolExecutor(1, "opbridge-write")
        self._pending: Future[None] | None = None
        self.closed = False

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        """Writes all bytes of a contiguous buffer, and returns their number.

        Raises:
            OSError: The disk refuses the write.
        """
        view = memoryview(data).cast("B")
        start = 0
        while start < view.nbytes:
            stop = min(view.nbytes, start + _BUFFER_BYTES - self._filled)
            self._buffer[self._filled : self._filled + stop - start] = view[start:stop]
            self._filled += stop - start
            start = stop
            if self._filled == _BUFFER_BYTES:
                self._wait()
                self._pending = self._writer.submit(self._write_buffer, self._buffer, _BUFFER_BYTES)
                self._buffer, self._spare, self._filled = self._spare, self._buffer, 0
        return view.nbytes

    def close(self) -> None:
        """Writes the rest of the buffer, and closes the file whether or not that succeeds.

        Raises:
            OSError: The disk refuses the write.
        """
        if self.closed:
            return
        try:
            self._wait()
            whole = self._filled - self._filled % _BLOCK_BYTES
            rest = self._buffer[whole : self._filled]
            self._write_buffer(self._buffer, whole)
            if rest:
                self._use_page_cache()
                self._buffer[: len(rest)] = rest
                self._write_buffer(self._buffer, len(rest))
        finally:
            self.closed = True
            self._writer.shutdown()
            del self._buffer, self._spare
            os.close(self._descriptor)

    def _wait(self) -> None:
        """Waits until the other buffer is written.

        Raises:
            OSError: The disk refused that.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _write_buffer(self, buffer: mmap.mmap, count: int) -> None:
        """Writes the first `count` bytes of a buffer."""
        with memoryview(buffer) as content:
            done = 0
            while done < count:
                try:
                    done += os.write(self._descriptor, content[done:count])
                except OSError as error:
                    if error.errno != errno.EINVAL or not self._use_page_cache():
                        raise
                    # The file system accepts the flag but not the write, or has written part of a block.

    def _use_page_cache(self) -> bool:
        """Switches the file to the page cache. Returns whether it was written directly before."""
        if not _DIRECT or fcntl is None:
            return False
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        if not flags & _DIRECT:
            return False
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~_DIRECT)
        return True
