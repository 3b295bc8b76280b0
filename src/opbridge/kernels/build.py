"""C++ files become one shared library, with the system's compiler."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from opbridge.errors import BuildError, UsageError
from opbridge.kernels.cache import Cache, fingerprint
from opbridge.kernels.compiler import INCLUDE, Compiler, Settings, find_compiler
from opbridge.kernels.copying import copied
from opbridge.kernels.device_images import compiled_images
from opbridge.kernels.device_sources import (
    DeviceImage,
    DeviceProgram,
    device_file,
    has_device_functions,
    read_program,
    registration,
)

__all__ = ["ADAPTER", "build", "build_parts"]

ADAPTER = tuple(Path(__file__).parent / "adapter" / name for name in ("adapter.cpp", "adapter_ort.cpp"))

# Of libraries with functions for CUDA devices.
_CUDA_ADAPTER = Path(__file__).parent / "adapter" / "adapter_cuda.cpp"

_SEPARATE = "-DOPBRIDGE_SEPARATE_ADAPTER"

# Flags that change nothing in what every library holds: optimisation, folders of headers, and macros that are neither
# the compiler's (`_GLIBCXX_DEBUG`) nor opbridge's own.
_OF_THE_KERNELS_ALONE = re.compile(r"-(O.*|I.+|D(?!_|OPBRIDGE_).+)")

# A flag whose argument is the next one (`-Xclang -O1`), or that argument (`-I folder`).
_WITH_AN_ARGUMENT = re.compile(r"-X|[^-]")

# Names in a rule of make's.
_NAME_IN_RULE = re.compile(r"(?:\\[ \t#]|[^\s])+")


def build(
    *paths: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    debug: bool = False,
    sanitize: Sequence[str] = (),
    flags: Sequence[str] = (),
    architectures: Sequence[str] = (),
) -> Path:
    """Compiles kernels into one shared library for PyTorch and ONNX Runtime.

    A library with the same content, compiler and flags is taken from the cache.

    Args:
        *paths: C++ files that include <opbridge/kernel.h>. A file of the same name that ends in .cu, beside one of
            them, is its code for CUDA devices.
        output: Where to put the library; None leaves it in the cache.
        debug: With debug information, unoptimised, and with every index into a tensor checked.
        sanitize: Sanitizers to build with: "address", "undefined", "leak", "thread".
        flags: Further flags for the compiler.
        architectures: CUDA architectures, such as "sm_90", whose code the library is to hold, with PTX of the newest
            one for later devices, so that the machine that runs it needs no NVRTC; this build does. Without them, it is
            compiled by NVRTC on the machine that has the device, when it is first used.

    Returns:
        The library.

    Raises:
        BuildError: there is no compiler, or it does not compile a file; the message is the compiler's.
        UsageError: a file that is not there, or no file.
    """
    return build_parts(
        paths, ADAPTER, output=output, settings=Settings(debug, tuple(sanitize), tuple(flags), tuple(architectures))
    )


def build_parts(
    paths: Sequence[str | os.PathLike[str]],
    parts: Sequence[Path] = (),
    *,
    output: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    begins: Callable[[], None] | None = None,
) -> Path:
    """Builds C++ files into one shared library, named after the first of them; as `build`, which says what it raises.

    Args:
        paths: The C++ files.
        parts: What goes into several libraries and is compiled once for all.
        output: As for `build`.
        settings: How to build.
        begins: Called before anything is compiled; not where the library is in the cache.
    """
    sources = [_checked(path) for path in paths]
    if not sources:
        raise UsageError("build() requires a C++ file, such as build('my_add.cpp').")
    compiler = find_compiler()
    name = f"{sources[0].stem}{compiler.suffix}"
    cache = Cache()
    try:
        built = _built(cache, compiler, settings or Settings(), sources, name, parts, begins)
    except OSError as error:
        raise BuildError(f"{sources[0]} cannot be built in {cache.folder}: {error}.") from error
    return built if output is None else copied(built, Path(output))


def _checked(path: str | os.PathLike[str]) -> Path:
    source = Path(path)
    if not source.is_file():
        raise UsageError(f"The file {source} does not exist. Give a C++ file; opbridge new NAME creates one.")
    if source.suffix == ".cu":
        raise UsageError(
            f"{source} is code for CUDA devices, which belongs to a C++ file of the same name. Give {source.stem}.cpp, "
            f"which registers the operators; {source.name} beside it is compiled with it."
        )
    return source


def _built(
    cache: Cache,
    compiler: Compiler,
    settings: Settings,
    sources: Sequence[Path],
    name: str,
    parts: Sequence[Path],
    begins: Callable[[], None] | None,
) -> Path:
    given = compiler.flags(settings)
    # The headers as a whole: every library holds what adapter.cpp reads of them.
    own = sorted(INCLUDE.rglob("*.h"))
    names = [str(source.resolve()) for source in sources]
    flags = _part_flags(compiler, settings) if parts else []
    first = fingerprint(
        [compiler.version, *given, *flags, *names, *settings.architectures],
        [*dict.fromkeys((*sources, *map(device_file, sources))), *parts, _CUDA_ADAPTER, *own],
    )
    found = cache.find(first, name)
    if found is not None:
        return found
    with cache.building(first) as folder:
        found = cache.find(first, name)  # another process has built it meanwhile
        if found is not None:
            return found
        if begins is not None:
            begins()
        programs = _device_programs(sources, settings) if parts else {}
        if programs:
            parts = (*parts, _CUDA_ADAPTER)
        numbers = {source: number for number, source in enumerate(programs)}
        with ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
            compiled_parts = [pool.submit(_part, cache, compiler, settings, source) for source in parts]
            compiled = pool.map(
                lambda each: _compiled(
                    compiler, [*given, _SEPARATE, *_program_flag(numbers, each[1])], each[1], folder / f"{each[0]}.o"
                ),
                enumerate(sources),
            )
            results = list(compiled)
            objects = [*(made for made, _ in results), *(part.result() for part in compiled_parts)]
        library = folder / name

        def link(images: Sequence[DeviceImage]) -> None:
            device = [_device_code(compiler, given, list(programs.values()), images, folder)] if programs else []
            failed = f"{' '.join(map(str, sources))} cannot be linked"
            _run(compiler.link([*objects, *device], library, settings), failed)

        link([])
        if programs and settings.architectures:
            link(compiled_images(library, len(programs), settings.architectures))
        read = dict.fromkeys(file for _, files in results for file in files)
        read.update(dict.fromkeys(file for program in programs.values() for file in program.files))
        return cache.keep(first, list(read), library, name)


def _device_programs(sources: Sequence[Path], settings: Settings) -> dict[Path, DeviceProgram]:
    """The sources that have functions for CUDA devices."""
    found = {}
    for source in sources:
        file = device_file(source)
        program = read_program(file, str(file), INCLUDE, settings.flags, debug=settings.debug)
        if file != source or has_device_functions(program):
            found[source] = program
    return found


def _program_flag(numbers: Mapping[Path, int], source: Path) -> list[str]:
    return [f"-DOPBRIDGE_DEVICE_PROGRAM={numbers[source]}"] if source in numbers else []


def _device_code(
    compiler: Compiler,
    flags: Sequence[str],
    programs: Sequence[DeviceProgram],
    images: Sequence[DeviceImage],
    folder: Path,
) -> Path:
    """The object file with the library's device code."""
    source = folder / "device_code.cpp"
    source.write_text(registration(programs, images))
    return _compiled(compiler, flags, source, folder / "device_code.o")[0]


def _part(cache: Cache, compiler: Compiler, settings: Settings, source: Path) -> Path:
    """A part that every library has, compiled."""
    given = _part_flags(compiler, settings)
    name = f"{source.stem}.o"
    first = fingerprint([compiler.version, *given], [source])
    found = cache.find(first, name)
    if found is not None:
        return found
    with cache.building(first) as folder:
        found = cache.find(first, name)
        if found is not None:
            return found
        compiled, read = _compiled(compiler, given, source, folder / name)
        return cache.keep(first, read, compiled, name)


def _part_flags(compiler: Compiler, settings: Settings) -> list[str]:
    """The flags for what every library holds: the same for as many settings as possible, as each compiles it once."""
    if compiler.is_msvc:
        return compiler.flags(settings)
    flags = settings.flags
    if not any(_WITH_AN_ARGUMENT.match(each) for each in flags):
        flags = tuple(each for each in flags if not _OF_THE_KERNELS_ALONE.fullmatch(each))
    given = compiler.flags(replace(settings, flags=flags))
    if settings.debug or settings.sanitize:
        return given
    # Little of it runs in a call, and it is what a first build waits for.
    return ["-Og" if flag == "-O3" else flag for flag in given]


def _compiled(compiler: Compiler, flags: Sequence[str], source: Path, into: Path) -> tuple[Path, list[Path]]:
    """A file compiled, and what it has read."""
    dependencies = into.with_suffix(".d")
    # A name that begins so would be an option.
    given = f"./{source}" if str(source).startswith("-") else str(source)
    _run(compiler.compile(given, into, flags, dependencies=dependencies), f"{source} does not compile")
    return into, _dependencies(dependencies, given) or [source]


def _dependencies(file: Path, source: str) -> list[Path]:
    """The files that make's rule names after the colon.

    Args:
        file: The rule, as the compiler wrote it.
        source: The source as the compiler was given it. Its path is the only one that may have a line break in it.

    Raises:
        BuildError: one of them is not there under its name, so that a change of it would not be seen.
    """
    if not file.exists():
        return []
    rule = file.read_text(errors="surrogateescape").partition(":")[2]
    if "\n" in source:  # the compiler leaves it as it is
        rule = rule.replace(_in_rule(source.removeprefix("./")), " ", 1)
    names = _NAME_IN_RULE.findall(rule.replace("\\\n", " "))
    found = [Path(_out_of_rule(each)).absolute() for each in names]
    if "\n" in source:
        found.insert(0, Path(source).absolute())
    missing = next((each for each in found if not each.exists()), None)
    if missing is not None:
        raise BuildError(f"{source} includes {missing} according to the compiler, which does not exist. Rename it.")
    return found


def _in_rule(name: str) -> str:
    """A file's name as compilers write it in make's rules."""
    return re.sub(r"(\\*)([ \t])", r"\1\1\\\2", name).replace("#", "\\#").replace("$", "$$")


def _out_of_rule(name: str) -> str:
    """The name of a file that `_in_rule` gives; the backslashes before a space are twice as many and one."""
    name = re.sub(r"(\\*)\1\\([ \t])", r"\1\2", name)
    return name.replace("\\#", "#").replace("$$", "$")


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise BuildError(f"{what}:\n{said}\nThe command was: {' '.join(command)}")
