"""Prints, in one line, the releases in an environment that the results of tests depend on.

python .ci/versions.py
"""

from __future__ import annotations

import importlib.metadata
import platform

_PACKAGES = (
    "torch",
    "torchvision",
    "onnxruntime",
    "onnx",
    "onnxscript",
    "onnx_ir",
    "transformers",
    "openvino",
    "MNN",
    "ncnn",
    "numpy",
)


def main() -> None:
    """The command line."""
    found = [f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    print(", ".join(found))


if __name__ == "__main__":
    main()
