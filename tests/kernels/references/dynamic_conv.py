"""Dynamic and lightweight convolution over time, from their definition, in float64."""

from __future__ import annotations

import numpy as np

__all__ = ["dynamic_conv", "dynamic_conv_gradients", "lightweight_conv", "lightweight_conv_gradients"]


def dynamic_conv(x: np.ndarray, weight: np.ndarray, padding_l: int) -> np.ndarray:
    """y[b, c, t] = sum over k of weight[b, head of c, k, t] * x[b, c, t + k - padding_l]."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    batch, channels, time = x.shape
    y = np.zeros(x.shape)
    for b, c, t in np.ndindex(batch, channels, time):
        head = c // (channels // weight.shape[1])
        for k in range(weight.shape[2]):
            moment = t + k - padding_l
            if 0 <= moment < time:
                y[b, c, t] += weight[b, head, k, t] * x[b, c, moment]
    return y


def dynamic_conv_gradients(
    grad: np.ndarray, x: np.ndarray, weight: np.ndarray, padding_l: int
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of x and weight: each product of `dynamic_conv` gives its factors their share."""
    grad, x, weight = grad.astype(np.float64), x.astype(np.float64), weight.astype(np.float64)
    batch, channels, time = x.shape
    x_grad, weight_grad = np.zeros(x.shape), np.zeros(weight.shape)
    for b, c, t in np.ndindex(batch, channels, time):
        head = c // (channels // weight.shape[1])
        for k in range(weight.shape[2]):
            moment = t + k - padding_l
            if 0 <= moment < time:
                x_grad[b, c, moment] += grad[b, c, t] * weight[b, head, k, t]
                weight_grad[b, head, k, t] += grad[b, c, t] * x[b, c, moment]
    return x_grad, weight_grad


def lightweight_conv(x: np.ndarray, weight: np.ndarray, padding_l: int) -> np.ndarray:
    """The same weights (heads, taps) at each moment of each sequence."""
    return dynamic_conv(x, _at_each_moment(weight, x), padding_l)


def lightweight_conv_gradients(
    grad: np.ndarray, x: np.ndarray, weight: np.ndarray, padding_l: int
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of x and weight: a weight's is the sum over all its uses."""
    x_grad, weight_grad = dynamic_conv_gradients(grad, x, _at_each_moment(weight, x), padding_l)
    return x_grad, weight_grad.sum(axis=(0, 3))


def _at_each_moment(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(weight[None, :, :, None], (x.shape[0], *weight.shape, x.shape[2]))
