"""What a node is that the runtime runs and the file does not have."""

from __future__ import annotations

__all__ = ["CONTROL", "COPIES", "kind_of"]

COPIES = ("MemcpyToHost", "MemcpyFromHost")
CONTROL = ("If", "Loop", "Scan", "SequenceMap")

_LAYOUTS = ("ReorderInput", "ReorderOutput", "Transpose")


def kind_of(operator: str, stands_for: int) -> str:
    """In words, what a node of the runtime is.

    Args:
        operator: Its operator.
        stands_for: How many nodes of the file it stands for.

    Returns:
        "copy to the CPU", "copy to the GPU", "inserted Cast", "inserted layout change", "inserted"; "fused" for one in
        the place of several nodes of the file; "" for a node of the file.
    """
    name = operator.rpartition("::")[2]
    if name in COPIES:
        return "copy to the CPU" if name == "MemcpyToHost" else "copy to the GPU"
    if stands_for:
        return "fused" if stands_for > 1 else ""
    if name == "Cast":
        return "inserted Cast"
    return "inserted layout change" if name in _LAYOUTS else "inserted"
