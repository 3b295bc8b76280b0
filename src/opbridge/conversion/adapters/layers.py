"""Layers and pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step, lower, raised


@lower(14, "BatchNormalization", says="")
def _batch_normalization_14(step: Step) -> None:
    if step.get("training_mode", 0):
        step.refuse("in training", remedy="Export the model in evaluation mode.")
    step.set(training_mode=None)
    step.outputs(1)


@raised(14, "BatchNormalization", says="")
def _batch_normalization_to_14(step: Step) -> None:
    if any(step.is_used(at) for at in range(1, len(step.node.outputs))):
        step.refuse("in training", remedy="Export the model in evaluation mode.")
    step.outputs(1)


@raised(9, "BatchNormalization", says="")
def _batch_normalization_to_9(step: Step) -> None:
    if not step.get("spatial", 1):
        step.refuse("with spatial=0")
    step.set(spatial=None)


@lower(12, "Dropout", says="as in inference")
def _dropout_12(step: Step) -> Sequence[ir.Value] | None:
    training = step.input(2)
    mode = step.constant(2)
    if training is not None and (mode is None or bool(mode)):
        step.refuse("in training", remedy="Export the model in evaluation mode.")
    if step.is_used(1):
        whole = step.emit("Shape", step.data)
        mask = step.emit("ConstantOfShape", whole, value=ir.tensor(np.ones(1, np.bool_)))
        return [step.emit("Identity", step.data), mask]
    ratio = step.constant(1)
    step.put(step.data)
    step.outputs(1)
    step.set(ratio=0.5 if ratio is None else float(ratio.ravel()[0]), seed=None)
    return None


@raised(12, "Dropout", says="the ratio is an input")
def _dropout_to_12(step: Step) -> None:
    ratio = float(step.get("ratio", 0.5))
    step.set(ratio=None)
    step.put(step.data, step.number(np.float32(ratio)))


@lower(10, "Dropout", says="")
@raised(10, "Dropout", says="")
def _dropout_10(step: Step) -> None:
    if step.is_used(1):
        step.refuse("whose mask is used: its type changed")
    step.outputs(1)


@lower(11, "Gemm", says="with a bias of zero")
def _gemm_11(step: Step) -> None:
    if step.input(2) is None:
        step.put(step.data, step.input(1), step.number(0, step.dtype(step.data)))


@lower(19, "AveragePool", says="")
@lower(18, "LpPool", says="")
@lower(10, "MaxPool", says="")
def _steps_within_the_window(step: Step) -> None:
    if all(each == 1 for each in step.integers("dilations") or ()):
        step.set(dilations=None)


@lower(11, "ConvTranspose", says="")
@raised(11, "ConvTranspose", says="")
def _conv_transpose_11(step: Step) -> None:
    """What is added on which side for a given output shape was the other way round before."""
    if step.get("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        step.refuse("with auto_pad: its meaning changed")


@lower(11, "DepthToSpace", says="with the channels in the other order")
def _depth_to_space_11(step: Step) -> Sequence[ir.Value] | None:
    mode = step.get("mode", "DCR")
    step.set(mode=None)
    if mode == "DCR":
        return None
    block = int(step.get("blocksize"))
    channels = step.size(step.data, 1)
    if not isinstance(channels, int):
        step.refuse("of a dynamic number of channels")
    places = np.arange(channels).reshape(-1, block**2).T
    data = step.emit("Gather", step.data, step.number(places.ravel()), axis=1)
    return [step.emit("DepthToSpace", data, blocksize=block)]


@lower(28, "SpaceToDepth", says="with the channels put in order")
def _space_to_depth_28(step: Step) -> Sequence[ir.Value] | None:
    mode = step.get("mode", "DCR")
    step.set(mode=None)
    if mode == "DCR":
        return None
    block = int(step.get("blocksize"))
    channels = step.size(step.data, 1)
    if not isinstance(channels, int):
        step.refuse("of a dynamic number of channels")
    found = step.emit("SpaceToDepth", step.data, blocksize=block)
    places = np.arange(channels * block**2).reshape(block**2, channels).T
    return [step.emit("Gather", found, step.number(places.ravel()), axis=1)]


@lower(16, "RoiAlign", says="")
def _roi_align_16(step: Step) -> None:
    mode = step.get("coordinate_transformation_mode", "half_pixel")
    if mode != "output_half_pixel":
        step.refuse(f"with coordinate_transformation_mode={mode}")
    step.set(coordinate_transformation_mode=None)


@raised(16, "RoiAlign", says="with the coordinates of older opsets")
def _roi_align_to_16(step: Step) -> None:
    step.set(coordinate_transformation_mode="output_half_pixel")
