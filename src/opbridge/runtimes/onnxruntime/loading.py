"""A model -> a session of ONNX Runtime."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from typing import Any

import onnxruntime

from opbridge.errors import ModelFileError, UsageError
from opbridge.kernels import aten as aten_kernel
from opbridge.kernels.triton import host
from opbridge.runtimes.onnxruntime import cuda_provider, integer_products, kernel_libraries
from opbridge.runtimes.onnxruntime.fatal_fusions import fatal_optimisations
from opbridge.runtimes.onnxruntime.kernel_table import CPU, LOG_NOTHING
from opbridge.runtimes.onnxruntime.model_file import checked_model, required_kernels
from opbridge.runtimes.onnxruntime.onnxruntime_private import ERRORS
from opbridge.runtimes.onnxruntime.processes import Session
from opbridge.runtimes.onnxruntime.refusals import explain_refusal

__all__ = ["DATA_FOLDER", "FLOAT_PRODUCTS", "LEVELS", "session"]

LEVELS = {
    "disabled": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
"""ONNX Runtime's levels of graph optimisations, by name."""

# By default, ONNX Runtime rounds what is multiplied with weights of 4 or 8 bits to 8 bits as well (level 4).
FLOAT_PRODUCTS = ("session.qdq_matmulnbits_accuracy_level", "1")

DATA_FOLDER = "session.model_external_initializers_file_folder_path"

_WITHOUT_KERNEL = "Could not find an implementation for"

# The `aten` nodes of older exporters, and nodes after them whose types cannot be inferred.
_UNTYPED_ATEN_NODES = re.compile(rf"{aten_kernel.OLDER_FORM}|Op \(ATen\) output arg .* type inference failed")


def session(
    path_or_bytes: str | os.PathLike[str] | bytes,
    *,
    kernels: Sequence[str | os.PathLike[str]] = (),
    providers: Sequence[str | tuple[str, dict[str, Any]]] | None = None,
    options: onnxruntime.SessionOptions | None = None,
    threads: int | None = None,
    aten: Sequence[str] = (),
    loaded: bool = False,
    optimised: bool | str = True,
    data_folder: str | None = None,
) -> onnxruntime.InferenceSession:
    """Loads a model into ONNX Runtime.

    Args:
        path_or_bytes: The path of an ONNX file, or the content of one.
        kernels: Libraries with kernels that the model needs. Those that come with opbridge need not be named.
        providers: The execution providers in the order of preference, as ONNX Runtime takes them; None: the CPU's. An
            execution provider that the installed ONNX Runtime lacks is an error; ONNX Runtime itself only warns.
        options: Session options, to which the kernel libraries are added, and with which the user may have registered
            kernels that opbridge does not know; None: the defaults, without log output, as every error is raised, with
            products of weights of 4 or 8 bits and floating numbers in float32, and with quantised nodes in float32
            where ONNX Runtime's products of int8 saturate on this processor.
        threads: The number of threads that an operator may use (intra_op_num_threads), also set on given `options`.
        aten: Operators that PyTorch may run for the model in addition to the default list, by name or pattern:
            "torchvision::*".
        loaded: Whether kernels are also looked for in the libraries that this process has loaded into PyTorch.
        optimised: Whether ONNX Runtime's graph optimisations are on, or a level of `LEVELS`; without `options` only.
        data_folder: The folder of the external data of a model that is given by its content. They stay mapped: kernels
            make no packed copies of them. Without `options` only.

    Raises:
        ModelFileError: The file is missing, damaged or no ONNX file, or ONNX Runtime refuses it.
        UsageError: An argument has the wrong type, or an execution provider is not available.
    """
    model, label = checked_model(path_or_bytes)
    providers = _checked_providers(providers)
    required = required_kernels(model)
    libraries = kernel_libraries.select(kernels, required, loaded=loaded)
    notes: list[str] = []
    if options is None:
        kernel_libraries.check_complete(label, required, libraries)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = LOG_NOTHING
        options.add_session_config_entry(*FLOAT_PRODUCTS)
        if list(providers) == [CPU] and integer_products.saturate(model):
            options.add_session_config_entry(*integer_products.FLOAT32)
            notes.append(integer_products.NOTE)
        if data_folder is not None:
            options.add_session_config_entry(DATA_FOLDER, data_folder)
            options.add_session_config_entry("session.disable_prepacking", "1")
        if optimised is not True:
            options.graph_optimization_level = LEVELS[optimised or "disabled"]
    kernel_libraries.register(options, libraries)
    if list(providers) == [CPU]:
        notes.append(host.run_on_cpu(libraries))
    if aten_kernel.NAME in required:
        kernel_libraries.register_aten(options, label, aten)
    if threads is not None:
        if threads < 0:
            raise UsageError(f"Invalid value threads={threads}; expected 1 or more, or 0 for one per core.")
        options.intra_op_num_threads = threads
    open_ = functools.partial(
        Session,
        options=options,
        has_aten=aten_kernel.NAME in required,
        providers=providers,
        disabled_optimizers=fatal_optimisations(model),
    )
    if cuda_provider.is_named(providers):
        cuda_provider.prepare(providers)
        open_ = functools.partial(open_, enable_fallback=0)  # else it prints, and goes on without the provider
    try:
        loaded = open_(model)
        cuda_provider.check_opened(loaded, providers)
        _check_text(loaded, label)
        loaded.note = "; ".join(filter(None, notes))
        return loaded
    except UnicodeDecodeError as error:  # the message has a name from the file, which is no text
        said = error.object.decode(errors="replace")
        raise ModelFileError(explain_refusal(model, label, said)) from error
    except ERRORS as error:
        found = _rewritten(model, str(error), options, providers)
        if found is None:
            of_cuda = cuda_provider.explained(str(error)) if cuda_provider.is_named(providers) else ""
            raise ModelFileError(of_cuda or explain_refusal(model, label, str(error))) from error
    content, note = found
    try:
        loaded = open_(content)
    except ERRORS as error:
        raise ModelFileError(explain_refusal(model, label, str(error))) from error
    loaded.note = "; ".join(filter(None, (note, *notes)))
    return loaded


def _rewritten(
    model: str | bytes, message: str, options: onnxruntime.SessionOptions, providers: Sequence[Any]
) -> tuple[bytes, str] | None:
    """A refused model in a form that ONNX Runtime runs, and what there is to say of that; None: there is none.

    Args:
        model: The path of the file, or its content.
        message: The refusal.
        options: The options of the session.
        providers: The execution providers.

    Raises:
        ModelFileError: The model cannot be read, or has malformed nodes.
    """
    if _UNTYPED_ATEN_NODES.search(message):
        # Imports torch, which the model needs anyway.
        from opbridge.nodes.aten_node.older_models import to_current_bytes

        return to_current_bytes(model), ""
    if _WITHOUT_KERNEL in message and list(providers) == [CPU]:
        from opbridge.runtimes.onnxruntime import missing_types  # a machine that only runs models may lack onnx_ir

        return missing_types.widened(model, options)
    return None


def _check_text(loaded: onnxruntime.InferenceSession, label: str) -> None:
    """Reads what a file says of itself, which fails where it is read first.

    Raises:
        ModelFileError: A name or an entry of the metadata is no text.
    """
    metadata = loaded.get_modelmeta()
    try:
        for name in ("producer_name", "graph_name", "domain", "description", "graph_description"):
            getattr(metadata, name)
        _ = metadata.custom_metadata_map
        for each in (*loaded.get_inputs(), *loaded.get_outputs()):
            _ = each.name, each.shape
    except UnicodeDecodeError as error:
        raise ModelFileError(
            f"{label} is damaged: {error.object.decode(errors='replace')!r} is a name or a metadata entry that is "
            "not valid UTF-8. Export the model again."
        ) from None


def _checked_providers(providers: Any) -> list[Any]:
    """The execution providers as a list.

    Raises:
        UsageError: The installed ONNX Runtime lacks one of them.
    """
    if providers is None:
        return [CPU]
    if isinstance(providers, str):
        providers = [providers]
    available = onnxruntime.get_available_providers()
    for provider in providers:
        name = provider[0] if isinstance(provider, tuple) else provider
        if name not in available:
            build = "a build of ONNX Runtime with that execution provider"
            if name == cuda_provider.CUDA:
                build = f"the one with CUDA: {cuda_provider.INSTALL}"
            raise UsageError(
                f"The installed ONNX Runtime ({onnxruntime.__version__}) has no execution provider {name!r}, only "
                f"{', '.join(available)}. Use one of these, or install {build.rstrip('.')}."
            )
    return list(providers)
