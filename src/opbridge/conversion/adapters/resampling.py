"""Resampling: Upsample, Resize, GridSample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step, lower, raised


def _scales(step: Step, at: int) -> np.ndarray:
    found = step.constant(at)
    if found is None:
        step.refuse("with scales computed at run time")
    return found.astype(np.float32)


@raised(9, "Upsample", says="scales are an input")
def _upsample_to_9(step: Step) -> None:
    scales = [float(each) for each in step.get("scales") or ()]
    step.set(scales=None)
    step.put(step.data, step.number(np.asarray(scales, np.float32)))


@lower(9, "Upsample", says="scales are an attribute")
def _upsample_9(step: Step) -> None:
    scales = _scales(step, 1)
    step.put(step.data)
    step.set(scales=[float(each) for each in scales])


@raised(10, "Upsample", says="called Resize")
def _upsample_to_10(step: Step) -> Sequence[ir.Value]:
    found: ir.Value = step.emit("Resize", step.data, step.input(1), mode=step.get("mode", "nearest"))
    return [found]


@lower(10, "Resize", says="called Upsample")
def _resize_10(step: Step) -> Sequence[ir.Value]:
    if (_scales(step, 1) < 1).any():
        step.refuse("that downsamples")
    found: ir.Value = step.emit("Upsample", step.data, step.input(1), mode=step.get("mode", "nearest"))
    return [found]


@raised(11, "Resize", says="with the coordinates of older opsets")
def _resize_to_11(step: Step) -> None:
    if step.get("mode", "nearest") == "nearest":
        if (_scales(step, 1) < 1).any():
            step.refuse("that upsamples in nearest mode, which older opsets do not define exactly")
        step.set(nearest_mode="floor")
    step.set(coordinate_transformation_mode="asymmetric")
    step.put(step.data, step.number(np.zeros(0, np.float32)), step.input(1))


@lower(11, "Resize", says="by scales")
def _resize_11(step: Step) -> None:
    mode = step.get("mode", "nearest")
    coordinates = step.get("coordinate_transformation_mode", "half_pixel")
    if mode == "cubic" or coordinates != "asymmetric":
        step.refuse(f"with mode={mode} and coordinate_transformation_mode={coordinates}")
    if mode == "nearest" and step.get("nearest_mode", "round_prefer_floor") != "floor":
        step.refuse(f"with nearest_mode={step.get('nearest_mode', 'round_prefer_floor')}")
    scales: Any = step.constant(2)
    target, sizes = step.constant(3), step.shape(step.data)
    if target is not None and sizes is not None and all(isinstance(each, int) and each for each in sizes):
        scales = target / np.asarray(sizes, np.float64)
    if scales is None or not scales.size:
        step.refuse("to sizes computed at run time")
    if (target is not None or mode == "nearest") and ((scales != np.floor(scales)).any() or (scales < 1).any()):
        step.refuse("other than by repeating elements a constant number of times")
    step.put(step.data, step.number(scales.astype(np.float32)))
    for name in ("coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside"):
        step.set(**{name: None})
    step.set(extrapolation_value=None)


@lower(13, "Resize", says="with empty inputs for those left out")
def _resize_13(step: Step) -> None:
    nothing = step.number(np.zeros(0, np.float32))
    data, roi, scales, sizes = (*step.node.inputs, None, None, None)[:4]
    step.put(data, nothing if roi is None else roi, nothing if scales is None else scales, sizes)


@lower(18, "Resize", says="sizes are given for all axes")
def _resize_18(step: Step) -> None:
    if step.get("antialias", 0):
        step.refuse("with antialias=1")
    if step.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        step.refuse(f"with keep_aspect_ratio_policy={step.get('keep_aspect_ratio_policy')}")
    axes = step.integers("axes")
    step.set(antialias=None, keep_aspect_ratio_policy=None, axes=None)
    if axes is None:
        return
    rank = step.rank()
    places = [axis % rank for axis in axes]
    data, roi, scales, sizes = (*step.node.inputs, None, None, None)[:4]
    if roi is not None and step.get("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        step.refuse("of a region of some axes")
    if scales is not None and step.shape(scales) != [0]:
        one = step.number(np.ones(1, np.float32))
        own = {place: step.sliced(scales, at, at + 1, 0) for at, place in enumerate(places)}
        scales = step.emit("Concat", *(own.get(at, one) for at in range(rank)), axis=0)
    if sizes is not None:
        own = {place: step.sliced(sizes, at, at + 1, 0) for at, place in enumerate(places)}
        assert data is not None
        every = [own[at] if at in own else step.sizes(step.size(data, at)) for at in range(rank)]
        sizes = step.emit("Concat", *every, axis=0)
    step.put(data, None, scales, sizes)


@lower(19, "Resize", says="")
def _resize_19(step: Step) -> None:
    if step.get("coordinate_transformation_mode", "half_pixel") == "half_pixel_symmetric":
        step.refuse("with coordinate_transformation_mode=half_pixel_symmetric")


_MODES = {"linear": "bilinear", "cubic": "bicubic"}


@lower(20, "GridSample", says="the mode has its older name")
def _grid_sample_20(step: Step) -> None:
    if step.rank() != 4:
        step.refuse("of volumes")
    mode = step.get("mode", "linear")
    step.set(mode=_MODES.get(mode, mode))


@raised(20, "GridSample", says="the mode has its newer name")
def _grid_sample_to_20(step: Step) -> None:
    mode = step.get("mode", "bilinear")
    step.set(mode={older: newer for newer, older in _MODES.items()}.get(mode, mode))
