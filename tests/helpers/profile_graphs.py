"""Graphs of files and of runs, written in short."""

from __future__ import annotations

from opbridge.profiling.file_graph import FileGraph, FileNode, RunNode


def file_of(*rows, constants=(), bodies=None):
    """A graph of a file: rows of (name, operator, inputs, outputs[, module, line]), names parted by blanks."""
    nodes = []
    for position, (name, operator, reads, gives, *place) in enumerate(rows):
        module, line = (*place, "", "")[:2]
        where = (module, line, "", tuple(reads.split()), tuple(gives.split()), position)
        nodes.append(FileNode(name, name, operator, *where))
    return FileGraph(nodes, set(constants), bodies or {})


def run_of(*rows, bodies=None):
    """A graph of a run: rows of (name, operator, inputs, outputs)."""
    nodes = [
        RunNode(name, operator, tuple(reads.split()), tuple(gives.split())) for name, operator, reads, gives in rows
    ]
    return FileGraph(nodes, set(), bodies or {})
