"""The files of a folder for onnxruntime-genai beside the model: genai_config.json and the tokenizer's."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import onnx_ir as ir

from opbridge.errors import SaveError
from opbridge.onnx.sink import write_failure
from opbridge.program import Program
from opbridge.runtimes.onnxruntime.loading import FLOAT_PRODUCTS
from opbridge.save import staging
from opbridge.save.replacing import Replacement
from opbridge.tasks import GenaiFolder

__all__ = ["CONFIG", "folder_of", "write_beside"]

CONFIG = "genai_config.json"


@contextlib.contextmanager
def folder_of(genai: GenaiFolder | None) -> Iterator[None]:
    """Within this context the folder is there; one that was made and is empty at the end is removed.

    Raises:
        SaveError: It cannot be made.
    """
    if genai is None or genai.path.is_dir():
        yield
        return
    try:
        genai.path.mkdir()
    except OSError as error:
        raise SaveError(f"The folder {genai.path} cannot be made ({error.strerror}). Give another path.") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            genai.path.rmdir()  # which fails if files are in it


def _shares_buffers(model: ir.Model) -> bool:
    """Whether all keys and values of the cache are read by nodes that write the new ones into their buffer."""
    cache = [each for each in model.graph.inputs if str(each.name).startswith("past_key_values.")]
    readers = [node for each in cache for node in each.consumers()]
    return bool(readers) and all(node.op_type == "GroupQueryAttention" for node in readers)


def _settings(model: ir.Model) -> dict[str, str]:
    """The settings of sessions: with quantized weights, products are computed in float32, as in PyTorch."""
    is_quantized = any(node.op_type == "DequantizeLinear" for node in model.graph)
    return dict([FLOAT_PRODUCTS]) if is_quantized else {}


def write_beside(program: Program, genai: GenaiFolder) -> None:
    """Writes genai_config.json beside a model that was saved, and copies the tokenizer's files.

    Raises:
        SaveError: They cannot be written.
    """
    inputs = [str(value.name) for value in program.model.graph.inputs]
    document = genai.document(inputs, shared_buffer=_shares_buffers(program.model), settings=_settings(program.model))
    contents = {CONFIG: (json.dumps(document, indent=4) + "\n").encode()}
    target = genai.path / CONFIG
    try:
        source = genai.path.resolve()
        contents |= {file.name: file.read_bytes() for file in genai.tokenizer if file.parent.resolve() != source}
        with Replacement(staging.make(genai.path)) as files:
            for name, content in contents.items():
                target = genai.path / name
                files.open(target, len(content)).write(memoryview(content))
            files.commit()
    except OSError as error:
        raise write_failure(target, error) from error
    program.files = [*program.files, *(genai.path / name for name in contents)]
