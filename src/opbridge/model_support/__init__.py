"""What is known of packages that models use and that opbridge does not need: one folder for each package.

In: models, and values of such packages among their inputs.
Out: replacements of the packages' functions while a model is captured; their caches as containers of tensors.
May import: base.

What is known of a package is data (`entries`), found through an entry point (`registry`), so that a package can bring
its own. opbridge's own are found in the same way, and no stage imports from a package's folder: only the task of text
generation does, which is one of transformers.

| module | |
| --- | --- |
| entries | what a package's support is made of |
| registry | the supports of packages that are installed |
| applying | what is known, applied while a model is captured |
| caches, cache_adapters | caches as containers of tensors |
| changed_sources | the functions whose sources are others in the installed release |
| comparison | functions and their replacements on the inputs of their entries |
| holders | where functions are held, under whatever name |
| fingerprints | what tells the source of a function from others |
| package_sources | the sources of the functions of a package that is not imported |
| model_modules | the modules of Python that a model's classes come from |
| transformers/, einx/, torchvision/ | the packages |
"""

from __future__ import annotations

from opbridge.model_support.cache_adapters import CacheAdapter, Part
from opbridge.model_support.entries import (
    Arguments,
    CaptureContext,
    CodeReplacement,
    Container,
    FunctionReplacement,
    Inputs,
    ModelSupport,
)
from opbridge.model_support.fingerprints import fingerprint

__all__ = [
    "Arguments",
    "CacheAdapter",
    "CaptureContext",
    "CodeReplacement",
    "Container",
    "FunctionReplacement",
    "Inputs",
    "ModelSupport",
    "Part",
    "fingerprint",
]
