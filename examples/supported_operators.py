"""Is an operator supported, since which opset, and by which route?

On the command line: opbridge ops "*deform*"
"""

from __future__ import annotations

from opbridge.translations.catalogue import catalogue


def main() -> None:
    for pattern in ("*deform*", "aten::cummax", "*gelu*"):
        for entry in catalogue(pattern):
            print(f"{entry.operator:<32} {entry.route:<10} since opset {entry.opset:<3} {entry.origin}")


if __name__ == "__main__":
    main()
