"""`python -m opbridge` is the command `opbridge`."""

from __future__ import annotations

import sys

from opbridge.cli import main

if __name__ == "__main__":
    sys.exit(main())
