"""The packages that opbridge stands on: which releases work, and one error for those that are missing or too old.

pyproject.toml declares the same releases; a test compares them. Nothing is imported to find a release out where the
package is installed as pip does it, and little is looked up: a package that is imported says what it is.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from typing import Literal

from opbridge.errors import RequirementError

__all__ = ["REQUIREMENTS", "Use", "require"]

REQUIREMENTS = {
    "onnx": ">=1.20",
    "onnx_ir": ">=1.0,<2",
    "onnxruntime": ">=1.23",
    "onnxscript": ">=0.7",
    "torch": ">=2.13",
}
"""The releases that work, by the name of the package, which is that of its module."""

Use = Literal["export", "files", "run"]
"""To export a model, or ask PyTorch; to read, compare and change any ONNX file; to run one."""

_NEEDED: dict[Use, tuple[str, ...]] = {
    "export": ("torch", "onnx", "onnx_ir", "onnxruntime", "onnxscript"),
    "files": ("onnx", "onnx_ir", "onnxruntime"),
    "run": ("onnxruntime",),
}

_WORDS = {">=": "{} or newer", "<": "older than {}"}


def require(use: Use) -> None:
    """Looks whether the packages that something needs are installed, in releases that work.

    A release is judged by its number alone: 2.13.0rc1, 2.13.0+cpu and 2.13.0a0+git123 are all 2.13.0. A package that
    does not say what it is, as one that was never installed, is taken.

    Raises:
        RequirementError: Some are missing, too old or too new; the message names all of them, and what installs them.
    """
    unmet: dict[str, str | None] = {}
    for package in _NEEDED[use]:
        found = _release(package)
        if found is None or not _works(found, REQUIREMENTS[package]):
            unmet[package] = found
    if not unmet:
        return
    needs = " and ".join(_need(package, found) for package, found in unmet.items())
    install = " ".join(f"'{_to_install(package, found)}'" for package, found in unmet.items())
    without = " Running, linting, repairing and converting ONNX files do not require torch." if "torch" in unmet else ""
    raise RequirementError(
        f"This requires {needs}. Install with: pip install {install} (in the environment of "
        f"{sys.executable}).{without}",
        name=next(iter(unmet)),
    )


def _release(package: str) -> str | None:
    """The release of a package, as it says it; None where it is not there."""
    module = sys.modules.get(package)
    if module is None:
        if not _is_there(package):
            return None
        from importlib import metadata  # takes longer than `import opbridge`

        try:
            return str(metadata.version(package))
        except metadata.PackageNotFoundError:  # built in place, or of another name: onnxruntime-gpu
            module = importlib.import_module(package)
    return str(getattr(module, "__version__", ""))


def _is_there(package: str) -> bool:
    """Whether a module can be imported; a mere folder of its name is none."""
    try:
        spec = importlib.util.find_spec(package)
    except ImportError:
        return False
    return spec is not None and spec.origin is not None


def _works(release: str, bounds: str) -> bool:
    """Whether a release is within bounds such as ">=1.0,<2"."""
    said = re.match(r"v?\d+(\.\d+)*", release)
    if said is None:
        return True
    number = _number(said[0])
    return all(number >= _number(bound) if sign == ">=" else number < _number(bound) for sign, bound in _split(bounds))


def _split(bounds: str) -> list[tuple[str, str]]:
    return re.findall(r"(>=|<)([\d.]+)", bounds)


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.lstrip("v").split(".")))


def _need(package: str, found: str | None) -> str:
    """ "torch 2.13 or newer (2.11.0 is installed)" """
    works = " and ".join(_WORDS[sign].format(bound) for sign, bound in _split(REQUIREMENTS[package]))
    return f"{package} {works} ({'not' if found is None else found + ' is'} installed)"


def _to_install(package: str, found: str | None) -> str:
    """What pip is to install: by opbridge's own extra where there is no torch, as in the documentation."""
    return "opbridge[torch]" if package == "torch" and found is None else package + REQUIREMENTS[package]
