"""The families of models: one module for each package, found by its name.

A module says `PACKAGES`, the distributions that have to be installed, and `entries()`, which yields a `ModelEntry` for
each model without building any.
"""

from __future__ import annotations
