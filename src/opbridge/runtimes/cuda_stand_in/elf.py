"""What a shared library takes from others: their names, and the symbols. For Linux on processors of 64 bits."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

__all__ = ["Taken", "taken"]

_SYMBOLS, _DYNAMIC = 11, 6
"""SHT_DYNSYM and SHT_DYNAMIC."""

_NEEDED = 1
"""DT_NEEDED."""


class Taken(NamedTuple):
    """What a library takes from others.

    Attributes:
        libraries: Their names, as "libcudart.so.13".
        symbols: The names of the symbols that it does not define.
    """

    libraries: list[str]
    symbols: list[str]


def taken(path: Path) -> Taken:
    """What a shared library takes from others.

    Raises:
        ValueError: It is no ELF file of 64 bits.
    """
    content = path.read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is no shared library for Linux on a processor of 64 bits")
    start = struct.unpack_from("<Q", content, 40)[0]
    size, count = struct.unpack_from("<HH", content, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", content, start + size * each) for each in range(count)]
    libraries: list[str] = []
    symbols: list[str] = []
    for _, kind, _, _, offset, length, link, _, _, each in sections:
        if kind not in (_SYMBOLS, _DYNAMIC):
            continue
        names = sections[link][4]
        for at in range(offset, offset + length, each):
            if kind == _DYNAMIC:
                tag, value = struct.unpack_from("<QQ", content, at)
                if tag == _NEEDED:
                    libraries.append(_text(content, names + value))
            else:
                name, _, _, section = struct.unpack_from("<IBBH", content, at)
                if name and section == 0:
                    symbols.append(_text(content, names + name))
    return Taken(libraries, symbols)


def _text(content: bytes, at: int) -> str:
    return content[at : content.index(b"\0", at)].decode("latin-1")
