"""The families of models: one module for each package, found by its name.

A module says `PACKAGES`, the distributions that have to be installed, and `entries()`, which yields a `ModelEntry` for
each model without building any. Where `entries()` imports nothing of the package, `MODULES` names what every model of
the family needs.
"""

from __future__ import annotations
