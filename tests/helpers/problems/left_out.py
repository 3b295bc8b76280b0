"""Reports without a model, each with the reason."""

from __future__ import annotations

__all__ = ["LEFT_OUT"]

_NOT_PUBLIC = "the pattern is in a model that is attached or linked, and not described"
_OLDER = "a fault of a release that is older than all that there are facts for"

LEFT_OUT = {
    "T25": f"{_OLDER} (TensorRT 7.0)",
    "V1": f"{_OLDER} (OpenVINO 2023, GPU)",
    "V4": f"{_NOT_PUBLIC}; that broadcasting is the trigger is a guess",
    "V6": _NOT_PUBLIC,
    "V7": _NOT_PUBLIC,
    "V8": "the releases with facts take these forms; the reports are of 2023",
    "V9": "the releases with facts take these forms of Einsum, since 2025.0",
    "V10": "of ONNX Runtime's OpenVINO provider, which has no facts; OpenVINO itself reads weights beside the file",
    "V11": _NOT_PUBLIC,
    "R5": f"{_NOT_PUBLIC}: a generated graph whose first run alone is wrong",
    "R7": "a fusion of a whole BERT on CUDA that is switched off by an option of the session; no form of a node",
    "R29": "the model computes what it was written to: the first image alone",
    "R30": "what is done to the inputs outside of the model",
    "W5": f"{_OLDER} (onnxruntime-web 1.17.1)",
    "W7": f"{_OLDER} (onnxruntime-web 1.16)",
    "W9": _NOT_PUBLIC,
    "C1": "a setting of the execution provider (RequireStaticInputShapes) decides, and no form of the model",
    "C2": "which partitions the provider takes is in its code alone, and not described",
}
"""By the reports' places in the list, why there is no model."""
