"""Targets whose facts are asked of what is installed: ONNX itself, and ONNX Runtime on the CPU."""

from __future__ import annotations

from opbridge.errors import UsageError
from opbridge.targets.ending import ENDING, ENDING_NUMBERS, ENDING_PATTERNS
from opbridge.targets.facts import Attribute, Fact, Kernels, Pattern
from opbridge.targets.target import Opsets, Target

__all__ = ["NAMES", "is_installed", "target"]

NAMES = ("onnx", "onnxruntime")


def target(name: str, version: str) -> Target:
    """One of these targets.

    Args:
        name: "onnx", whose versions are opsets, or "onnxruntime".
        version: The opset; of ONNX Runtime the installed release; "" for the newest.

    Raises:
        UsageError: There is no such opset, or another release is installed.
    """
    return _onnx(version) if name == "onnx" else _onnxruntime(version)


def is_installed(name: str, version: str) -> bool:
    """Whether a version of a target is the installed one."""
    from opbridge.targets import onnxruntime

    return name == "onnxruntime" and version == onnxruntime.version()


def _onnx(version: str) -> Target:
    import onnx

    newest = onnx.defs.onnx_opset_version()
    versions = [str(each) for each in range(1, newest + 1)]
    if version and version not in versions:
        raise UsageError(
            f"onnx:{version} is not an opset of the installed onnx {onnx.__version__}, which has opsets 1 to {newest}."
        )
    chosen = int(version or newest)
    source = f"asked: onnx {onnx.__version__}"
    ir_version = _ir_version(chosen)
    return Target(
        "onnx",
        "The specification of ONNX, by opset",
        str(chosen),
        "",
        versions,
        Opsets(1, chosen, ir_version, source),
        [],
    )


def _ir_version(opset: int) -> int | None:
    """The version of the format that a release of ONNX has whose newest opset this is."""
    import onnx.helper

    found = [row[1] for row in onnx.helper.VERSION_TABLE if row[2] == opset]
    return max(found) if found else None


def _onnxruntime(version: str) -> Target:
    from opbridge.targets import onnxruntime

    installed = onnxruntime.version()
    if version and version != installed:
        raise UsageError(
            f"The facts of onnxruntime come from the installed version, which is {installed}, not {version}. "
            f"Install that version (pip install onnxruntime=={version}), or leave the version out."
        )
    source = f"asked: onnxruntime {installed}"
    opsets = Opsets(1, onnxruntime.newest_opset(), None, source)
    facts: list[Fact] = [
        Kernels(source=source, lacks=onnxruntime.lacks_kernel, has=onnxruntime.has_operator, cast=onnxruntime.CASTS),
        Attribute(
            operators=("RNN", "GRU", "LSTM"),
            attribute="layout",
            allowed=(0,),
            source="measured: ONNX's node tests on onnxruntime 1.32.0",
        ),
        *ENDING,
        *ENDING_NUMBERS,
        *ENDING_PATTERNS,
    ]
    if onnxruntime.loses_factors():
        facts.append(Pattern(rule="reciprocal-factor", source=f"{source} (microsoft/onnxruntime, issue 32416)"))
    return Target("onnxruntime", "ONNX Runtime on the CPU", installed, "", [installed], opsets, facts)
