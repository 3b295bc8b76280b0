"""Spectra, frames, flows and linear algebra."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reported_models.report import Case, module, reported


class _Mfcc(nn.Module):
    """What torchaudio's MFCC computes: power spectrogram, mel filters, decibels, cosine transform."""

    def __init__(self, n_fft: int = 64, hop: int = 20, mels: int = 8, center: bool = False) -> None:
        super().__init__()
        self.n_fft, self.hop, self.center = n_fft, hop, center
        self.register_buffer("window", torch.hann_window(50))
        self.register_buffer("filters", torch.rand(n_fft // 2 + 1, mels))
        self.register_buffer("dct", torch.randn(mels, 5))

    def forward(self, waveform: Tensor) -> Tensor:
        shape = waveform.size()
        waveform = waveform.reshape(-1, shape[-1])
        spectrum = torch.stft(waveform, self.n_fft, self.hop, 50, self.window, center=self.center, return_complex=True)
        spectrum = spectrum.reshape(shape[:-1] + spectrum.shape[-2:]).abs().pow(2.0)
        mel = torch.matmul(spectrum.transpose(-1, -2), self.filters)
        decibels = 10.0 * torch.log10(torch.clamp(mel, min=1e-10))
        limit = decibels.amax(dim=(-2, -1), keepdim=True) - 80.0
        return torch.matmul(torch.max(decibels, limit), self.dct).transpose(-1, -2)


@reported("pytorch/pytorch", 125375)
def mfcc() -> Case:
    return Case(_Mfcc(), lambda b, n: (torch.randn(b, n),), (1, 128), [(1, 64), (3, 333)], ({0: "b", 1: "n"},))


@reported("pytorch/pytorch", 125375, "two channels, centered, float64, normalized by the utterance")
def mfcc_centered() -> Case:
    inner = _Mfcc(center=True).double()

    class Normalized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            y = self.inner(x)
            return (y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True) + 1e-5)

    return Case(
        Normalized(),
        lambda b, n: (torch.randn(b, 2, n, dtype=torch.double),),
        (1, 128),
        [(1, 64), (3, 333)],
        ({0: "b", 2: "n"},),
    )


@reported("pytorch/pytorch", 148687)
def stft_of_batches() -> Case:
    def spectrum(x: Tensor) -> Tensor:
        found = torch.stft(x, 32, 8, window=torch.hann_window(32), return_complex=True)
        return torch.view_as_real(found).permute(0, 3, 1, 2)

    return Case(module(spectrum), lambda b, n: (torch.randn(b, n),), (2, 100), [(1, 100), (5, 100)], ({0: "b"},))


@reported("pytorch/pytorch", 148687, "masked and back by istft to the length of the input")
def stft_and_back() -> Case:
    def denoise(x: Tensor) -> Tensor:
        window = torch.hann_window(32)
        found = torch.stft(x, 32, 8, window=window, return_complex=True)
        magnitude, phase = found.abs(), found.angle()
        gain = (magnitude > magnitude.mean((1, 2), keepdim=True) * 0.5).float()
        found = torch.polar(magnitude * gain, phase)
        return torch.istft(found, 32, 8, window=window, length=x.shape[-1])

    return Case(module(denoise), lambda b, n: (torch.randn(b, n),), (2, 100), [(1, 47), (3, 203)], ({0: "b", 1: "n"},))


@reported("pytorch/pytorch", 149332)
def fft_gate() -> Case:
    weight = nn.Parameter(torch.randn(4, 6, 6, 2))

    def gate(x: Tensor) -> Tensor:
        found = torch.fft.fft2(x, norm="ortho") * torch.view_as_complex(weight.detach())
        return torch.fft.ifft2(found, norm="ortho").real

    return Case(module(gate), lambda b: (torch.randn(b, 4, 6, 6),), (1,), [(3,)], ({0: "b"},))


@reported("pytorch/pytorch", 149332, "rfft2 of a dynamic size, low pass by shifted frequencies, odd sizes")
def fft_low_pass() -> Case:
    def low(x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        found = torch.fft.fftshift(torch.fft.fft2(x), dim=(-2, -1))
        ys, xs = torch.arange(h) - h // 2, torch.arange(w) - w // 2
        kept = (ys[:, None] ** 2 + xs[None] ** 2) < 9
        found = torch.fft.ifftshift(found * kept, dim=(-2, -1))
        half = torch.fft.rfft2(torch.fft.ifft2(found).real)
        return torch.fft.irfft2(half, s=(h, w))

    return Case(
        module(low),
        lambda b, h, w: (torch.randn(b, 2, h, w),),
        (1, 8, 6),
        [(2, 7, 5), (1, 5, 12)],
        ({0: "b", 2: "h", 3: "w"},),
    )


@reported("microsoft/onnxscript", 2407)
def frames() -> Case:
    return Case(
        module(lambda x: x.unfold(-1, 512, 160)),
        lambda b, n: (torch.rand(b, n),),
        (2, 4000),
        [(1, 512), (3, 1999)],
        ({0: "b", 1: "n"},),
    )


@reported("microsoft/onnxscript", 2407, "of two dimensions at once, integers, with as many frames as whole")
def frames_of_images() -> Case:
    def patches(x: Tensor) -> Tensor:
        x = x.unfold(1, 3, 2).unfold(2, 2, 2)
        return x.flatten(-2).sum(-1) + x.shape[1]

    return Case(
        module(patches),
        lambda b, h, w: (torch.randint(0, 9, (b, h, w)),),
        (2, 7, 6),
        [(1, 3, 2), (3, 12, 9)],
        ({0: "b", 1: "h", 2: "w"},),
    )


def _spline(inputs: Tensor, widths: Tensor, heights: Tensor, derivatives: Tensor) -> Tensor:
    bins = widths.shape[-1]
    widths = 1e-3 + (1 - 1e-3 * bins) * F.softmax(widths, dim=-1)
    cumwidths = F.pad(torch.cumsum(widths, dim=-1), pad=(1, 0), mode="constant", value=0.0) * 2 - 1
    cumwidths[..., 0], cumwidths[..., -1] = -1, 1
    widths = cumwidths[..., 1:] - cumwidths[..., :-1]
    heights = 1e-3 + (1 - 1e-3 * bins) * F.softmax(heights, dim=-1)
    cumheights = F.pad(torch.cumsum(heights, dim=-1), pad=(1, 0), mode="constant", value=0.0) * 2 - 1
    heights = cumheights[..., 1:] - cumheights[..., :-1]
    derivatives = 1e-3 + F.softplus(derivatives)
    index = torch.sum(inputs[..., None] >= cumwidths[..., :-1], dim=-1)[..., None] - 1
    width = widths.gather(-1, index)[..., 0]
    theta = (inputs - cumwidths.gather(-1, index)[..., 0]) / width
    height, low = heights.gather(-1, index)[..., 0], cumheights.gather(-1, index)[..., 0]
    delta = height / width
    first = derivatives.gather(-1, index)[..., 0]
    second = derivatives[..., 1:].gather(-1, index)[..., 0]
    numerator = height * (delta * theta.pow(2) + first * theta * (1 - theta))
    return low + numerator / (delta + (first + second - 2 * delta) * theta * (1 - theta))


def _unconstrained(x: Tensor, widths: Tensor, heights: Tensor, derivatives: Tensor) -> Tensor:
    inside = (x >= -1) & (x <= 1)
    outputs = torch.zeros_like(x)
    derivatives = F.pad(derivatives, pad=(1, 1))
    derivatives[..., 0] = derivatives[..., -1] = 0.5397
    outputs[~inside] = x[~inside]
    outputs[inside] = _spline(x[inside], widths[inside, :], heights[inside, :], derivatives[inside, :])
    return outputs


def _spline_inputs(b: int, n: int) -> tuple[Tensor, ...]:
    return torch.randn(b, n), torch.randn(b, n, 5), torch.randn(b, n, 5), torch.randn(b, n, 4)


@reported("OHF-Voice/piper1-gpl", 148)
def spline() -> Case:
    return Case(module(_unconstrained), _spline_inputs, (1, 9), [(1, 4), (1, 30)], ({1: "n"},) * 4)


@reported("OHF-Voice/piper1-gpl", 148, "flows in a loop over a dynamic batch, then durations expand the text")
def spline_and_durations() -> Case:
    class Durations(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flows = nn.ModuleList(nn.Linear(4, 14) for _ in range(2))

        def forward(self, text: Tensor, lengths: Tensor) -> Tensor:
            mask = (torch.arange(text.shape[1])[None] < lengths[:, None]).float()
            z = text[..., 0]
            for flow in self.flows:
                z = _unconstrained(z, *flow(text).split((5, 5, 4), -1)) * mask
            durations = torch.ceil(torch.exp(z) * mask).long()
            ends = durations.cumsum(1)
            frames = torch.arange(int(ends[:, -1].max()))
            path = (frames[None, None] < ends[..., None]) & (frames[None, None] >= (ends - durations)[..., None])
            return path.float().transpose(1, 2) @ text

    def inputs(b: int, n: int) -> tuple[Tensor, Tensor]:
        lengths = torch.randint(1, n + 1, (b,))
        lengths[0] = n
        return torch.randn(b, n, 4), lengths

    return Case(Durations(), inputs, (2, 6), [(1, 1), (3, 9)], ({0: "b", 1: "n"}, {0: "b"}))


@reported("pytorch/pytorch", 133052)
def linear_solve() -> Case:
    return Case(
        module(lambda a, b: torch.linalg.solve(a + 4 * torch.eye(3), b)),
        lambda n: (torch.rand(n, 3, 3), torch.randn(n, 3, 2)),
        (2,),
        [(1,), (5,)],
        ({0: "n"}, {0: "n"}),
    )


@reported("pytorch/pytorch", 133052, "thin plate spline: a system as large as the points, complex afterwards")
def thin_plate() -> Case:
    def warp(source: Tensor, target: Tensor) -> Tensor:
        n = source.shape[0]
        distance = torch.cdist(source, source)
        kernel = distance**2 * torch.log(distance + 1e-6) + 0.1 * torch.eye(n)
        edge = torch.cat([torch.ones(n, 1), source], 1)
        top = torch.cat([kernel, edge], 1)
        bottom = torch.cat([edge.T, torch.zeros(3, 3)], 1)
        weights = torch.linalg.solve(torch.cat([top, bottom]), torch.cat([target, torch.zeros(3, 2)]))
        moved = torch.view_as_complex((kernel @ weights[:n] + edge @ weights[n:]).contiguous())
        return torch.view_as_real(moved * moved.conj())[:, 0]

    return Case(module(warp), lambda n: (torch.rand(n, 2), torch.rand(n, 2)), (6,), [(4,), (11,)], ({0: "n"}, {0: "n"}))


@reported("pytorch/pytorch", 107948)
def inverse_intrinsics() -> Case:
    def rays(crops: Tensor, intrinsics: Tensor) -> Tensor:
        h, w = crops.shape[-2:]
        ys, xs = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
        pixels = torch.stack([xs, ys, torch.ones_like(xs)]).flatten(1)
        return (torch.linalg.inv(intrinsics) @ pixels).unflatten(-1, (h, w)) + crops.mean()

    return Case(
        module(rays),
        lambda b: (torch.rand(b, 3, 4, 6), torch.rand(b, 3, 3) + 3 * torch.eye(3)),
        (2,),
        [(1,), (5,)],
        ({0: "b"}, {0: "b"}),
    )


@reported("pytorch/pytorch", 107948, "pinv of a tall matrix of dynamic height, determinant, float64")
def pseudo_inverse() -> Case:
    def fit(a: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.linalg.pinv(a) @ y, torch.linalg.det(a.mT @ a).log()

    return Case(
        module(fit),
        lambda b, n: (torch.randn(b, n, 3, dtype=torch.double), torch.randn(b, n, 1, dtype=torch.double)),
        (2, 5),
        [(1, 4), (3, 20)],
        ({0: "b", 1: "n"}, {0: "b", 1: "n"}),
    )


@reported("pytorch/pytorch", 81084)
def rotation_by_svd() -> Case:
    def rotate(source: Tensor, target: Tensor) -> Tensor:
        covariance = source.mT @ target
        u, _, v = torch.svd(covariance)
        sign = torch.eye(3).repeat(source.shape[0], 1, 1)
        sign[:, 2, 2] = torch.det(u @ v.mT)
        return v @ sign @ u.mT

    return Case(
        module(rotate),
        lambda b, n: (torch.randn(b, n, 3), torch.randn(b, n, 3)),
        (2, 6),
        [(1, 5), (3, 12)],
        ({0: "b", 1: "n"}, {0: "b", 1: "n"}),
    )


@reported("pytorch/pytorch", 81084, "low rank by singular values above a threshold of the data")
def low_rank_by_svd() -> Case:
    def compress(x: Tensor) -> Tensor:
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        rank = int((s > 0.5 * s[0]).sum())
        return (u[:, :rank] * s[:rank]) @ vh[:rank]

    return Case(module(compress), lambda n, m: (torch.randn(n, m),), (5, 4), [(3, 7), (8, 8)], ({0: "n", 1: "m"},))


@reported("pytorch/pytorch", 103571)
def cholesky() -> Case:
    def sample(x: Tensor, noise: Tensor) -> Tensor:
        kernel = torch.exp(-torch.cdist(x, x)) + 1e-3 * torch.eye(x.shape[0])
        factor, _ = torch.linalg.cholesky_ex(kernel)
        return factor @ noise

    return Case(
        module(sample), lambda n: (torch.randn(n, 2), torch.randn(n, 1)), (5,), [(2,), (9,)], ({0: "n"}, {0: "n"})
    )


@reported("pytorch/pytorch", 103571, "a Gaussian process: triangular solves, log determinant, jitter until it succeeds")
def gaussian_process() -> Case:
    def posterior(x: Tensor, y: Tensor, new: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kernel = torch.exp(-torch.cdist(x, x)).double()
        jitter = 1e-8
        factor, info = torch.linalg.cholesky_ex(kernel)
        for _ in range(3):
            if info == 0:
                break
            kernel = kernel + jitter * torch.eye(x.shape[0], dtype=torch.double)
            factor, info = torch.linalg.cholesky_ex(kernel)
            jitter *= 10
        weights = torch.cholesky_solve(y.double()[:, None], factor)
        cross = torch.exp(-torch.cdist(new, x)).double()
        half = torch.linalg.solve_triangular(factor, cross.T, upper=False)
        return cross @ weights, 1 - half.square().sum(0), 2 * factor.diagonal().log().sum()

    return Case(
        module(posterior),
        lambda n, m: (torch.randn(n, 2), torch.randn(n), torch.randn(m, 2)),
        (5, 3),
        [(2, 1), (9, 4)],
        ({0: "n"}, {0: "n"}, {0: "m"}),
    )


class _Normed(nn.Module):
    def __init__(self, online: bool) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(4, track_running_stats=True, affine=True)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.online = online

    def forward(self, x: Tensor) -> Tensor:
        if self.online:
            x = x[..., 1:] - x[..., :-1]
        return self.norm(x)


@reported("pytorch/pytorch", 128501)
def instance_norm_with_statistics() -> Case:
    return Case(
        _Normed(False).eval(), lambda b, n: (torch.randn(b, 4, n),), (2, 7), [(1, 1), (3, 12)], ({0: "b", 2: "n"},)
    )


@reported("pytorch/pytorch", 128501, "without a batch dimension, of differences, float64")
def instance_norm_of_differences() -> Case:
    return Case(
        _Normed(True).double().eval(),
        lambda n: (torch.randn(4, n, dtype=torch.double),),
        (7,),
        [(2,), (12,)],
        ({1: "n"},),
    )


class _Conformer(nn.Module):
    """One block of torchaudio's Conformer, and the mask that it makes of the lengths."""

    def __init__(self, subsample: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4)
        self.depthwise = nn.Conv1d(16, 16, 7, padding=3, groups=16)
        self.pointwise = nn.Conv1d(16, 32, 1)
        self.norm = nn.BatchNorm1d(16)
        self.reduce = nn.Conv1d(16, 16, 3, 2) if subsample else None

    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        if self.reduce is not None:
            input = self.reduce(input.mT).mT
            lengths = torch.div(lengths - 3, 2, rounding_mode="floor") + 1
        max_length = int(torch.max(lengths).item())
        mask = torch.arange(max_length).expand(lengths.shape[0], max_length) >= lengths.unsqueeze(1)
        x = input.transpose(0, 1)[:max_length]
        x = x + self.attention(x, x, x, key_padding_mask=mask, need_weights=False)[0]
        y = x.permute(1, 2, 0).masked_fill(mask.unsqueeze(1), 0.0)
        y = F.silu(self.norm(self.depthwise(F.glu(self.pointwise(y), dim=1))))
        return (x + y.permute(2, 0, 1)).transpose(0, 1), lengths


def _utterances(b: int, n: int) -> tuple[Tensor, Tensor]:
    lengths = torch.randint(3, n + 1, (b,))
    lengths[0] = n
    return torch.randn(b, n, 16), lengths


@reported("pytorch/pytorch", 122956)
def conformer() -> Case:
    return Case(_Conformer(False).eval(), _utterances, (3, 20), [(1, 9), (4, 31)], ({0: "b", 1: "n"}, {0: "b"}))


@reported("pytorch/pytorch", 122956, "after a convolution of stride 2, the lengths shorter than the input")
def conformer_subsampled() -> Case:
    def inputs(b: int, n: int) -> tuple[Tensor, Tensor]:
        x, lengths = _utterances(b, n)
        return torch.cat([x, torch.randn(b, 4, 16)], 1), lengths

    return Case(_Conformer(True).eval(), inputs, (3, 20), [(1, 9), (4, 31)], ({0: "b", 1: "n"}, {0: "b"}))
