"""Libraries in the place of CUDA's, with which onnxruntime-gpu loads models on a machine without a GPU."""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from pathlib import Path

import onnxruntime

from opbridge.errors import BuildError
from opbridge.kernels.build import build_parts
from opbridge.kernels.cache import cache_folder, fingerprint
from opbridge.kernels.compiler import Settings
from opbridge.runtimes.cuda_stand_in.elf import taken

__all__ = ["LIBRARIES_GIVEN", "environment", "problem"]

LIBRARIES_GIVEN = "OPBRIDGE_CUDA_LIBRARIES_GIVEN"
"""The environment variable of processes that find CUDA's libraries by LD_LIBRARY_PATH, and in no package."""

_SOURCE = Path(__file__).with_name("stand_in.cpp")
_OWN = re.compile(r"EXPORTED [^(]*?\b(\w+)\(")

_LIBRARIES = re.compile(r"lib(?:cu(?!dnn_)\w*|nv(?:infer|onnxparser)\w*)\.so[.\d]*")
_SYMBOLS = re.compile(r"(?:__cuda|cu[a-zA-Z]|getPluginRegistry|getInfer|createInfer|createNv)\w*")
"""What CUDA's and TensorRT's libraries have, of all that the providers take from others."""


def problem() -> str:
    """Why there cannot be such libraries on this machine, as the end of a sentence; "" where there can."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64", "aarch64"):
        return "without a GPU, where nodes run is known on Linux only"
    return ""


def environment(cuda_version: str) -> dict[str, str]:
    """The environment of a process that finds these libraries before CUDA's.

    Args:
        cuda_version: The version of CUDA that onnxruntime-gpu is compiled for, "13.0".

    Raises:
        BuildError: They cannot be built.
    """
    folder = str(_folder(cuda_version))
    others = os.environ.get("LD_LIBRARY_PATH", "")
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (folder, others))),
        LIBRARIES_GIVEN: "1",
        "OPBRIDGE_LIBCUDA": str(Path(folder) / "libcuda.so.1"),
    }


@functools.cache
def _folder(cuda_version: str) -> Path:
    """The folder with the libraries by their names; all are one."""
    providers = sorted((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime_providers_*.so"))
    found = [taken(each) for each in providers]
    libraries = {each for one in found for each in one.libraries if _LIBRARIES.fullmatch(each)} | {"libcuda.so.1"}
    symbols = {each for one in found for each in one.symbols if _SYMBOLS.fullmatch(each)}
    own = set(_OWN.findall(_SOURCE.read_text("utf-8")))
    number, _, minor = (cuda_version or "13.0").partition(".")
    text = "\n".join(
        [
            f"#define OPBRIDGE_CUDA_VERSION {int(number) * 1000 + int(minor.partition('.')[0] or 0) * 10}",
            f'#include "{_SOURCE}"',
            *(f"FUNCTION({each})" for each in sorted(symbols - own)),
            "",
        ]
    )
    folder = cache_folder() / "stand_in" / fingerprint([text], [_SOURCE])
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        source = folder / "cuda_stand_in.cpp"
        if not source.exists():
            _write(source, text)
        built = build_parts([source], settings=Settings(flags=("-O1", "-w")))
        for each in libraries:
            _link(built, folder / each)
    except OSError as error:
        raise BuildError(f"CUDA's libraries cannot be stood in for in {folder}: {error}.") from error
    return folder


def _write(path: Path, text: str) -> None:
    """Writes a file whole: another process may do the same."""
    own = path.with_name(f"{os.getpid()}.{path.name}")
    own.write_text(text, encoding="utf-8")
    os.replace(own, path)


def _link(target: Path, name: Path) -> None:
    """Gives a file a name, in the place of an older one."""
    own = name.with_name(f"{os.getpid()}.{name.name}")
    own.symlink_to(target)
    os.replace(own, name)
