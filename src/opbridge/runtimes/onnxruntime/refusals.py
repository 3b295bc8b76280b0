"""Why ONNX Runtime refused a model, and what to do, from the text of its error."""

from __future__ import annotations

import os
import re

import onnxruntime

from opbridge.base.wording import listed
from opbridge.runtimes.onnxruntime.kernel_table import cpu_kernels, schema_versions
from opbridge.runtimes.onnxruntime.model_file import damage, required_kernels

__all__ = ["RUNTIME", "explain_refusal", "plain_message"]

RUNTIME = f"ONNX Runtime {onnxruntime.__version__}"

# The message of the library for `aten` nodes about one of them.
_NOT_FOR_LIBTORCH = re.compile(r"Exception during initialization: (?P<message>(\w+::[\w.]+|an aten node): .*)", re.S)
_UNKNOWN_OPERATOR = re.compile(r"Fatal error: (?P<domain>\S*):(?P<name>[^\s:(]+)\(.*is not a registered function/op")
_UNKNOWN_IN_OPSET = re.compile(
    r"Op registered for (?P<name>\S+) (?:with|is deprecated in) domain_version of (?P<opset>\d+)"
)
_UNDECLARED = re.compile(
    r'In Node, \("[^"]*", (?P<name>[^,]+), .*No opset import for domain \'(?P<domain>[^\']*)\'', re.S
)
_NO_GRAPH = re.compile(r"No graph was found|ModelProto does not have a graph")
_NO_KERNEL = re.compile(
    r"(?:Could not find an implementation|Failed to find kernel) for (?:(?P<domain>\S+)\.)?(?P<name>[^\s(.]+)"
    r"\((?P<version>\d+)\)(?: node with name | \(node:)?(?:'(?P<node>[^']*)')?"
)
# With two execution providers, a node that neither takes.
_UNPLACED = re.compile(r"Provider type for (?P<name>\S+) node with name '(?P<node>[^']*)' is not set")
_OPSET = re.compile(r"Opset (?P<found>\d+) is under development.*support for domain \S+ is till opset (?P<newest>\d+)")
_IR_VERSION = re.compile(r"Unsupported model IR version: (?P<found>\d+), max supported IR version: (?P<newest>\d+)")
# The second message is that of ONNX Runtime 1.23.
_NO_WEIGHTS = re.compile(
    r'(?:External data path does not exist: "|cannot get file size: No such file or directory \[)(?P<path>[^]"]*)["\]]'
)
_SHORT_WEIGHTS = re.compile(r"External initializer: (?P<name>\S*) offset: .* are out of bounds")
# The status code, and the C++ function that a message starts with, up to the closing parenthesis of its parameters.
_NOISE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : |/\S+:\d+ [^\n]*\)(?: \[with [^\]]*\])? ")

# Names in a file, which ONNX Runtime repeats, may have megabytes.
_LONGEST_READ, _LONGEST_SAID = 20_000, 2_000

_BRING_KERNEL = (
    "Register the shared library that contains it (kernels=[...], or options.register_custom_ops_library), or "
    "export the model again by another route"
)


def explain_refusal(model: str | bytes, label: str, message: str) -> str:
    """One paragraph on why ONNX Runtime refused a model, and what to do.

    Args:
        model: The path of the file, or its content.
        label: The model's name in messages.
        message: The text of ONNX Runtime's error.
    """
    message = message[:_LONGEST_READ]
    if "INVALID_PROTOBUF" in message or _NO_GRAPH.search(message):
        return damage(model, label)
    if found := _UNKNOWN_OPERATOR.search(message):
        return (
            f"{label} requires the operator {found['domain']}::{found['name']}, which is not registered in "
            f"{RUNTIME}. {_required_sentence(model)}{_BRING_KERNEL}, one that builds it from standard operators."
        )
    if found := _UNKNOWN_IN_OPSET.search(message):
        return f"{label} {_explain_unknown(found['name'], int(found['opset']))}"
    if found := _UNDECLARED.search(message):
        return (
            f"{label} uses the operator {found['domain']}::{found['name']} without its version (opset_import has "
            f"no entry for {found['domain']!r}). Add one, or export the model again."
        )
    if found := _NOT_FOR_LIBTORCH.search(message):
        return f"{label} cannot be loaded: {' '.join(found['message'].split()).rstrip('.')}."
    if found := _NO_KERNEL.search(message):
        return f"{label} {_explain_no_kernel(**found.groupdict())}"
    if found := _UNPLACED.search(message):
        where = f" (node {found['node']!r})" if found["node"] else ""
        return (
            f"{label} uses the operator {found['name']}{where} with types or in a version for which {RUNTIME} has no "
            "kernel, neither on the GPU nor on the CPU. Cast the operator's inputs to another type before the export."
        )
    if found := _OPSET.search(message):
        return (
            f"{label} has opset {found['found']}, but {RUNTIME} supports up to opset {found['newest']}. Install a "
            f"newer onnxruntime, or export the model with opset_version={found['newest']} or lower."
        )
    if found := _IR_VERSION.search(message):
        return (
            f"{label} has IR version {found['found']}, but {RUNTIME} supports up to {found['newest']}. Install a "
            "newer onnxruntime, or save the model with a lower ir_version."
        )
    if found := _NO_WEIGHTS.search(message):
        where = "in the working directory" if isinstance(model, bytes) else "beside it"
        name = os.path.basename(found["path"])
        return (
            f"{label} stores its weights in the file {name}, which is not {where}. Copy that file together with "
            "the model."
        )
    if found := _SHORT_WEIGHTS.search(message):
        return (
            f"{label} stores its weights in a separate file, which is too short for the weight {found['name']}. "
            "Copy that file again, or export the model again."
        )
    return (
        f"{RUNTIME} cannot load {_mid_sentence(label)}: {plain_message(message)}. Export the model again, or "
        "correct the file."
    )


def plain_message(message: str) -> str:
    """A message of ONNX Runtime on one line, without status code and C++ function."""
    said = " ".join(_NOISE.sub("", message).split()).rstrip(".")
    return said if len(said) <= _LONGEST_SAID else f"{said[:_LONGEST_SAID]}..."


def _required_sentence(model: str | bytes) -> str:
    """The sentence that names the kernels that a model needs; "" where it is one at most."""
    names = required_kernels(model)
    return f"It requires kernels for {listed(names, 10)}. " if len(names) > 1 else ""


def _explain_unknown(name: str, opset: int) -> str:
    versions = schema_versions("").get(name)
    if versions and versions[0] > opset:
        return (
            f"has opset {opset} but uses the operator {name}, which was added to ONNX in opset {versions[0]}. "
            f"Export the model with opset_version={versions[0]} or higher."
        )
    if versions:
        return (
            f"has opset {opset} but uses the operator {name}, which was removed from ONNX before that opset. "
            "Export the model again for this opset."
        )
    return f"uses the operator {name}, which is unknown to {RUNTIME}. {_BRING_KERNEL}, or install a newer onnxruntime."


def _explain_no_kernel(domain: str | None, name: str, version: str, node: str | None) -> str:
    where = f" (node {node!r})" if node else ""
    kernels = cpu_kernels(domain or "").get(name) or ()
    same_opset = [kernel for kernel in kernels if kernel.since <= int(version) <= kernel.until]
    if same_opset:
        taken: dict[str, set[str]] = {}
        for kernel in same_opset:
            for variable, names in kernel.types.items():
                taken.setdefault(variable, set()).update(names)
        types = "; ".join(f"{variable}: {', '.join(sorted(taken[variable]))}" for variable in sorted(taken))
        return (
            f"uses the operator {name}{where} with types for which {RUNTIME} has no kernel; supported types are "
            f"{types}. Cast the operator's inputs to a supported type before the export, or use another execution "
            "provider."
        )
    if kernels:
        newest = max(kernel.until for kernel in kernels)
        return (
            f"uses the operator {name}{where} in its version of opset {version}, but {RUNTIME} has kernels for it "
            f"only up to opset {newest}. Export the model with opset_version={newest} or lower."
        )
    return f"uses the operator {name}{where}, for which {RUNTIME} has no kernel on the CPU. {_BRING_KERNEL}."


def _mid_sentence(label: str) -> str:
    """The model's name within a sentence: "the model in memory"."""
    return label[0].lower() + label[1:] if label.startswith("The ") else label
