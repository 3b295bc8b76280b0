"""ONNX Runtime: sessions, and which kernels it has. The only module that touches it."""

from __future__ import annotations

import bisect
import functools
import mmap
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as _native

from opbridge.errors import ModelFileError, UsageError
from opbridge.kernels import aten as aten_kernel
from opbridge.kernels import library
from opbridge.kernels.library import Library
from opbridge.kernels.shipped import shipped
from opbridge.saving.wire import GRAPH, METADATA, OPSET, fields, lead

__all__ = ["Kernel", "cpu_kernels", "has_schema", "newest_opset", "session"]

_CPU = "CPUExecutionProvider"
_SILENT = 4  # whatever it would log as an error is raised too
_OPEN_END = 2**31 - 1

# Its errors share no base class but Exception.
_REFUSALS: tuple[type[Exception], ...] = (
    RuntimeError,
    *(error for error in vars(_native).values() if isinstance(error, type) and issubclass(error, Exception)),
)


def session(
    path_or_bytes: str | os.PathLike[str] | bytes,
    *,
    kernels: Sequence[str | os.PathLike[str]] = (),
    providers: Sequence[str | tuple[str, dict[str, Any]]] | None = None,
    options: onnxruntime.SessionOptions | None = None,
    threads: int | None = None,
    aten: Sequence[str] = (),
    loaded: bool = False,
) -> onnxruntime.InferenceSession:
    """Loads a model into ONNX Runtime.

    Args:
        path_or_bytes: An ONNX file, or the content of one that keeps its weights inside.
        kernels: Libraries with kernels that the model needs; those that come with opbridge are found without.
        providers: The execution providers, the preferred one first, as ONNX Runtime takes them; None: the CPU's. One
            that the installed ONNX Runtime lacks is an error here, and not passed over.
        options: Session options, with the kernel libraries that the model needs registered; None: ONNX Runtime's own,
            without log output, as every error is raised.
        threads: How many threads an operator may use; set on `options` where both are given.
        aten: Operators that PyTorch may run for the model, beside those that it may in any case, by name or pattern:
            "torchvision::*".
        loaded: Whether the libraries that this process has loaded into PyTorch are taken as well.

    Raises:
        ModelFileError: The file is missing, damaged or no ONNX file, or ONNX Runtime refuses it.
        UsageError: An argument of the wrong kind, or a provider that is not there.
    """
    model, label = _model(path_or_bytes)
    providers = _checked_providers(providers)
    noted = _noted(model)
    libraries = _libraries(kernels, noted, loaded)
    if options is None:
        _refuse_missing(label, noted, libraries)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _SILENT
    _register(options, libraries)
    if aten_kernel.NAME in noted:
        _register_aten(options, label, aten)
    if threads is not None:
        if threads < 0:
            raise UsageError(f"threads={threads} is no number of threads; give 1 or more, or 0 for one a core.")
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except _REFUSALS as error:
        if not _WITHOUT_TYPES.search(str(error)):
            raise ModelFileError(_explain(model, label, str(error))) from error
    from opbridge.aten_older import rewritten  # it needs torch, which the model needs too

    try:
        return onnxruntime.InferenceSession(rewritten(model), options, providers=providers)
    except _REFUSALS as error:
        raise ModelFileError(_explain(model, label, str(error))) from error


def _noted(model: str | bytes) -> list[str]:
    """The kernels that a model says it needs; aten nodes also where somebody else wrote it."""
    try:
        if isinstance(model, bytes):
            return _needed(model)
        with open(model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _needed(content)
    except (ValueError, IndexError):  # it is damaged, as ONNX Runtime will say
        return []


def _needed(content: bytes | mmap.mmap) -> list[str]:
    noted = _metadata(content, b"opbridge.kernels").split()
    if aten_kernel.NAME not in noted:
        domain = aten_kernel.DOMAIN.encode()
        entries = (
            fields(content, start, stop) for number, start, stop in fields(content, 0, len(content)) if number == OPSET
        )
        if any(content[begin:end] == domain for entry in entries for field, begin, end in entry if field == 1):
            noted.append(aten_kernel.NAME)
    return noted


def _libraries(kernels: Any, noted: Sequence[str], loaded: bool) -> list[Library]:
    """The libraries to register, each once: those that are named, and those at hand that the model needs."""
    if isinstance(kernels, (str, os.PathLike)):
        kernels = [kernels]
    found = {each.path: each for each in map(library.open_library, kernels)}
    having = {name for each in found.values() for name in each.names}
    for name in noted:
        if name in having or name == aten_kernel.NAME or has_schema(*name.split("::", 1)):
            continue
        at_hand = (each for libraries in (library.loaded, library.builtin)[not loaded :] for each in libraries())
        other = next((each for each in at_hand if name in each.names), None)
        if other is not None:
            found[other.path] = other
            having |= other.names
    first: dict[str, Library] = {}
    for each in found.values():
        for name in each.names:
            if first.setdefault(name, each) is not each:
                raise UsageError(f"{first[name].path} and {each.path} both have the kernel {name}. Leave one out.")
    return list(found.values())


def _refuse_missing(label: str, noted: Sequence[str], libraries: Sequence[Library]) -> None:
    """Says which kernels a model needs and has not got, unless a library keeps to itself what it has."""
    having = {name for each in libraries for name in each.names}
    missing = [
        name
        for name in noted
        if name not in having and name != aten_kernel.NAME and not has_schema(*name.split("::", 1))
    ]
    if missing and all(each.is_ours for each in libraries):
        raise ModelFileError(
            f"{label} was exported to run with kernels for {', '.join(missing)}, which neither {_RUNTIME} nor a "
            "library that was named has. Name the libraries that do in kernels=[...]."
        )


def _register(options: onnxruntime.SessionOptions, libraries: Sequence[Library]) -> None:
    """Registers libraries with a session's options, once however many sessions those are used for."""
    names = [str(each.path) for each in libraries]
    if not names or _registered_with(options) == ":".join(names):
        return
    ours = [each for each in libraries if each.is_ours]
    if ours:
        # ONNX Runtime takes a domain from one library only, so the first one registers those of the others as well.
        ours[0].register_with(ours[1:])
    for each in [*ours[:1], *(other for other in libraries if not other.is_ours)]:
        try:
            options.register_custom_ops_library(str(each.path))
        except _REFUSALS as error:
            reason = " ".join(_NOISE.sub("", str(error)).split()).rstrip(".")
            raise UsageError(f"{_RUNTIME} does not take {each.path} as a library of kernels: {reason}.") from error
    options.add_session_config_entry(_REGISTERED, ":".join(names))


def _register_aten(options: onnxruntime.SessionOptions, label: str, patterns: Sequence[str]) -> None:
    """Registers the library that hands operators to libtorch, once for a session's options."""
    patterns = [patterns] if isinstance(patterns, str) else patterns
    allowed = _patterns(patterns)
    if registered := _entry(options, _WITH_ATEN):
        if allowed and registered != f"for {allowed}":
            raise UsageError(
                f"These session options were used {registered or 'before'}, and aten= names {allowed}. Give new ones."
            )
        return
    aten_kernel.load_torch(label, _entry(options, aten_kernel.LIBTORCH))
    given = _patterns([*_entry(options, aten_kernel.PATTERNS).split(","), *patterns])
    if given:
        options.add_session_config_entry(aten_kernel.PATTERNS, given)
    options.register_custom_ops_library(str(shipped(aten_kernel.LIBRARY)))
    options.add_session_config_entry(_WITH_ATEN, f"for {allowed}")


def _patterns(patterns: Sequence[str]) -> str:
    """Checked, as the library takes them."""
    found = [str(each).strip() for each in patterns]
    wrong = next((each for each in found if each and not re.fullmatch(r"[\w.*]+(::[\w.*]+)?", each)), None)
    if wrong is not None:
        raise UsageError(
            f"aten= names {wrong!r}, which is no operator. Give names as 'torchvision::nms', or patterns as "
            "'torchvision::*'."
        )
    return ",".join(each for each in found if each)


_REGISTERED = "opbridge.kernels"
_WITH_ATEN = "opbridge.with_aten"


def _registered_with(options: onnxruntime.SessionOptions) -> str:
    return _entry(options, _REGISTERED)


def _entry(options: onnxruntime.SessionOptions, key: str) -> str:
    try:
        return str(options.get_session_config_entry(key))
    except _REFUSALS:
        return ""


class Kernel(NamedTuple):
    """A kernel of ONNX Runtime.

    Attributes:
        since: The first opset whose nodes it runs.
        until: The last one.
        types: By type variable of the operator's schema, the types that it takes, as in 'tensor(float)'.
    """

    since: int
    until: int
    types: Mapping[str, frozenset[str]]


@functools.cache
def cpu_kernels(domain: str = "") -> Mapping[str, tuple[Kernel, ...]]:
    """The CPU's kernels of one operator domain, by operator.

    The opsets are those of models, and not of schemas: a kernel that ONNX Runtime registers "from opset 16 on" runs
    no node of opset 22, if the operator's schema changed there. An operator that is not here may still run, if ONNX
    defines it as a function of others (CastLike, Mish).

    Args:
        domain: "" for the standard operators, or for example "com.microsoft".
    """
    schemas = _schema_versions(domain)
    newest = max((versions[-1] for versions in schemas.values()), default=1)
    kernels: dict[str, list[Kernel]] = {}
    for definition in _native.get_all_opkernel_def():
        if definition.domain != domain or definition.provider != _CPU:
            continue
        since, until = definition.version_range
        span = _span(since, until, schemas.get(definition.op_name, []), newest)
        if span is not None:
            types = {variable: frozenset(names) for variable, names in definition.type_constraints.items()}
            kernels.setdefault(definition.op_name, []).append(Kernel(*span, types))
    return {name: tuple(found) for name, found in kernels.items()}


def _span(since: int, until: int, versions: list[int], newest: int) -> tuple[int, int] | None:
    """The opsets in which a kernel that was registered for `since` to `until` is found.

    A node counts by the version of its schema, and an open end stands for the schema of `since` alone.

    Args:
        since: The first version of the registration.
        until: The last one, or `_OPEN_END`.
        versions: The versions of the operator's schema, ascending.
        newest: The newest opset of the domain.
    """
    if until == _OPEN_END:
        until = since
    covered = versions[bisect.bisect_left(versions, since) : bisect.bisect_right(versions, until)]
    if not covered:
        return None
    after = versions[bisect.bisect_right(versions, until) :]
    return covered[0], after[0] - 1 if after else newest


@functools.cache
def _schema_versions(domain: str) -> dict[str, list[int]]:
    versions: dict[str, list[int]] = {}
    for schema in _native.get_all_operator_schema():
        if schema.domain == domain:
            versions.setdefault(schema.name, []).append(schema.since_version)
    return {name: sorted(found) for name, found in versions.items()}


def has_schema(domain: str, op_type: str) -> bool:
    """Whether ONNX Runtime itself defines an operator, in any version."""
    return op_type in _schema_versions(domain)


@functools.cache
def newest_opset() -> int:
    """The newest opset whose models the installed ONNX Runtime loads.

    Its schemas may go further, to an opset that was still being written when it was released. That it loads an opset
    does not mean that it has a kernel for each of its operators; `cpu_kernels` tells.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    opset = max(versions[-1] for versions in _schema_versions("").values())
    while opset > 1:
        try:
            onnxruntime.InferenceSession(_identity_model(opset), options, providers=[_CPU])
            break
        except _REFUSALS:
            opset -= 1
    return opset


def _identity_model(opset: int) -> bytes:
    """A model of one Identity, by hand: a machine that runs models need not have the onnx package."""

    def message(field: int, content: bytes) -> bytes:
        return lead(field, len(content)) + content

    float_type = message(2, message(1, b"\x08\x01"))
    node = message(1, b"x") + message(2, b"y") + message(4, b"Identity")
    graph = message(1, node) + message(2, b"g")
    graph += message(11, message(1, b"x") + float_type) + message(12, message(1, b"y") + float_type)
    return b"\x08\x08" + message(8, b"\x10" + bytes([opset])) + message(GRAPH, graph)


def _model(path_or_bytes: Any) -> tuple[str | bytes, str]:
    """What ONNX Runtime takes, and what to call it."""
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        return bytes(path_or_bytes), "The model in memory"
    try:
        path = os.fsdecode(path_or_bytes)
    except TypeError:
        raise UsageError(
            f"A model is loaded from a path or from bytes, not from {type(path_or_bytes).__name__}; give an ONNX "
            "file, or its content."
        ) from None
    try:
        with open(path, "rb") as file:
            if not file.read(1):
                raise ModelFileError(f"{path} is empty, so it is no ONNX model. Export or copy it again.")
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {path}. Export the model first, or correct the path.") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a folder. Name the ONNX file in it.") from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read ({error}). Look into that, or name another file.") from None
    return path, path


def _checked_providers(providers: Any) -> list[Any]:
    if providers is None:
        return [_CPU]
    if isinstance(providers, str):
        providers = [providers]
    available = onnxruntime.get_available_providers()
    for provider in providers:
        name = provider[0] if isinstance(provider, tuple) else provider
        if name not in available:
            raise UsageError(
                f"This ONNX Runtime ({onnxruntime.__version__}) has no execution provider {name!r}, only "
                f"{', '.join(available)}. Choose one of these, or install the build of ONNX Runtime that has it."
            )
    return list(providers)


_RUNTIME = f"ONNX Runtime {onnxruntime.__version__}"

# Aten nodes of older exporters, and others whose outputs have lost their types.
_WITHOUT_TYPES = re.compile(rf"{aten_kernel.OLDER_FORM}|Op \(ATen\) output arg .* type inference failed")
# What the library for aten nodes says of one.
_NOT_FOR_LIBTORCH = re.compile(r"Exception during initialization: (?P<words>(\w+::[\w.]+|an aten node): .*)", re.S)
_UNKNOWN_OPERATOR = re.compile(r"Fatal error: (?P<domain>\S*):(?P<name>[^\s:(]+)\(.*is not a registered function/op")
_UNKNOWN_IN_OPSET = re.compile(
    r"Op registered for (?P<name>\S+) (?:with|is deprecated in) domain_version of (?P<opset>\d+)"
)
_UNDECLARED = re.compile(
    r'In Node, \("[^"]*", (?P<name>[^,]+), .*No opset import for domain \'(?P<domain>[^\']*)\'', re.S
)
_NO_KERNEL = re.compile(
    r"(?:Could not find an implementation|Failed to find kernel) for (?:(?P<domain>\S+)\.)?(?P<name>[^\s(.]+)"
    r"\((?P<version>\d+)\)(?: node with name | \(node:)?(?:'(?P<node>[^']*)')?"
)
_OPSET = re.compile(r"Opset (?P<found>\d+) is under development.*support for domain \S+ is till opset (?P<newest>\d+)")
_IR_VERSION = re.compile(r"Unsupported model IR version: (?P<found>\d+), max supported IR version: (?P<newest>\d+)")
_NO_WEIGHTS = re.compile(r'External data path does not exist: "(?P<path>[^"]*)"')
_SHORT_WEIGHTS = re.compile(r"External initializer: (?P<name>\S*) offset: .* are out of bounds")
# Its status code, and the C++ function that a message starts with, up to the closing parenthesis of its parameters.
_NOISE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : |/\S+:\d+ [^\n]*\)(?: \[with [^\]]*\])? ")

_BRING_KERNEL = (
    "Register the shared library that has it (kernels=[...] here, or options.register_custom_ops_library), or export "
    "the model again by another route"
)


def _explain(model: str | bytes, label: str, message: str) -> str:
    """One paragraph on why ONNX Runtime refused a model, and what to do."""
    if "INVALID_PROTOBUF" in message or "No graph was found" in message:
        return _explain_damage(model, label)
    if found := _UNKNOWN_OPERATOR.search(message):
        return (
            f"{label} needs the operator {found['domain']}::{found['name']}, which {_RUNTIME} does not have. "
            f"{_noted_kernels(model)}{_BRING_KERNEL}, one that builds it from standard operators."
        )
    if found := _UNKNOWN_IN_OPSET.search(message):
        return f"{label} {_explain_unknown(found['name'], int(found['opset']))}"
    if found := _UNDECLARED.search(message):
        return (
            f"{label} uses the operator {found['domain']}::{found['name']} and does not say of which version, as an "
            f"ONNX model must (opset_import has no entry for {found['domain']!r}). Add one, or export the model again."
        )
    if found := _NOT_FOR_LIBTORCH.search(message):
        return f"{label} cannot be loaded: {' '.join(found['words'].split()).rstrip('.')}."
    if found := _NO_KERNEL.search(message):
        return f"{label} {_explain_no_kernel(**found.groupdict())}"
    if found := _OPSET.search(message):
        return (
            f"{label} is of opset {found['found']}, and {_RUNTIME} runs models up to opset {found['newest']}. Install "
            f"a newer onnxruntime, or export the model with opset_version={found['newest']} or lower."
        )
    if found := _IR_VERSION.search(message):
        return (
            f"{label} is of ONNX's IR version {found['found']}, and {_RUNTIME} reads versions up to "
            f"{found['newest']}. Install a newer onnxruntime, or save the model with a lower ir_version."
        )
    if found := _NO_WEIGHTS.search(message):
        where = "in the working directory" if isinstance(model, bytes) else "beside it"
        name = os.path.basename(found["path"])
        return (
            f"{label} keeps its weights in a file of their own, {name}, which is not {where}. Copy that file along "
            "with the model."
        )
    if found := _SHORT_WEIGHTS.search(message):
        return (
            f"{label} keeps its weights in a file of their own, which ends before the weight {found['name']} does. "
            "Copy that file again, or export the model again."
        )
    reason = " ".join(_NOISE.sub("", message).split()).rstrip(".")
    return f"{_RUNTIME} refuses {_mid_sentence(label)}: {reason}. Export the model again, or correct that in the file."


def _explain_damage(model: str | bytes, label: str) -> str:
    if isinstance(model, bytes):
        content, size = model, len(model)
    else:
        with open(model, "rb") as file:
            content, size = file.read(1 << 16), os.path.getsize(model)
    what = "it is no ONNX file, or is damaged. Copy or export it again"
    if b"git-lfs" in content[:64]:
        what = "it is a Git LFS pointer that stands in for the file. Fetch the file with git lfs pull"
    elif content.startswith(b"PK\x03\x04"):
        what = "it is a zip archive, perhaps a checkpoint or a program that torch saved. Export that model to ONNX"
    elif missing := _missing_bytes(content, size):
        what = f"it was cut off, and at least {missing:,} bytes are missing. Copy or export it again"
    return f"{label} cannot be read: {what}."


def _noted_kernels(model: str | bytes) -> str:
    """What opbridge noted in a model that needs more kernels than one, as a sentence."""
    names = _noted(model)
    return f"It was exported to run with kernels for {', '.join(names)}. " if len(names) > 1 else ""


def _metadata(content: bytes | mmap.mmap, key: bytes) -> str:
    """A value of a model's metadata; "" where it has none of that key."""
    for number, start, stop in fields(content, 0, len(content)):
        if number == METADATA:
            entry = {field: content[begin:end] for field, begin, end in fields(content, start, stop)}
            if entry.get(1) == key:
                return entry.get(2, b"").decode(errors="replace")
    return ""


def _missing_bytes(content: bytes, size: int) -> int | None:
    """How many bytes a model that starts like one lacks at its end; None if it does not look like a model cut off."""
    try:
        for number, _, stop in fields(content, 0, size):
            if stop > size:
                return stop - size if number == GRAPH else None
    except (ValueError, IndexError):
        pass
    return None


def _explain_unknown(name: str, opset: int) -> str:
    versions = _schema_versions("").get(name)
    if versions and versions[0] > opset:
        return (
            f"is of opset {opset} and uses the operator {name}, which ONNX has since opset {versions[0]}. Export the "
            f"model with opset_version={versions[0]} or higher."
        )
    if versions:
        return (
            f"is of opset {opset} and uses the operator {name}, which ONNX has no longer in that opset. Export the "
            "model again for this opset."
        )
    return f"uses the operator {name}, which {_RUNTIME} does not know. {_BRING_KERNEL}, or install a newer onnxruntime."


def _explain_no_kernel(domain: str | None, name: str, version: str, node: str | None) -> str:
    where = f" (node {node!r})" if node else ""
    kernels = cpu_kernels(domain or "").get(name) or ()
    usable = [kernel for kernel in kernels if kernel.since <= int(version) <= kernel.until]
    if usable:
        taken: dict[str, set[str]] = {}
        for kernel in usable:
            for variable, names in kernel.types.items():
                taken.setdefault(variable, set()).update(names)
        types = "; ".join(f"{variable}: {', '.join(sorted(taken[variable]))}" for variable in sorted(taken))
        return (
            f"uses the operator {name}{where} with types for which {_RUNTIME} has no kernel; it has some for {types}. "
            "Export the model in one of these types, with a conversion around the operator, or choose another provider."
        )
    if kernels:
        newest = max(kernel.until for kernel in kernels)
        return (
            f"uses the operator {name}{where} as it is since opset {version}, and {_RUNTIME} has kernels for it up to "
            f"opset {newest} only. Export the model with opset_version={newest} or lower."
        )
    return f"uses the operator {name}{where}, for which {_RUNTIME} has no kernel on the CPU. {_BRING_KERNEL}."


def _mid_sentence(label: str) -> str:
    return label[0].lower() + label[1:] if label.startswith("The ") else label
