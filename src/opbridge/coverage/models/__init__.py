"""Which whole models cross to ONNX, and whether they are right: a sweep over the models of other packages.

In: families of models (timm, transformers, torchvision, ...), each read from its package's own registry.
Out: the outcome of every model, with its dynamic dimensions as its users want them.
May import: everything but cli.
"""

from __future__ import annotations
