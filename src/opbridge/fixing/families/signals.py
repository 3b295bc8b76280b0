"""DFT and STFT as products with sines and cosines."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair

_LARGEST = 1 << 22


@repair("missing-operator", "no-kernel", operators=["DFT"])
def transform_as_product(site: Site) -> str:
    """One MatMul with a constant matrix: the real and the imaginary part are neighbours."""
    step = site.step()
    rank = step.rank()
    axis = int(step.get("axis", 1)) if step.to < 20 else (step.known(2, "an axis") or [-2])[0]
    axis %= rank
    shape = step.shape(step.data)
    size, parts = (None, None) if shape is None else (shape[axis], shape[-1])
    inverse, onesided = bool(step.get("inverse", 0)), bool(step.get("onesided", 0))
    given = step.known(1, "a length")
    if given is None and not isinstance(size, int) and parts in (1, 2) and not (inverse and onesided):
        site.put(step, _of_any_length(step, axis, int(parts), inverse=inverse, onesided=onesided))
        return "replaced DFT by MatMul"
    length = given[0] if given else size
    if not isinstance(size, int) or not isinstance(parts, int) or not isinstance(length, int) or length != size:
        raise Refused("of a dynamic length, or one that is truncated or padded")
    if (inverse and onesided) or axis == rank - 1 or parts not in (1, 2):
        raise Refused("with a real output")
    matrix = _matrix(length, parts, inverse=inverse, kept=length // 2 + 1 if onesided else length)
    if matrix.size > _LARGEST:
        raise Refused("of this length")
    order = [*(each for each in range(rank - 1) if each != axis), axis, rank - 1]
    plain = order == list(range(rank))
    moved = step.data if plain else step.emit("Transpose", step.data, perm=order)
    outer = [step.size(moved, each) for each in range(rank - 2)]
    flat = step.emit("Reshape", moved, step.sizes(*outer, length * parts))
    product = step.emit("MatMul", flat, step.number(matrix, step.dtype(step.data)))
    result = step.emit("Reshape", product, step.sizes(*outer, matrix.shape[1] // 2, 2))
    if not plain:
        result = step.emit("Transpose", result, perm=[order.index(each) for each in range(rank)])
    site.put(step, result)
    return f"replaced DFT of {length} elements by MatMul"


def _of_any_length(step: Step, axis: int, parts: int, *, inverse: bool, onesided: bool) -> ir.Value:
    """The product with sines and cosines that are computed for the length that the tensor has."""
    rank, dtype = step.rank(), step.dtype(step.data)
    if axis == rank - 1:
        raise Refused("with a real output")
    length = step.sizes(step.size(step.data, axis))
    count = step.squeezed(length, [0])
    zero, one = step.number(np.asarray(0)), step.number(np.asarray(1))
    before = step.emit("Range", zero, count, one)
    kept = step.emit("Add", step.emit("Div", count, step.number(np.asarray(2))), one) if onesided else count
    product = step.emit("Mul", step.unsqueezed(before, [1]), step.emit("Range", zero, kept, one))
    turns = step.emit("Sub", product, step.emit("Mul", step.emit("Div", product, length), length))
    share = step.emit("Div", step.cast(turns, dtype), step.cast(length, dtype))
    angle = step.emit("Mul", share, step.number(2 * np.pi * (1 if inverse else -1), dtype))
    cosine, sine = step.emit("Cos", angle), step.emit("Sin", angle)
    order = [*(each for each in range(rank - 1) if each != axis), axis]
    sides = []
    for part in range(parts):
        flat = step.squeezed(step.sliced(step.data, part, part + 1, rank - 1), [rank - 1])
        sides.append(flat if order == sorted(order) else step.emit("Transpose", flat, perm=order))
    real, imaginary = step.emit("MatMul", sides[0], cosine), step.emit("MatMul", sides[0], sine)
    if parts == 2:
        real = step.emit("Sub", real, step.emit("MatMul", sides[1], sine))
        imaginary = step.emit("Add", imaginary, step.emit("MatMul", sides[1], cosine))
    made = step.emit("Concat", *(step.unsqueezed(each, [rank - 1]) for each in (real, imaginary)), axis=rank - 1)
    if inverse:
        made = step.emit("Div", made, step.cast(length, dtype))
    if order != sorted(order):
        made = step.emit("Transpose", made, perm=[*(order.index(each) for each in range(rank - 1)), rank - 1])
    result: ir.Value = made
    return result


@repair("unsupported-form", operators=["DFT"])
def transform_of_dimension_1(site: Site) -> str:
    """The whole transform along dimension 1, of which one side is taken afterwards."""
    step = site.step()
    rank = step.rank()
    axis = int(step.get("axis", 1)) if step.to < 20 else (step.known(2, "an axis") or [-2])[0]
    onesided, plain = bool(step.get("onesided", 0)), axis == 1 and rank > 2
    axis %= rank
    if (onesided and step.get("inverse", 0)) or axis == rank - 1:
        raise Refused("with a real output")
    if plain and not onesided:
        raise Refused("along dimension 1")
    data, order = step.data, list(range(rank))
    order[axis], order[1] = order[1], order[axis]
    if rank == 2:
        data = step.unsqueezed(data, [0])
    elif axis != 1:
        data = step.emit("Transpose", data, perm=order)
    attributes = {"inverse": step.get("inverse")}
    if step.to < 20:
        result = step.emit("DFT", data, step.input(1), axis=1, **attributes)
    else:
        result = step.emit("DFT", data, step.input(1), step.number(np.asarray(1)), **attributes)
    if onesided:
        half = step.emit("Div", step.sizes(step.size(result, 1)), [2])
        result = step.emit("Slice", result, [0], step.emit("Add", half, [1]), [1])
    if rank == 2:
        result = step.squeezed(result, [0])
    elif axis != 1:
        result = step.emit("Transpose", result, perm=order)
    site.put(step, result)
    return f"replaced DFT along dimension {axis} by one along dimension 1"


def _matrix(length: int, parts: int, *, inverse: bool, kept: int) -> np.ndarray:
    """(length * parts, kept * 2): element and part before, element and part after."""
    turns = np.outer(np.arange(length), np.arange(kept)) % length
    angle = 2 * np.pi * turns / length * (1 if inverse else -1)
    cosine, sine = np.cos(angle), np.sin(angle)
    matrix = np.zeros((length, parts, kept, 2))
    matrix[:, 0, :, 0], matrix[:, 0, :, 1] = cosine, sine
    if parts == 2:
        matrix[:, 1, :, 0], matrix[:, 1, :, 1] = -sine, cosine
    return matrix.reshape(length * parts, kept * 2) / (length if inverse else 1)


@repair("missing-operator", "no-kernel", "partly-supported", operators=["STFT"])
def frames_as_convolution(site: Site) -> str:
    """A convolution whose kernels are the window times the cosines and sines of each frequency."""
    step = site.step()
    hop = step.known(1, "a step of frames")
    given, window, length = step.input(2), step.constant(2), step.known(3, "a length of frames")
    of_window = None if given is None else (step.shape(given) or [None])[0]
    size = length[0] if length else of_window
    shape = step.shape(step.data)
    if hop is None or not isinstance(size, int) or shape is None or len(shape) != 3 or shape[2] != 1:
        raise Refused("of complex signals, or frames of unknown length")
    dtype = step.dtype(step.data)
    if dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        raise Refused("of types other than float32 and float16")
    if given is not None and of_window != size:
        raise Refused("whose window length differs from the frame length")
    kept = size // 2 + 1 if step.get("onesided", 1) else size
    if 2 * kept * size > _LARGEST:
        raise Refused("of frames of this length")
    shares = np.ones(size) if window is None else window.astype(np.float64)
    matrix = _matrix(size, 1, inverse=False, kept=kept).reshape(size, kept, 2) * shares[:, None, None]
    kernels = step.number(np.ascontiguousarray(matrix.transpose(2, 1, 0).reshape(2 * kept, 1, size)), dtype)
    if given is not None and window is None:  # one computed at run time
        kernels = step.emit("Mul", kernels, step.cast(given, dtype))
    batch = step.size(step.data, 0)
    signal = step.emit("Transpose", step.data, perm=[0, 2, 1])
    frames = step.emit("Conv", signal, kernels, strides=[hop[0]])
    split = step.emit("Reshape", frames, step.sizes(batch, 2, kept, -1))
    site.put(step, step.emit("Transpose", split, perm=[0, 3, 2, 1]))
    return f"replaced STFT with frames of {size} elements by Conv"
