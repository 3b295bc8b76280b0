"""Compiles the built-in kernels when a wheel is built.

One library serves every Python 3 of its platform, as kernels know nothing of Python. An installation in place gets
none: there, what is built from the sources is taken from the cache, which this fills.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):
    """What hatchling calls, by `[tool.hatch.build.targets.wheel.hooks.custom]`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the libraries, and makes them part of the wheel."""
        source = str(Path(self.root) / "src")
        sys.path.insert(0, source)
        try:
            from opbridge.kernels import shipped
        finally:
            sys.path.remove(source)
        for name in shipped.LIBRARIES:
            library = shipped.built(name)
            if version != "editable":
                into = shipped.place(name).relative_to(source)
                build_data["force_include"][str(library)] = str(into)
        if version != "editable":
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
