"""Which whole models cross to ONNX, and whether they are right: a sweep over the models of other packages.

In: families of models (timm, transformers, torchvision, ...), each read from its package's own registry.
Out: the outcome of every model, with its dynamic dimensions as its users want them.
May import: everything but cli.

from opbridge.coverage import models

if __name__ == "__main__":  # worker processes import the script again
    results = models.sweep("timm", dynamic="batch", output="models.json")
    print(results.summary())
"""

from __future__ import annotations

from opbridge.coverage.models.results import Results
from opbridge.coverage.models.sweep import sweep

__all__ = ["Results", "sweep"]
