"""torchaudio's models with small configurations, its transforms, and functions that take a waveform."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary
from opbridge.coverage.models.wrapping import Calling

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("torchaudio",)

_RATE = 8000
_BINS = 33
"""Frequencies of a spectrogram of 64 samples a frame."""
_BATCH = Size(2, (1, 3))
_WAVES = {"batch": _BATCH, "time": Size(1200, (960, 1501))}
_LONG_WAVES = {"batch": _BATCH, "time": Size(8192, (6144, 9001))}
_FRAMES = {"batch": _BATCH, "frames": Size(24, (19, 37))}
_STEPS = {"batch": _BATCH, "frames": Size(24, (20, 36))}
"""Frames of which there are four times as many as of something else."""
_TEXTS = {"batch": _BATCH, "frames": Size(24, (20, 36)), "tokens": Size(7, (5, 11))}


def entries() -> Iterator[ModelEntry]:
    """The models, the transforms without random numbers, and the filters."""
    for name, (make, draw, sizes) in {**_MODELS, **_TRANSFORMS}.items():
        yield ModelEntry(name, partial(_case, make, draw, sizes))
    for name, arguments in _FUNCTIONS.items():
        yield ModelEntry(f"functional.{name}", partial(_function, name, arguments))


def _case(make: Callable[[Any], torch.nn.Module], draw: Callable[..., Inputs], sizes: Mapping[str, Size]) -> Case:
    import torchaudio
    import torchaudio.transforms

    return vary(make(torchaudio), draw, sizes)


def _function(name: str, arguments: Mapping[str, Any]) -> Case:
    import torchaudio.functional

    values = {key: value() if callable(value) else value for key, value in arguments.items()}
    return vary(Calling(getattr(torchaudio.functional, name), **values), _wave, _WAVES)


def _wave(batch: int, time: int) -> Inputs:
    return Inputs((torch.rand(batch, time) * 1.6 - 0.8,))


def _waves_of(channels: int, batch: int, time: int) -> Inputs:
    return Inputs((torch.rand(batch, channels, time) * 1.6 - 0.8,))


def _two_waves(batch: int, time: int) -> Inputs:
    return Inputs((torch.rand(batch, time) - 0.5, torch.rand(batch, time) - 0.5))


def _noisy(batch: int, time: int) -> Inputs:
    return Inputs((torch.randn(batch, time), torch.randn(batch, time), torch.rand(batch) * 10, _lengths(batch, time)))


def _with_lengths(batch: int, time: int) -> Inputs:
    return Inputs((torch.randn(batch, time), _lengths(batch, time)))


def _lengths(batch: int, most: int) -> torch.Tensor:
    """The first has the greatest length, and each other one is one less than the one before it."""
    return torch.tensor([most - i for i in range(batch)])


def _features(width: int, batch: int, frames: int) -> Inputs:
    return Inputs((torch.randn(batch, frames, width), _lengths(batch, frames)))


def _context(right: int, batch: int, frames: int) -> Inputs:
    """Frames with those that follow after the end."""
    return Inputs((torch.randn(batch, frames + right, 16), _lengths(batch, frames)))


def _segment(batch: int) -> Inputs:
    """A segment with its right context, at the beginning of a stream."""
    return Inputs((torch.randn(batch, 6, 16), torch.full((batch,), 6)))


def _transducer(batch: int, frames: int, tokens: int) -> Inputs:
    features = torch.randn(batch, frames + 4, 16)
    targets = torch.randint(1, 12, (batch, tokens), dtype=torch.int32)
    lengths, target_lengths = _lengths(batch, frames).int(), _lengths(batch, tokens).int()
    return Inputs((features, lengths, targets, target_lengths))


def _mel_and_text(batch: int, frames: int, tokens: int) -> Inputs:
    text = torch.randint(0, 20, (batch, tokens))
    return Inputs((text, _lengths(batch, tokens), torch.randn(batch, 8, frames), _lengths(batch, frames)))


def _logits(batch: int, frames: int, tokens: int) -> Inputs:
    logits = torch.randn(batch, frames, tokens + 1, 12)
    targets = torch.randint(0, 11, (batch, tokens), dtype=torch.int32)
    return Inputs((logits, targets, _lengths(batch, frames).int(), _lengths(batch, tokens).int()))


def _wave_and_mel(batch: int, frames: int) -> Inputs:
    return Inputs((torch.randn(batch, 1, (frames - 4) * 12), torch.randn(batch, 1, 20, frames)))


def _image(batch: int, frames: int) -> Inputs:
    return Inputs((torch.randn(batch, 1, frames, 16),))


def _spectrum(bins: int, batch: int, frames: int) -> Inputs:
    return Inputs((torch.rand(batch, bins, frames) + 0.01,))


def _complex(batch: int, frames: int) -> Inputs:
    return Inputs((torch.randn(batch, _BINS, frames, dtype=torch.complex64),))


def _channels(batch: int, frames: int) -> Inputs:
    return Inputs((torch.randn(batch, 3, _BINS, frames, dtype=torch.complex64), torch.rand(batch, _BINS, frames)))


def _beams(batch: int, frames: int) -> Inputs:
    """A spectrogram of three microphones, and the spectral densities of speech and of noise."""
    noise = torch.randn(batch, _BINS, 3, 6, dtype=torch.complex64)
    speech = torch.randn(batch, _BINS, 3, 6, dtype=torch.complex64)
    densities = [part @ part.mH / 6 + 0.1 * torch.eye(3) for part in (speech, noise)]
    return Inputs((torch.randn(batch, 3, _BINS, frames, dtype=torch.complex64), *densities))


def _codes(batch: int, time: int) -> Inputs:
    return Inputs((torch.randint(0, 256, (batch, time)),))


def _emformer(package: Any, **options: Any) -> Any:
    return package.models.Emformer(16, 2, 32, 2, segment_length=4, right_context_length=2, **options)


_WAV2VEC = {
    "extractor_conv_layer_config": [(16, 10, 5), (16, 3, 2), (16, 2, 2)],
    "extractor_conv_bias": False,
    "encoder_embed_dim": 32,
    "encoder_projection_dropout": 0.0,
    "encoder_pos_conv_kernel": 8,
    "encoder_pos_conv_groups": 4,
    "encoder_num_layers": 2,
    "encoder_num_heads": 2,
    "encoder_attention_dropout": 0.0,
    "encoder_ff_interm_features": 48,
    "encoder_ff_interm_dropout": 0.0,
    "encoder_dropout": 0.0,
    "encoder_layer_drop": 0.0,
    "aux_num_out": 10,
}
_WAVLM = {"encoder_num_buckets": 16, "encoder_max_distance": 40}


def _wav2vec(package: Any, mode: str, first: bool) -> Any:
    return package.models.wav2vec2_model(extractor_mode=mode, encoder_layer_norm_first=first, **_WAV2VEC)


def _wavlm(package: Any) -> Any:
    return package.models.wavlm_model(extractor_mode="group_norm", encoder_layer_norm_first=False, **_WAV2VEC, **_WAVLM)


def _emformer_transducer(package: Any) -> Any:
    return package.models.rnnt.emformer_rnnt_model(
        input_dim=16,
        encoding_dim=24,
        num_symbols=12,
        segment_length=4,
        right_context_length=4,
        time_reduction_input_dim=8,
        time_reduction_stride=4,
        transformer_num_heads=2,
        transformer_ffn_dim=32,
        transformer_num_layers=2,
        transformer_dropout=0.0,
        transformer_activation="gelu",
        transformer_left_context_length=4,
        transformer_max_memory_size=0,
        transformer_weight_init_scale_strategy="depthwise",
        transformer_tanh_on_mem=True,
        symbol_embedding_dim=16,
        num_lstm_layers=2,
        lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-3,
        lstm_dropout=0.0,
    )


def _tacotron(package: Any) -> Any:
    return package.models.Tacotron2(
        n_mels=8,
        n_symbol=20,
        symbol_embedding_dim=16,
        encoder_embedding_dim=16,
        decoder_rnn_dim=16,
        decoder_max_step=12,
        attention_rnn_dim=16,
        attention_hidden_dim=8,
        attention_location_n_filter=4,
        attention_location_kernel_size=5,
        prenet_dim=8,
        postnet_embedding_dim=16,
    )


def _wavernn(package: Any) -> Any:
    return package.models.WaveRNN(
        [2, 2, 3], 16, 12, n_res_block=2, n_rnn=16, n_fc=16, n_freq=20, n_hidden=16, n_output=16
    )


def _tasnet(package: Any, **options: Any) -> Any:
    return package.models.ConvTasNet(
        enc_num_feats=16, msk_num_feats=8, msk_num_hidden_feats=16, msk_num_layers=3, msk_num_stacks=2, **options
    )


def _objective(package: Any) -> Any:
    return package.models.squim_objective_model(
        feat_dim=16, win_len=16, d_model=16, nhead=2, hidden_dim=16, num_blocks=2, rnn_type="LSTM", chunk_size=10
    )


def _demucs(package: Any) -> Any:
    return package.models.HDemucs(["drums", "bass"], channels=8)


_Row = tuple[Callable[[Any], torch.nn.Module], Callable[..., Inputs], Mapping[str, Size]]
_MODELS: Mapping[str, _Row] = {
    "Conformer": (lambda package: package.models.Conformer(16, 2, 32, 2, 7), partial(_features, 16), _FRAMES),
    "Conformer, use_group_norm": (
        lambda package: package.models.Conformer(16, 2, 32, 2, 7, use_group_norm=True),
        partial(_features, 16),
        _FRAMES,
    ),
    "ConvTasNet": (_tasnet, partial(_waves_of, 1), _WAVES),
    "ConvTasNet, relu": (partial(_tasnet, msk_activate="relu"), partial(_waves_of, 1), _WAVES),
    "DeepSpeech": (lambda package: package.models.DeepSpeech(16, n_hidden=32, n_class=10), _image, _FRAMES),
    "Emformer": (_emformer, partial(_context, 2), _FRAMES),
    "Emformer, left_context_length": (partial(_emformer, left_context_length=4), partial(_context, 2), _FRAMES),
    "Emformer, max_memory_size": (
        partial(_emformer, left_context_length=4, max_memory_size=2),
        partial(_context, 2),
        _FRAMES,
    ),
    "Emformer, infer": (
        lambda package: Calling(lambda module, *inputs: module.infer(*inputs), _emformer(package)),
        _segment,
        {"batch": _BATCH},
    ),
    "HDemucs": (_demucs, partial(_waves_of, 2), _LONG_WAVES),
    "RNNT, Emformer": (_emformer_transducer, _transducer, _TEXTS),
    "SquimObjective": (_objective, _wave, _WAVES),
    "Tacotron2": (_tacotron, _mel_and_text, _TEXTS),
    "Tacotron2, infer": (
        lambda package: Calling(lambda module, *inputs: module.infer(*inputs), _tacotron(package)),
        lambda batch, tokens: Inputs((torch.randint(0, 20, (batch, tokens)), _lengths(batch, tokens))),
        {"batch": _BATCH, "tokens": _TEXTS["tokens"]},
    ),
    "Wav2Letter": (lambda package: package.models.Wav2Letter(8, "mfcc", 8), partial(_spectrum, 8), _FRAMES),
    "Wav2Letter, waveform": (
        lambda package: package.models.Wav2Letter(8),
        partial(_waves_of, 1),
        {"batch": _BATCH, "time": Size(4000, (3500, 4301))},
    ),
    "WaveRNN": (_wavernn, _wave_and_mel, _FRAMES),
    "Wav2Vec2Model": (partial(_wav2vec, mode="group_norm", first=False), _with_lengths, _WAVES),
    "Wav2Vec2Model, layer_norm": (partial(_wav2vec, mode="layer_norm", first=True), _with_lengths, _WAVES),
    "Wav2Vec2Model, no lengths": (partial(_wav2vec, mode="group_norm", first=False), _wave, _WAVES),
    "WavLM": (_wavlm, _wave, _WAVES),
}


def _transform(name: str, *args: Any, **options: Any) -> Callable[[Any], torch.nn.Module]:
    return lambda package: getattr(package.transforms, name)(*args, **options)


_TRANSFORMS: Mapping[str, _Row] = {
    "Spectrogram": (_transform("Spectrogram", n_fft=64), _wave, _WAVES),
    "Spectrogram, complex": (_transform("Spectrogram", n_fft=64, power=None), _wave, _WAVES),
    "Spectrogram, center=False": (_transform("Spectrogram", n_fft=64, center=False, normalized=True), _wave, _WAVES),
    "InverseSpectrogram": (_transform("InverseSpectrogram", n_fft=64), _complex, _FRAMES),
    "GriffinLim": (_transform("GriffinLim", n_fft=64, n_iter=4, rand_init=False), partial(_spectrum, _BINS), _FRAMES),
    "AmplitudeToDB": (_transform("AmplitudeToDB", top_db=80.0), partial(_spectrum, _BINS), _FRAMES),
    "MelScale": (_transform("MelScale", 8, _RATE, n_stft=_BINS), partial(_spectrum, _BINS), _FRAMES),
    "InverseMelScale": (_transform("InverseMelScale", _BINS, 8, _RATE), partial(_spectrum, 8), _FRAMES),
    "MelSpectrogram": (_transform("MelSpectrogram", _RATE, n_fft=64, n_mels=8), _wave, _WAVES),
    "MFCC": (_transform("MFCC", _RATE, n_mfcc=6, melkwargs={"n_fft": 64, "n_mels": 8}), _wave, _WAVES),
    "LFCC": (_transform("LFCC", _RATE, n_filter=16, n_lfcc=6, speckwargs={"n_fft": 64}), _wave, _WAVES),
    "MuLawEncoding": (_transform("MuLawEncoding"), _wave, _WAVES),
    "MuLawDecoding": (_transform("MuLawDecoding"), _codes, _WAVES),
    "Resample, 8000 to 6000": (_transform("Resample", 8000, 6000), _wave, _WAVES),
    "Resample, 8000 to 16000": (_transform("Resample", 8000, 16000), _wave, _WAVES),
    "ComputeDeltas": (_transform("ComputeDeltas"), partial(_spectrum, 8), _FRAMES),
    "TimeStretch": (_transform("TimeStretch", n_freq=_BINS, hop_length=32, fixed_rate=1.25), _complex, _FRAMES),
    "Fade": (_transform("Fade", 100, 200, "half_sine"), _wave, _WAVES),
    "Loudness": (
        _transform("Loudness", _RATE),
        partial(_waves_of, 2),
        {"batch": _BATCH, "time": Size(6000, (5600, 7001))},
    ),
    "Vol": (_transform("Vol", 2.0, "db"), _wave, _WAVES),
    "SlidingWindowCmn": (_transform("SlidingWindowCmn", cmn_window=12), partial(_spectrum, 8), _FRAMES),
    "SlidingWindowCmn, center": (
        _transform("SlidingWindowCmn", cmn_window=12, center=True, norm_vars=True),
        partial(_spectrum, 8),
        _FRAMES,
    ),
    "SpectralCentroid": (_transform("SpectralCentroid", _RATE, n_fft=64), _wave, _WAVES),
    "PitchShift": (_transform("PitchShift", _RATE, 4, n_fft=64), _wave, _WAVES),
    "RNNTLoss": (_transform("RNNTLoss", reduction="none"), _logits, _TEXTS),
    "Convolve": (_transform("Convolve"), _two_waves, _WAVES),
    "FFTConvolve": (_transform("FFTConvolve", "same"), _two_waves, _WAVES),
    "Speed": (_transform("Speed", _RATE, 1.1), _with_lengths, _WAVES),
    "AddNoise": (_transform("AddNoise"), _noisy, _WAVES),
    "Preemphasis": (_transform("Preemphasis"), _wave, _WAVES),
    "Deemphasis": (_transform("Deemphasis"), _wave, _WAVES),
    "PSD": (_transform("PSD", multi_mask=False), _channels, _FRAMES),
    "MVDR": (_transform("MVDR"), _channels, _FRAMES),
    "MVDR, stv_evd": (_transform("MVDR", solution="stv_evd"), _channels, _FRAMES),
    "SoudenMVDR": (
        lambda package: Calling(
            lambda module, *inputs: module(*inputs, reference_channel=0), package.transforms.SoudenMVDR()
        ),
        _beams,
        _FRAMES,
    ),
    "RTFMVDR": (
        lambda package: Calling(
            lambda module, spectrum, speech, noise: module(spectrum, speech[..., 0], noise, reference_channel=0),
            package.transforms.RTFMVDR(),
        ),
        _beams,
        _FRAMES,
    ),
}

_FUNCTIONS: Mapping[str, Mapping[str, Any]] = {
    "lowpass_biquad": {"sample_rate": _RATE, "cutoff_freq": 1000.0},
    "lfilter": {
        "a_coeffs": lambda: torch.tensor([1.0, -0.5, 0.2]),
        "b_coeffs": lambda: torch.tensor([0.3, 0.4, 0.1]),
    },
    "filtfilt": {
        "a_coeffs": lambda: torch.tensor([1.0, -0.5, 0.2]),
        "b_coeffs": lambda: torch.tensor([0.3, 0.4, 0.1]),
    },
    "contrast": {},
    "overdrive": {},
    "phaser": {"sample_rate": _RATE},
    "detect_pitch_frequency": {"sample_rate": _RATE, "win_length": 10},
    "gain": {"gain_db": 3.0},
    "dcshift": {"shift": 0.1, "limiter_gain": 0.05},
    "riaa_biquad": {"sample_rate": 44100},
}
