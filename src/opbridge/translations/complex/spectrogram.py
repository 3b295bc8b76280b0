"""Fourier transforms of the windows of a signal, and back: convolutions whose kernels are the transform's waves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op

from opbridge.errors import TranslationError
from opbridge.translations.complex.fourier import half, roots
from opbridge.translations.complex.pairs import parts
from opbridge.translations.lib.dims import Dim, dim_of, positions, shape_of
from opbridge.translations.lib.dtypes import const
from opbridge.translations.registry import builtin


@builtin("aten::stft")
def stft(
    self,
    n_fft: int,
    hop_length=None,
    win_length=None,
    window=None,
    normalized: bool = False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool
    normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor
    """
    kept = n_fft if onesided is False else int(half(Dim(n_fft)))
    waves = _transform_rows(kept, n_fft, -1, normalized)
    kernels = np.concatenate([waves.real, waves.imag])[:, None]
    return _transform_windows(self, [self], kernels, n_fft, hop_length, win_length, window, align_to_window)


@builtin("aten::stft", complex=True)
def stft_complex(
    self,
    n_fft: int,
    hop_length=None,
    win_length=None,
    window=None,
    normalized: bool = False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool
    normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor
    """
    waves = _transform_rows(n_fft, n_fft, -1, normalized)
    real = np.stack([waves.real, -waves.imag], axis=1)
    imaginary = np.stack([waves.imag, waves.real], axis=1)
    kernels = np.concatenate([real, imaginary])
    return _transform_windows(self, list(parts(self)), kernels, n_fft, hop_length, win_length, window, align_to_window)


@builtin("aten::istft", complex=True)
def istft(
    self,
    n_fft: int,
    hop_length=None,
    win_length=None,
    window=None,
    center: bool = True,
    normalized: bool = False,
    onesided=None,
    length=None,
    return_complex: bool = False,
):
    """istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True,
    bool normalized=False, bool? onesided=None, SymInt? length=None, bool return_complex=False) -> Tensor
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    shape = _window(window, win_length, n_fft, self.dtype)
    kept = n_fft if return_complex else int(half(Dim(n_fft)))
    batch = 0 if len(self.shape) == 4 else 1
    spectrum = op.Slice(self, [0], [kept], [len(self.shape) - 3])
    spectrum = op.Transpose(spectrum, perm=[0, 3, 1, 2] if batch == 0 else [2, 0, 1])
    # Real parts and imaginary parts as channels: (batch, 2 x coefficients, windows).
    spectrum = op.Reshape(spectrum, shape_of([batch, kept * 2, dim_of(self, -2)]))
    waves = _transform_rows(kept, n_fft, 1, normalized) / (1 if normalized else n_fft)
    if return_complex:
        real, imaginary = (np.stack(each, axis=1) for each in ((waves.real, waves.imag), (-waves.imag, waves.real)))
    else:
        place = np.arange(kept)
        waves *= np.where((place == 0) | (place * 2 == n_fft), 1, 2)[:, None]
        real, imaginary = waves.real[:, None], -waves.imag[:, None]
    kernels = const(np.concatenate([real, imaginary]), self.dtype) * shape
    signal = _overlap_add(spectrum, kernels, hop, n_fft)
    ones = op.Expand(const(1, self.dtype), shape_of([1, 1, dim_of(self, -2)]))
    weight = _overlap_add(ones, op.Unsqueeze(shape * shape, [0, 1]), hop, n_fft)
    first = n_fft // 2 if center else 0
    last = first + length if length is not None else -(n_fft // 2) if center and n_fft > 1 else np.iinfo(np.int64).max
    signal, weight = (op.Slice(each, [first], [last], [2]) for each in (signal, weight))
    signal = signal / weight
    if length is not None:
        missing = length - op.Gather(op.Shape(signal), 2)
        signal = op.Pad(signal, [0, op.Max(missing, 0)], None, [2])
    if return_complex:
        signal = op.Transpose(signal, perm=[0, 2, 1])
        return op.Squeeze(signal, [0]) if batch else signal
    return op.Squeeze(signal, [0, 1] if batch else [1])


def _transform_rows(count: int, n_fft: int, sign: int, normalized: bool) -> np.ndarray:
    """The first waves of a transform, one in a row."""
    return roots(count, n_fft, n_fft, sign) * (1 / math.sqrt(n_fft) if normalized else 1.0)


def _window(window: Any, win_length: Any, n_fft: int, dtype: ir.DataType) -> Any:
    """What each window is multiplied by: of n_fft elements, zero outside of the middle `win_length`."""
    length = n_fft if win_length is None else win_length
    before = (n_fft - length) // 2
    after = n_fft - length - before
    if window is None:
        return const(np.pad(np.ones(length), (before, after)), dtype)
    if window.dtype != dtype or len(window.shape) != 1:
        raise TranslationError("The window of a Fourier transform must be real and have the precision of the signal.")
    return op.Pad(window, [before, after]) if before or after else window


def _transform_windows(
    self: Any, channels: list[Any], kernels: np.ndarray, n_fft: int, hop: Any, length: Any, window: Any, aligned: Any
) -> Any:
    """The coefficients of every window of a signal, as pairs: ((batch,) coefficients, windows, 2).

    Args:
        self: The argument, for its type.
        channels: The real parts, and the imaginary ones of complex signals; of one or two dimensions.
        kernels: For each coefficient of the result, real parts first, its wave for every channel.
        n_fft: The length of a window.
        hop: The step from one window to the next.
        length: How much of it is used.
        window: What it is multiplied by, or None.
        aligned: torch's align_to_window.
    """
    if aligned:
        raise TranslationError("align_to_window=True is not supported. Pad the signal instead.")
    batched = len(channels[0].shape) == 2
    signal = op.Concat(*(op.Unsqueeze(channel, [1] if batched else [0, 1]) for channel in channels), axis=1)
    weighted = const(kernels, self.dtype) * _window(window, length, n_fft, self.dtype)
    result = _strided_convolution(signal, weighted, n_fft // 4 if hop is None else hop, n_fft)
    kept = len(kernels) // 2
    if batched:
        return op.Transpose(op.Reshape(result, [0, 2, kept, -1]), perm=[0, 2, 3, 1])
    return op.Transpose(op.Reshape(result, [2, kept, -1]), perm=[1, 2, 0])


def _strided_convolution(signal: Any, kernels: Any, hop: int, n_fft: int) -> Any:
    """A convolution with steps: (batch, channels, length) to (batch, kernels, windows).

    onnxruntime convolves float32 only; of double tensors the windows are gathered.
    """
    if signal.dtype != ir.DataType.DOUBLE:
        return op.Conv(signal, kernels, strides=[hop])
    count = (op.Gather(op.Shape(signal), 2) - n_fft) / hop + 1
    windows = op.Gather(signal, _window_positions(count, hop, n_fft), axis=2)  # batch, channel, window, place
    windows = op.Reshape(
        op.Transpose(windows, perm=[0, 2, 1, 3]), op.Concat([0], op.Unsqueeze(count, [0]), [-1], axis=0)
    )
    rows = op.Reshape(kernels, [0, -1])
    return op.MatMul(rows, op.Transpose(windows, perm=[0, 2, 1]))


def _overlap_add(spectrum: Any, kernels: Any, hop: int, n_fft: int) -> Any:
    """The convolution's transpose: (batch, kernels, windows) to (batch, channels, length)."""
    if spectrum.dtype != ir.DataType.DOUBLE:
        return op.ConvTranspose(spectrum, kernels, strides=[hop])
    columns = op.Transpose(kernels, perm=[1, 2, 0])  # channel, place, kernel
    windows = op.MatMul(columns, op.Unsqueeze(spectrum, [1]))  # batch, channel, place, window
    windows = op.Transpose(windows, perm=[0, 1, 3, 2])
    count = op.Gather(op.Shape(windows), 2)
    values = op.Reshape(windows, [0, 0, -1])
    index = op.Expand(op.Reshape(_window_positions(count, hop, n_fft), [-1]), op.Shape(values))
    length = op.Unsqueeze((count - 1) * hop + n_fft, [0])
    zeros = op.Expand(const(0, spectrum.dtype), op.Concat(op.Shape(values, end=2), length, axis=0))
    return op.ScatterElements(zeros, index, values, axis=2, reduction="add")


def _window_positions(count: Any, hop: int, n_fft: int) -> Any:
    """Where the elements of each window lie in the signal: (windows, n_fft)."""
    return op.Unsqueeze(positions(count) * hop, [1]) + const(np.arange(n_fft))
