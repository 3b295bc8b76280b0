"""Runs that ended the process of the runtime on inputs that nobody asked for: what is said of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from opbridge.base.wording import listed
from opbridge.runtimes.child import ProcessEnded
from opbridge.verification.correspondence import Correspondence

__all__ = ["EndedRuns"]

_MOST = 8
"""After so many ends no further inputs are tried that nobody asked for: each costs the start of a process."""

_Places = frozenset[tuple[str, int]]
"""Inputs with their dimensions that are 0."""


class EndedRuns:
    """The runs that ended the process of the runtime.

    Args:
        runtime: The runtime with its version.
        matching: The inputs of the file.

    Attributes:
        left_out: Why such a run is left out.
    """

    def __init__(self, runtime: str, matching: Correspondence) -> None:
        self._runtime, self._matching = runtime, matching
        self._ended: dict[_Places, list[str]] = {}
        self._how: dict[_Places, str] = {}
        self.left_out = f"{runtime} does not survive it; see the notes"

    def foresees(self, feeds: Mapping[str, torch.Tensor]) -> bool:
        """Whether a run is not worth a process: an earlier one ended where the same dimensions are 0, or many did."""
        places = _places(feeds)
        count = sum(map(len, self._ended.values()))
        return count >= _MOST or any(each and each <= places for each in self._ended)

    def add(self, label: str, feeds: Mapping[str, torch.Tensor], error: ProcessEnded) -> None:
        """Notes a run that did."""
        places = _places(feeds)
        inputs = sorted({name for name, _ in places})
        shapes = listed([f"'{name}' of shape {list(feeds[name].shape)}" for name in inputs], 3)
        self._ended.setdefault(places, []).append(shapes or label)
        self._how[places] = error.how

    def notes(self) -> Iterator[str]:
        """What the verification says of them: a note for all runs in which the same dimensions were 0."""
        for places, tried in self._ended.items():
            yield (
                f"{self._runtime} ended its process ({self._how[places]}) on {listed(tried, 3)}: it does not support "
                f"that, and nothing was compared there; {self._advice(places)}"
            )

    def _advice(self, places: _Places) -> str:
        """What to do, as the end of a sentence."""
        if not places:
            return "opbridge lint --target onnxruntime says which operators end the process at a size of 0"
        dims, names = self._matching.dynamic_sizes(), self._matching.names
        leaves = dict(zip(names, self._matching.positions, strict=True))
        symbols = {str(dims.dims[leaves[name]][axis]) for name, axis in places if leaves[name] in dims.dims}
        known = sorted({dims.names.get(each, each) for each in symbols if each.isidentifier()})
        declared = listed([f"torch.export.Dim({name!r}, min=1)" for name in known], 3)
        return f"if no caller has such a size, declare {declared or 'torch.export.Dim(..., min=1) for it'}"


def _places(feeds: Mapping[str, torch.Tensor]) -> _Places:
    return frozenset((name, axis) for name, each in feeds.items() for axis, size in enumerate(each.shape) if size == 0)
