"""Fourier transforms and complex numbers."""

from __future__ import annotations

import torch
from models.forms.form import floats, form
from torch import nn

__all__: list[str] = []

_X = floats("batch", 8)
_SEQUENCE = floats("batch", 2, "length")


@form(_SEQUENCE, floats(2, 3))
def fourier_convolution(x, kernel):
    """A causal convolution over the whole sequence, as in long convolutions and state space models."""
    size = x.shape[-1] * 2
    product = torch.fft.rfft(x, n=size) * torch.fft.rfft(kernel, n=size)
    return torch.fft.irfft(product, n=size)[..., : x.shape[-1]]


@form(floats("batch", 2, "length"))
class FourierOperator(nn.Module):
    """A 1-D Fourier neural operator: a slice of modes is written into zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3, 2, dtype=torch.cfloat))

    def forward(self, x):
        modes = torch.fft.rfft(x)
        mixed = torch.zeros(x.shape[0], 3, modes.shape[-1], dtype=torch.cfloat)
        mixed[:, :, :2] = torch.einsum("bix,iox->box", modes[:, :, :2], self.weight)
        return torch.fft.irfft(mixed, n=x.shape[-1])


@form(floats("batch", 2, 6, 6))
class SpectralConvolution2d(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([torch.randn(2, 2, 3, 3, dtype=torch.cfloat) for _ in range(2)])

    def forward(self, x):
        modes = torch.fft.rfft2(x)
        mixed = torch.zeros_like(modes)
        mixed[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", modes[:, :, :3, :3], self.weights[0])
        mixed[:, :, -3:, :3] = torch.einsum("bixy,ioxy->boxy", modes[:, :, -3:, :3], self.weights[1])
        return torch.fft.irfft2(mixed, s=x.shape[-2:])


@form(_X)
def power_spectrum(x):
    spectrum = torch.fft.fft(x)
    return spectrum.abs().square(), spectrum[:, 1:4].angle(), spectrum.real, spectrum.imag


@form(_SEQUENCE)
def mixed_tokens(x):
    """FNet: the real part of a two-dimensional transform."""
    return torch.fft.fft2(x, dim=(-2, -1)).real


@form(_X)
def shifted_frequencies(x):
    return torch.fft.fftshift(torch.fft.fft(x)).abs(), torch.fft.fftfreq(8) + torch.fft.rfftfreq(15)


@form(_X)
def inverse_transforms(x):
    return torch.fft.ifft(torch.fft.fft(x, norm="ortho"), norm="ortho").real, torch.fft.hfft(torch.fft.ihfft(x))


@form(floats("batch", 4, 5, 6))
def three_dimensional_transform(x):
    return torch.fft.irfftn(torch.fft.rfftn(x, dim=(1, 2, 3)) * 2, s=(4, 5, 6), dim=(1, 2, 3))


@form(floats("batch", 64))
class Spectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x):
        spectrum = torch.stft(x, 16, 4, window=self.window, return_complex=True)
        return spectrum.abs(), torch.istft(spectrum, 16, 4, window=self.window)


@form(_X)
def complex_arithmetic(x):
    z = torch.complex(x, x.flip(-1))
    w = z * z.conj() + z / (2 + 1j)
    return w.real, w.imag, torch.view_as_real(z.square())


@form(_X)
def polar_form(x):
    z = torch.polar(x.abs(), x)
    return torch.view_as_real(z), z.abs(), (z**2).angle()


@form(floats("batch", "length", 2, 4))
def rotary_by_complex_numbers(x):
    """Llama's rotary embedding."""
    rates = 1.0 / (10000.0 ** (torch.arange(0, 4, 2).float() / 4))
    turns = torch.outer(torch.arange(x.shape[1]).float(), rates)
    turns = torch.polar(torch.ones_like(turns), turns)
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * turns[:, None]).flatten(3)


@form(floats("batch", 4))
class ComplexLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3, dtype=torch.cfloat)
        self.shift = nn.Parameter(torch.randn(3, dtype=torch.cfloat))

    def forward(self, x):
        return torch.view_as_real(self.linear(x.to(torch.cfloat)) + self.shift)


@form(_X)
def complex_structures(x):
    z = torch.complex(x, -x)
    parts = torch.cat([z, z.conj()], dim=-1).unflatten(-1, (2, 8)).sum(1)
    return parts.real, torch.stack([z, z * 1j])[1].imag, z.mean(0).abs(), (z @ z.mH).real


@form(floats("batch", "length"))
def autocorrelation(x):
    """Autoformer: correlation by transforms, and the delays that it is largest at."""
    spectrum = torch.fft.rfft(x, dim=-1)
    correlation = torch.fft.irfft(spectrum * torch.conj(spectrum), n=x.shape[-1], dim=-1)
    weights, delays = torch.topk(correlation[..., : x.shape[-1] // 2 + 1], 2, dim=-1)  # the rest is the mirror image
    return weights.softmax(-1), torch.gather(torch.cat([x, x], -1), -1, delays)
