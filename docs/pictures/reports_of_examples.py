"""Runs an example, and writes the report of its last export that succeeds: a process of its own for each.

    python docs/pictures/reports_of_examples.py examples/deform_net.py deform_net.html

The example is run as it is; what it exports gets `report=` from here, a model or a set of parts. No page is written
where nothing is exported.
"""

from __future__ import annotations

import functools
import runpy
import sys
from pathlib import Path
from typing import Any

import opbridge
from opbridge import pipeline
from opbridge.parts import exporting


def main(script: Path, page: Path) -> None:
    """Runs the script as a program, with each export told to write a report."""
    export = pipeline.export
    own = page.with_suffix(".own.html")

    export_set = exporting.export

    def reported_set(parts: Any, folder: Any, keywords: dict[str, Any]) -> Any:
        done = export_set(parts, folder, {**keywords, "report": own})
        own.replace(page)
        return done

    @functools.wraps(export)  # whose keywords are asked for
    def reported(*args: Any, **keywords: Any) -> Any:
        if keywords.get("verify") is False or "report" in keywords:
            return export(*args, **keywords)
        program = export(*args, **keywords, report=own)
        own.replace(page)
        return program

    opbridge.export = pipeline.export = reported
    exporting.export = reported_set
    sys.argv = [str(script)]
    sys.path[0] = str(script.parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
