"""Signals: the axis of DFT."""

from __future__ import annotations

import numpy as np

from opbridge.conversion.step import Step, lower, raised


@lower(20, "DFT", says="the axis is an attribute")
def _dft_20(step: Step) -> None:
    axis = (step.known(2, "an axis") or [-2])[0]
    if step.get("inverse", 0) and step.get("onesided", 0):
        step.refuse("with both inverse=1 and onesided=1")
    step.put(step.data, step.input(1))
    step.set(axis=axis % step.rank())


@raised(20, "DFT", says="the axis is an input")
def _dft_to_20(step: Step) -> None:
    axis = int(step.get("axis", 1))
    step.set(axis=None)
    step.put(step.data, step.input(1), step.number(np.int64(axis)))
