"""The command line, `opbridge`.

In: the arguments. Out: what a person or a program reads, and an exit status.
May import everything; nothing imports it.
"""

from __future__ import annotations

from opbridge.cli.running import main

__all__ = ["main"]
