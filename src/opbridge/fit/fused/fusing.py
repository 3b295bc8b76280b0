"""All fused forms, where they are asked for."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from onnx_ir.passes import common as passes

from opbridge.errors import ModelFileError, UsageError
from opbridge.fit.fused.cached_attention import Contiguous, fuse_attention
from opbridge.fit.fused.causal_attention import fuse_causal_attention
from opbridge.fit.fused.norms import fuse_norms
from opbridge.fit.fused.rotations import fuse_rotations
from opbridge.fit.fused.whole_attention import fuse_whole_attention
from opbridge.onnx import reading

__all__ = ["Fusing", "find_fusing", "fuse", "is_contiguous"]

_DOMAIN = "com.microsoft"
_TEXTS = "opbridge.texts"
_CONTIGUOUS = "contiguous"

_TARGETS = ("onnxruntime", "cuda")
_HALF = (ir.DataType.FLOAT16,)
_ON_CPU = (ir.DataType.FLOAT, *_HALF)


@dataclass(frozen=True)
class Fusing:
    """Which fused forms a model may have.

    Attributes:
        contiguous: What is stated of the texts that it runs on; None: nothing.
        attention: The types that the target computes GroupQueryAttention in. ONNX Runtime's kernel for CUDA takes
            float16 and not float32, so there a model of float32 has it where it is cast to float16 afterwards.
        whole: Whether attention without a cache and rotary embeddings are fused, which was measured in float32 on ONNX
            Runtime's CPU provider.
    """

    contiguous: Contiguous | None = None
    attention: Collection[ir.DataType] = _ON_CPU
    whole: bool = True


def find_fusing(fuse: bool | None, target: str | None, precision: str | None, longest: int | None) -> Fusing | None:
    """The fused forms that a model may have; None: none.

    Args:
        fuse: Whether the user wants any; None: where the target is named and has them, and in a folder for
            onnxruntime-genai.
        target: The name of the target.
        precision: The type that the model is cast to.
        longest: In such a folder, the most tokens of a text; else None.

    Raises:
        UsageError: The target has none.
    """
    name = (target or _TARGETS[0]).partition(":")[0]
    if fuse and name not in _TARGETS:
        raise UsageError(
            f"fuse=True (--fuse) supports the targets {' and '.join(_TARGETS)}, but target='{target}': the fused forms "
            "are operators of ONNX Runtime. Leave it out."
        )
    is_default = longest is not None or (target is not None and name in _TARGETS)
    if fuse is False or not (fuse or is_default):
        return None
    types = _HALF if name == "cuda" and precision != "float16" else _ON_CPU
    return Fusing(None if longest is None else Contiguous(longest), types, name == _TARGETS[0] and precision is None)


def fuse(model: ir.Model, fusing: Fusing, opset: int) -> str:
    """Fuses what ONNX Runtime has one kernel for, in place.

    Args:
        model: The model. The types of all its values are known.
        fusing: Which forms it may have.
        opset: The opset of the model.

    Returns:
        One sentence on what was fused; "": nothing was.
    """
    made = fuse_attention(model, opset, fusing.contiguous, fusing.attention)
    if made and fusing.contiguous is not None:
        model.metadata_props[_TEXTS] = _CONTIGUOUS
    if fusing.whole:
        for fuse_some in (fuse_causal_attention, fuse_whole_attention, fuse_rotations):
            passes.RemoveUnusedNodesPass()(model)  # what stands for them is not fused again
            made += fuse_some(model.graph, opset)
    made += fuse_norms(model.graph, opset)
    if not made:
        return ""
    if any(node.domain == _DOMAIN for node in model.graph):
        model.graph.opset_imports.setdefault(_DOMAIN, 1)
    passes.RemoveUnusedNodesPass()(model)
    model.graph.sort()
    said = ", ".join(f"{count} {name}" for name, count in made.items())
    return f"fused for ONNX Runtime: {said}; fuse=False (--no-fuse) keeps the nodes that they stand for"


def is_contiguous(model: Any) -> bool:
    """Whether a file has attention that takes contiguous texts only, which it says of itself.

    Args:
        model: Its path; of anything else, it is not.
    """
    if not isinstance(model, (str, os.PathLike)) or not os.path.isfile(model):
        return False
    try:
        return reading.load(os.fspath(model)).metadata_props.get(_TEXTS) == _CONTIGUOUS
    except ModelFileError:
        return False  # which is for the runtime to say
