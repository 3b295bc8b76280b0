"""The device code of a library: what NVRTC is given of its sources, and what was compiled of them, as C++ text.

A library with functions for CUDA devices holds their source text and that of the headers that it includes, so that they
can be compiled on the machine that has the device. The text is that of the C++ file, or of the .cu file of the same
name beside it. Lines between `#ifdef OPBRIDGE_ON_DEVICE`, `#ifndef` of it, `#else`
and `#endif` that the device does not see are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = [
    "DeviceImage",
    "DeviceProgram",
    "compute_capability",
    "device_file",
    "has_device_functions",
    "read_program",
    "registration",
]

_FUNCTIONS = re.compile(
    r"^[ \t]*OPBRIDGE_(?:ELEMENT|CPU_CUDA)_KERNEL[ \t]*\(|^[^/\n]*\b(?:cpu_cuda[ \t]*<|__global__\b)", re.MULTILINE
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)')
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?P<word>ifdef|ifndef|if|else|elif|endif)\b[ \t]*(?P<rest>[^/\n]*)")
_ON_DEVICE = "OPBRIDGE_ON_DEVICE"

# Longer string literals are an error for some compilers.
_PIECE = 2000


def compute_capability(architecture: str) -> int:
    """The compute capability that an architecture names, as one number: 90 for "sm_90", 120 for "compute_120"."""
    return int("".join(filter(str.isdigit, architecture)))


@dataclass
class DeviceProgram:
    """A source file as the device compiler is given it.

    Attributes:
        name: The file, as messages name it.
        text: Its text, with includes of files that were found under their names in `headers`.
        headers: The texts of the headers that it includes, by name.
        files: The files that were read.
        options: Options for the device compiler.
    """

    name: str
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceImage:
    """A program that was compiled.

    Attributes:
        program: Its number.
        architecture: What for: `sm_90`, or `compute_90` for PTX.
        data: The compiled code, as the library's header packs it.
    """

    program: int
    architecture: str
    data: bytes


def has_device_functions(program: DeviceProgram) -> bool:
    """Whether a source or one of its own headers registers a function for CUDA devices."""
    own = (text for name, text in program.headers.items() if not name.startswith("opbridge/"))
    return any(_FUNCTIONS.search(text) for text in (program.text, *own))


def device_file(source: Path) -> Path:
    """The file whose text NVRTC is given for a C++ file: the one of the same name that ends in .cu, or itself."""
    beside = source.with_suffix(".cu")
    return beside if beside.is_file() else source


def read_program(source: Path, name: str, include: Path, flags: Sequence[str], *, debug: bool = False) -> DeviceProgram:
    """Reads a source with the headers that it includes.

    Args:
        source: The file.
        name: What messages call it.
        include: The folder of opbridge's headers.
        flags: Flags of the C++ compiler, of which -I, -D and -U are obeyed.
        debug: Has indices checked, and the lines of the source kept.

    Raises:
        OSError: A file cannot be read.
    """
    folders = [include, *(Path(each) for each in _values(flags, "-I"))]
    defined = [f"{option}{value}" for option in ("-D", "-U") for value in _values(flags, option)]
    checked = ["-DOPBRIDGE_CHECK_BOUNDS", "--generate-line-info"] if debug else []
    program = DeviceProgram(name, options=(*defined, *checked))
    _Reader(program, folders, include).read_source(source)
    return program


def _values(flags: Sequence[str], option: str) -> list[str]:
    """The values of a compiler's option: `-Ifolder` and `-I folder`."""
    found = [flag.removeprefix(option) for flag in flags if flag.startswith(option) and flag != option]
    return found + [flags[i + 1] for i, flag in enumerate(flags[:-1]) if flag == option]


class _Reader:
    def __init__(self, program: DeviceProgram, folders: Sequence[Path], include: Path) -> None:
        self._program, self._folders, self._include = program, folders, include

    def read_source(self, source: Path) -> None:
        self._program.text = self._text_of(source, self._program.name)

    def _text_of(self, file: Path, name: str) -> str:
        self._program.files.append(file.absolute())
        lines = _seen_by_device(file.read_text(errors="surrogateescape").splitlines())
        return "\n".join([f'#line 1 "{_escaped(name)}"', *(self._line(line, file) for line in lines), ""])

    def _line(self, line: str, file: Path) -> str:
        found = _INCLUDE.match(line)
        if found is None:
            return line
        beside = [file.parent] if found["quoted"] else []
        given = found["quoted"] or found["angled"]
        header = next((each / given for each in (*beside, *self._folders) if (each / given).is_file()), None)
        if header is None:  # the device compiler's own, or none, which it then says
            return line
        name = self._name_of(header)
        if name not in self._program.headers:
            self._program.headers[name] = ""  # it may include itself
            self._program.headers[name] = self._text_of(header, name)
        return f'#include "{name}"'

    def _name_of(self, header: Path) -> str:
        real = header.resolve()
        if real.is_relative_to(self._include.resolve()):
            return real.relative_to(self._include.resolve()).as_posix()
        return os.path.normpath(header)  # one name for a header that is included by several paths


def _seen_by_device(lines: Iterable[str]) -> list[str]:
    """The lines that the device compiler sees; in place of the others, empty ones."""
    kept: list[str] = []
    open_conditions: list[bool | None] = []  # whether a branch is seen; None: what the compiler decides
    for line in lines:
        found = _CONDITION.match(line)
        if found is not None:
            word, name = found["word"], found["rest"].strip()
            if word in ("ifdef", "ifndef", "if"):
                is_known = word != "if" and name == _ON_DEVICE
                open_conditions.append((word == "ifdef") if is_known else None)
                kept.append("" if is_known or _is_hidden(open_conditions[:-1]) else line)
                continue
            if open_conditions and open_conditions[-1] is not None and word in ("else", "endif"):
                if word == "else":
                    open_conditions[-1] = not open_conditions[-1]
                else:
                    open_conditions.pop()
                kept.append("")
                continue
            if word == "endif" and open_conditions:
                open_conditions.pop()
        kept.append("" if _is_hidden(open_conditions) else line)
    return kept


def _is_hidden(conditions: Sequence[bool | None]) -> bool:
    return any(each is False for each in conditions)


def registration(programs: Sequence[DeviceProgram], images: Sequence[DeviceImage]) -> str:
    """The C++ text of a file that gives a library its device code."""
    lines = ["#include <opbridge/adapter/device_code.h>", "namespace {", "using namespace opbridge::detail;"]
    rows = []
    for number, program in enumerate(programs):
        lines += _strings(f"header_names_{number}", list(program.headers))
        lines += _strings(f"header_texts_{number}", list(program.headers.values()))
        lines += _strings(f"options_{number}", list(program.options))
        lines.append(f"const char source_{number}[] = {_literal(program.text)};")
        rows.append(
            f"{{{_literal(program.name)}, source_{number}, {len(program.headers)}, header_names_{number}, "
            f"header_texts_{number}, {len(program.options)}, options_{number}}}"
        )
    lines.append(f"const DeviceProgram programs[] = {{{', '.join(rows)}}};")
    for number, image in enumerate(images):
        lines.append(f"const char image_{number}[] = {_literal(image.data)};")
    packed = [
        f'{{{each.program}, "{each.architecture}", image_{number}, {len(each.data)}}}'
        for number, each in enumerate(images)
    ]
    lines.append(f"const PackedImage images[] = {{{', '.join([*packed, '{-1, nullptr, nullptr, 0}'])}}};")
    lines.append(f"const DeviceCode code{{{len(programs)}, programs, {len(images)}, images}};")
    lines += ["const RegisteredDeviceCode registered(code);", "}  // namespace", ""]
    return "\n".join(lines)


def _strings(name: str, texts: Sequence[str]) -> list[str]:
    return [f"const char* const {name}[] = {{{', '.join([*map(_literal, texts), 'nullptr'])}}};"]


def _literal(content: str | bytes) -> str:
    """A C++ string literal with these bytes."""
    data = content if isinstance(content, bytes) else content.encode(errors="surrogateescape")
    pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)] or [b""]
    return "\n".join(f'"{"".join(_IN_LITERAL[each] for each in piece)}"' for piece in pieces)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


# Always three digits, so that one that follows is not taken for a part.
_PLAIN = frozenset(b" !#$%&'()*+,-./0123456789:;<=>@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~")
_IN_LITERAL = [chr(each) if each in _PLAIN else f"\\{each:03o}" for each in range(256)]
