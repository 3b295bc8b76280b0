"""The system's C++ compiler, and the flags that libraries of kernels are built with."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opbridge.errors import BuildError, UsageError

__all__ = ["INCLUDE", "Compiler", "Settings", "find_compiler"]

INCLUDE = Path(__file__).parent / "include"

# A rule for make of what was included, under a short name, and then its file.
_RULE = ("-MMD", "-MT", "it", "-MF")

_SANITIZERS = ("address", "leak", "thread", "undefined")

_ARCHITECTURE = re.compile(r"sm_[0-9]{2,3}[af]?")

_INSTALL = {
    "linux": "apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora, RHEL) or apk add g++ (Alpine)",
    "darwin": "xcode-select --install",
    "win32": "the Build Tools for Visual Studio, with the C++ workload, and use their developer prompt",
}


@dataclass(frozen=True)
class Settings:
    """How a library is built.

    Attributes:
        debug: With debug information, without optimisation, and with every index into a tensor checked.
        sanitize: Sanitizers to build with: address, undefined, leak, thread.
        flags: Further flags for the compiler.
        architectures: CUDA architectures for which the library holds compiled code: sm_80, sm_90.
    """

    debug: bool = False
    sanitize: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [each for each in self.sanitize if each not in _SANITIZERS]
        if unknown:
            raise UsageError(f"Unknown sanitizer '{unknown[0]}'. The sanitizers are {', '.join(_SANITIZERS)}.")
        wrong = [each for each in self.architectures if not _ARCHITECTURE.fullmatch(each)]
        if wrong:
            raise UsageError(f"Unknown architecture '{wrong[0]}'. Name CUDA architectures as in sm_80 or sm_90a.")
        if self.architectures and self.sanitize:
            raise UsageError("Code for CUDA architectures cannot be built with sanitizers. Leave one of them out.")


@dataclass(frozen=True)
class Compiler:
    """A compiler.

    Attributes:
        command: The program with the arguments that it is always given.
        version: What it says of itself.
    """

    command: tuple[str, ...]
    version: str

    @property
    def is_msvc(self) -> bool:
        """Whether it takes the flags of Microsoft's compiler."""
        return Path(self.command[0]).stem.lower() == "cl"

    @property
    def suffix(self) -> str:
        """What the names of shared libraries end in."""
        return {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")

    def flags(self, settings: Settings) -> list[str]:
        """The flags for every file of a library."""
        if self.is_msvc:  # untested
            optimised = ["/Od", "/Zi", "/DOPBRIDGE_CHECK_BOUNDS"] if settings.debug else ["/O2"]
            sanitized = [f"/fsanitize={each}" for each in settings.sanitize]
            return ["/nologo", "/std:c++17", "/EHsc", "/MD", *optimised, *sanitized, f"/I{INCLUDE}", *settings.flags]
        optimised = ["-O3", "-fno-math-errno"]
        if settings.debug:
            optimised = ["-O0", "-g", "-DOPBRIDGE_CHECK_BOUNDS"]
        elif settings.sanitize:
            optimised = ["-O1", "-g", "-fno-omit-frame-pointer"]
        sanitized = [f"-fsanitize={','.join(settings.sanitize)}", "-fno-sanitize-recover"] if settings.sanitize else []
        return ["-std=c++17", "-fPIC", "-fvisibility=hidden", *optimised, *sanitized, f"-I{INCLUDE}", *settings.flags]

    def compile(self, source: Path | str, into: Path, flags: Sequence[str], *, dependencies: Path) -> list[str]:
        """The command that compiles one file and writes what it includes, as make reads it, to `dependencies`."""
        if self.is_msvc:
            return [*self.command, *flags, "/c", str(source), f"/Fo{into}"]
        return [*self.command, *flags, "-c", str(source), "-o", str(into), *_RULE, str(dependencies)]

    def link(self, objects: Sequence[Path], into: Path, settings: Settings) -> list[str]:
        """The command that makes a library of compiled files."""
        names = [str(each) for each in objects]
        if self.is_msvc:
            return [*self.command, "/nologo", "/LD", *names, f"/Fe{into}"]
        shared = (
            ["-dynamiclib", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared", "-pthread"]
        )
        system = [] if sys.platform == "darwin" else ["-ldl"]
        sanitized = [f"-fsanitize={','.join(settings.sanitize)}"] if settings.sanitize else []
        extra = [flag for flag in settings.flags if flag.startswith(("-l", "-L", "-Wl,", "-fopenmp"))]
        return [*self.command, *shared, *sanitized, *names, "-o", str(into), *extra, *system]

    def preload(self, settings: Settings) -> str | None:
        """What has to be loaded before Python for a library with these settings, as LD_PRELOAD takes it, or None."""
        if "address" not in settings.sanitize or self.is_msvc:
            return None
        asan = "libclang_rt.asan-x86_64.so" if "clang" in self.version else "libasan.so"
        found = []
        for name in (asan, "libstdc++.so.6"):  # without the second one, what a kernel throws ends the process
            asked = [*self.command, f"-print-file-name={name}"]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            found.append(done.stdout.strip() or name)
        return " ".join(found)


def find_compiler() -> Compiler:
    """The compiler that CXX names, or the first of g++, clang++ and cl that is there.

    Raises:
        BuildError: there is none, or CXX names none.
    """
    named = os.environ.get("CXX", "").strip()
    if named:
        command = shlex.split(named)
        if shutil.which(command[0]) is None:
            raise BuildError(f"The environment variable CXX is '{named}', which was not found. Correct or unset it.")
        return _described(tuple(command))
    for program in ("clang++", "g++") if sys.platform == "darwin" else ("g++", "clang++", "c++", "cl"):
        if shutil.which(program):
            return _described((program,))
    advice = _INSTALL.get(sys.platform, "g++ or clang++")
    raise BuildError(f"Building kernels requires a C++ compiler, but none was found. Install one: {advice}.")


@functools.cache
def _described(command: tuple[str, ...]) -> Compiler:
    asked = [*command] if Path(command[0]).stem.lower() == "cl" else [*command, "--version"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return Compiler(command, f"{shutil.which(command[0])} {done.stdout}{done.stderr}")
