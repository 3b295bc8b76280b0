"""speechbrain's models and the layers that they are made of, with small configurations."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary
from opbridge.coverage.models.wrapping import Calling

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("speechbrain",)

_WIDTH = 16
_BATCH = Size(2, (1, 3))
_FRAMES = {"batch": _BATCH, "frames": Size(24, (19, 37))}
_WAVES = {"batch": _BATCH, "time": Size(1600, (1280, 2001))}
_TEXTS = {"batch": _BATCH, "tokens": Size(9, (7, 13))}
_PAIRS = {**_FRAMES, "tokens": Size(9, (7, 13))}


def entries() -> Iterator[ModelEntry]:
    """The models, then layers and features."""
    for name, (make, draw, sizes) in {**_MODELS, **_LAYERS}.items():
        yield ModelEntry(name, partial(_case, make, draw, sizes))


def _case(make: Callable[[], torch.nn.Module], draw: Callable[..., Inputs], sizes: Mapping[str, Size]) -> Case:
    return vary(make(), draw, sizes)


def _made(path: str, *args: Any, **options: Any) -> torch.nn.Module:
    """An instance of a class of the package, by the name of its module and its own."""
    module, name = path.rsplit(".", 1)
    made: torch.nn.Module = getattr(importlib.import_module(f"speechbrain.{module}"), name)(*args, **options)
    return made


def _frames(width: int, batch: int, frames: int) -> Inputs:
    return Inputs((torch.randn(batch, frames, width),))


def _columns(width: int, batch: int, frames: int) -> Inputs:
    return Inputs((torch.randn(batch, width, frames),))


def _frames_and_lengths(width: int, batch: int, frames: int) -> Inputs:
    return Inputs((torch.randn(batch, frames, width), _relative(batch)))


def _relative(batch: int) -> torch.Tensor:
    """Lengths as parts of the longest one."""
    return torch.tensor([1.0 - 0.25 * (i % 3) for i in range(batch)])


def _waves(batch: int, time: int) -> Inputs:
    return Inputs((torch.randn(batch, time),))


def _tokens(batch: int, tokens: int) -> Inputs:
    return Inputs((torch.randint(1, 20, (batch, tokens)),))


def _speech_and_text(batch: int, frames: int, tokens: int) -> Inputs:
    return Inputs((torch.randn(batch, frames, _WIDTH), torch.randint(1, 20, (batch, tokens)), _relative(batch)))


def _microphones(batch: int, time: int) -> Inputs:
    return Inputs((torch.randn(batch, time, 1),))


def _noise(batch: int, frames: int) -> Inputs:
    """A wave, the step of the diffusion, and a spectrogram."""
    return Inputs((torch.randn(batch, 1, 256 * frames), torch.randint(0, 10, (batch,)), torch.randn(batch, 80, frames)))


def _images(batch: int, frames: int) -> Inputs:
    return Inputs((torch.randn(batch, frames, 8, 4),))


def _attended(batch: int, frames: int) -> Inputs:
    """The states of an encoder, their lengths, and the state of a decoder."""
    return Inputs((torch.randn(batch, frames, _WIDTH), _lengths(batch, frames), torch.randn(batch, 12)))


def _lengths(batch: int, most: int) -> torch.Tensor:
    return torch.tensor([most - i for i in range(batch)])


def _decoded(batch: int, frames: int, tokens: int) -> Inputs:
    return Inputs((torch.randn(batch, tokens, 10), torch.randn(batch, frames, _WIDTH), _relative(batch)))


def _with_positions(path: str, **options: Any) -> torch.nn.Module:
    modules = torch.nn.ModuleList([_made(path, **options), _made("nnet.attention.RelPosEncXL", _WIDTH)])

    def encode(pair: Any, frames: torch.Tensor) -> Any:
        return pair[0](frames, pos_embs=pair[1](frames))

    return Calling(encode, modules)


def _asr(**options: Any) -> torch.nn.Module:
    return _made(
        "lobes.models.transformer.TransformerASR.TransformerASR",
        20,
        _WIDTH,
        d_model=_WIDTH,
        nhead=2,
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_ffn=24,
        normalize_before=True,
        **{"kernel_size": 7, "csgu_linear_units": 24, **options},
    )


def _calls(function: Callable[..., Any], path: str, *args: Any, **options: Any) -> torch.nn.Module:
    return Calling(function, _made(path, *args, **options))


def _attention(path: str, *args: Any, **options: Any) -> torch.nn.Module:
    """Attention of frames to themselves."""
    return _calls(lambda module, x: module(x, x, x), path, *args, **options)


def _hifigan(kind: str) -> torch.nn.Module:
    return _made(
        "lobes.models.HifiGAN.HifiganGenerator",
        _WIDTH,
        1,
        kind,
        [[1, 3], [1, 3]],
        [3, 5],
        [8, 4],
        16,
        [4, 2],
        inference_padding=0,
    )


def _separator(memory: str, causal: bool) -> torch.nn.Module:
    module = "lobes.models.resepformer"
    if memory == "hc":
        parts = [_made(f"{module}.SegLSTM", _WIDTH, 12), _made(f"{module}.MemLSTM", 12)]
    else:
        parts = [_made(f"{module}.SBTransformerBlock_wnormandskip", 1, _WIDTH, 2, d_ffn=24) for _ in range(2)]
    return _made(
        "lobes.models.resepformer.ResourceEfficientSeparator",
        _WIDTH,
        causal=causal,
        layer=2,
        unit=12,
        segment_size=6,
        mem_type=memory,
        seg_model=parts[0],
        mem_model=parts[1],
    )


def _ecapa() -> torch.nn.Module:
    return _made(
        f"{_LOBES}.ECAPA_TDNN.ECAPA_TDNN",
        _WIDTH,
        lin_neurons=12,
        channels=[16, 16, 16, 16, 48],
        attention_channels=8,
        se_channels=8,
    )


def _fast_speech() -> torch.nn.Module:
    sizes = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in _SIDE.items()}
    model: Any = _made(
        "lobes.models.FastSpeech2.FastSpeech2",
        **sizes,
        normalize_before=False,
        ffn_type="1dcnn",
        ffn_cnn_kernel_size_list=[3, 1],
        n_char=20,
        n_mels=8,
        postnet_embedding_dim=16,
        postnet_kernel_size=5,
        postnet_n_convolutions=3,
        postnet_dropout=0.0,
        padding_idx=0,
        dur_pred_kernel_size=3,
        pitch_pred_kernel_size=3,
        energy_pred_kernel_size=3,
        variance_predictor_dropout=0.0,
    )
    with torch.no_grad():
        model.durPred.linear.w.bias.fill_(1.2)  # about two frames for each token
    return model


def _tacotron() -> torch.nn.Module:
    return _made(
        "lobes.models.Tacotron2.Tacotron2",
        n_mel_channels=8,
        n_symbols=20,
        symbols_embedding_dim=16,
        encoder_embedding_dim=16,
        attention_rnn_dim=16,
        attention_dim=8,
        attention_location_n_filters=4,
        attention_location_kernel_size=5,
        decoder_rnn_dim=16,
        prenet_dim=8,
        max_decoder_steps=10,
        postnet_embedding_dim=16,
    )


def _mel_and_text(batch: int, frames: int, tokens: int) -> Inputs:
    text = (torch.randint(0, 20, (batch, tokens)), _lengths(batch, tokens))
    return Inputs(((*text, torch.randn(batch, 8, frames), tokens, _lengths(batch, frames)),))


_SIDE = {"num_layers": 2, "num_head": 2, "d_model": 16, "ffn_dim": 24, "k_dim": 16, "v_dim": 16, "dropout": 0.0}
_FRAME, _LENGTHS = partial(_frames, _WIDTH), partial(_frames_and_lengths, _WIDTH)
_SMALL_CNN = {"cnn_channels": [4, 4], "rnn_layers": 2, "rnn_neurons": 16, "dnn_neurons": 16}
_Row = tuple[Callable[[], torch.nn.Module], Callable[..., Inputs], Mapping[str, Size]]
_LOBES = "lobes.models"
_MODELS: Mapping[str, _Row] = {
    "CRDNN": (
        lambda: _made(f"{_LOBES}.CRDNN.CRDNN", input_shape=[None, None, _WIDTH], **_SMALL_CNN),
        _FRAME,
        _FRAMES,
    ),
    "CRDNN, LSTM": (
        lambda: _made(
            f"{_LOBES}.CRDNN.CRDNN",
            input_shape=[None, None, _WIDTH],
            rnn_class=importlib.import_module("speechbrain.nnet.RNN").LSTM,
            time_pooling=True,
            **_SMALL_CNN,
        ),
        _FRAME,
        _FRAMES,
    ),
    "Cnn14": (
        lambda: _made(f"{_LOBES}.Cnn14.Cnn14", 64, 16),
        lambda batch, frames: Inputs((torch.randn(batch, 4 * frames, 64),)),
        _FRAMES,
    ),
    "ContextNet": (
        lambda: _made(
            f"{_LOBES}.ContextNet.ContextNet",
            (None, None, _WIDTH),
            out_channels=16,
            conv_channels=[8, 8, 8],
            strides=[1, 2, 1],
            num_blocks=3,
            num_layers=2,
            residuals=[True, True, True],
        ),
        _FRAME,
        _FRAMES,
    ),
    "ConvTasNet": (
        lambda: _made(f"{_LOBES}.conv_tasnet.MaskNet", 16, 8, 12, 3, 3, 2, 2),
        partial(_columns, 16),
        _FRAMES,
    ),
    "DiffWave": (
        lambda: _made(f"{_LOBES}.DiffWave.DiffWave", 80, 4, 8, 2, 10),
        _noise,
        {"batch": _BATCH, "frames": Size(4, (3, 6))},
    ),
    "ECAPA_TDNN": (_ecapa, _LENGTHS, _FRAMES),
    "ECAPA_TDNN, no lengths": (_ecapa, _FRAME, _FRAMES),
    "EnhanceResnet": (
        lambda: _made(f"{_LOBES}.EnhanceResnet.EnhanceResnet", n_fft=512, channel_counts=[4, 8], dense_nodes=16),
        _waves,
        _WAVES,
    ),
    "FastSpeech2": (_fast_speech, _tokens, _TEXTS),
    "HifiganGenerator": (lambda: _hifigan("2"), partial(_columns, _WIDTH), _FRAMES),
    "MetricGAN": (lambda: _made(f"{_LOBES}.MetricGAN.EnhancementGenerator", _WIDTH), _LENGTHS, _FRAMES),
    "RNNLM": (
        lambda: _made(f"{_LOBES}.RNNLM.RNNLM", 20, embedding_dim=8, rnn_neurons=16, dnn_neurons=12),
        _tokens,
        _TEXTS,
    ),
    "ResNet": (
        lambda: _made(
            f"{_LOBES}.ResNet.ResNet", _WIDTH, channels=[8, 8, 8, 8], block_sizes=[1, 1, 1, 1], lin_neurons=12
        ),
        _LENGTHS,
        _FRAMES,
    ),
    "ResourceEfficientSeparator": (
        lambda: _separator("hc", True),
        partial(_columns, _WIDTH),
        _FRAMES,
    ),
    "ResourceEfficientSeparator, causal=False": (
        lambda: _separator("av", False),
        partial(_columns, _WIDTH),
        _FRAMES,
    ),
    "SepformerWrapper": (
        lambda: _made(
            f"{_LOBES}.dual_path.SepformerWrapper",
            encoder_out_nchannels=16,
            masknet_chunksize=20,
            masknet_numlayers=1,
            intra_numlayers=1,
            inter_numlayers=1,
            intra_nhead=2,
            inter_nhead=2,
            intra_dffn=24,
            inter_dffn=24,
        ),
        _waves,
        _WAVES,
    ),
    "Tacotron2": (_tacotron, _mel_and_text, _PAIRS),
    "TransformerASR": (_asr, _speech_and_text, _PAIRS),
    "TransformerASR, conformer": (
        lambda: _asr(encoder_module="conformer", attention_type="RelPosMHAXL", causal=False),
        _speech_and_text,
        _PAIRS,
    ),
    "TransformerASR, branchformer": (
        lambda: _asr(encoder_module="branchformer", attention_type="RelPosMHAXL", causal=False),
        _speech_and_text,
        _PAIRS,
    ),
    "TransformerASR, RoPEMHA": (
        lambda: _asr(encoder_module="conformer", attention_type="RoPEMHA", causal=False),
        _speech_and_text,
        _PAIRS,
    ),
    "TransformerASR, hypermixing": (
        lambda: _asr(encoder_module="conformer", attention_type="hypermixing", causal=False),
        _speech_and_text,
        _PAIRS,
    ),
    "TransformerLM": (
        lambda: _made(
            f"{_LOBES}.transformer.TransformerLM.TransformerLM", 20, d_model=16, nhead=2, num_encoder_layers=2, d_ffn=24
        ),
        _tokens,
        _TEXTS,
    ),
    "CNNTransformerSE": (
        lambda: _made(
            f"{_LOBES}.transformer.TransformerSE.CNNTransformerSE", _WIDTH, _WIDTH, nhead=2, num_layers=2, d_ffn=24
        ),
        _FRAME,
        _FRAMES,
    ),
    "ConformerEncoder": (
        lambda: _with_positions(
            f"{_LOBES}.transformer.Conformer.ConformerEncoder",
            num_layers=2,
            d_model=_WIDTH,
            d_ffn=24,
            nhead=2,
            kernel_size=7,
        ),
        _FRAME,
        _FRAMES,
    ),
    "BranchformerEncoder": (
        lambda: _with_positions(
            f"{_LOBES}.transformer.Branchformer.BranchformerEncoder",
            num_layers=2,
            d_model=_WIDTH,
            nhead=2,
            kernel_size=7,
            csgu_linear_units=24,
        ),
        _FRAME,
        _FRAMES,
    ),
    "W2VLatentExtractor": (
        lambda: _made(
            f"{_LOBES}.wav2vec.W2VLatentExtractor", out_channels=[16] * 3, kernel_sizes=[11, 3, 3], strides=[5, 2, 2]
        ),
        _waves,
        _WAVES,
    ),
    "Xvector": (
        lambda: _made(
            f"{_LOBES}.Xvector.Xvector",
            in_channels=_WIDTH,
            tdnn_channels=[16, 16, 16, 16, 32],
            lin_neurons=12,
        ),
        _LENGTHS,
        _FRAMES,
    ),
}


def _recurrent(name: str, **options: Any) -> Callable[[], torch.nn.Module]:
    return lambda: _made(f"nnet.RNN.{name}", 12, input_shape=[2, None, _WIDTH], **options)


def _decoder(attention: str) -> torch.nn.Module:
    return _made("nnet.RNN.AttentionalRNNDecoder", "gru", attention, 12, 8, 1, _WIDTH, 10, channels=4, kernel_size=5)


_LAYERS: Mapping[str, _Row] = {
    "LSTM, lengths": (
        lambda: Calling(
            lambda module, frames, lengths: module(frames, lengths=lengths),
            _recurrent("LSTM", bidirectional=True, num_layers=2)(),
        ),
        _LENGTHS,
        _FRAMES,
    ),
    "GRU": (_recurrent("GRU", bidirectional=True), _FRAME, _FRAMES),
    "LiGRU": (_recurrent("LiGRU", bidirectional=True), _FRAME, _FRAMES),
    "SLiGRU": (_recurrent("SLiGRU", num_layers=2), _FRAME, _FRAMES),
    "QuasiRNN": (_recurrent("QuasiRNN", bidirectional=False), _FRAME, _FRAMES),
    "AttentionalRNNDecoder, content": (lambda: _decoder("content"), _decoded, _PAIRS),
    "AttentionalRNNDecoder, location": (lambda: _decoder("location"), _decoded, _PAIRS),
    "RelPosMHAXL": (
        lambda: Calling(
            lambda pair, x: pair[0](x, x, x, pair[1](x)),
            torch.nn.ModuleList(
                [_made("nnet.attention.RelPosMHAXL", _WIDTH, 2), _made("nnet.attention.RelPosEncXL", _WIDTH)]
            ),
        ),
        _FRAME,
        _FRAMES,
    ),
    "RoPEMHA": (lambda: _attention("nnet.attention.RoPEMHA", _WIDTH, 2), _FRAME, _FRAMES),
    "HyperMixing": (lambda: _attention("nnet.hypermixing.HyperMixing", _WIDTH, 12), _FRAME, _FRAMES),
    "SincConv": (
        lambda: _made("nnet.CNN.SincConv", 8, 25, input_shape=[None, None, 1]),
        _microphones,
        _WAVES,
    ),
    "GaborConv1d": (
        lambda: _made("nnet.CNN.GaborConv1d", 8, 25, 4, in_channels=1, padding="same", skip_transpose=False),
        _microphones,
        _WAVES,
    ),
    "Leaf": (lambda: _made("lobes.features.Leaf", 8, in_channels=1), _waves, _WAVES),
    "Fbank": (
        lambda: _made("lobes.features.Fbank", deltas=True, context=True, n_mels=8),
        _waves,
        {"batch": _BATCH, "time": Size(4000, (3200, 4801))},
    ),
    "MFCC": (lambda: _made("lobes.features.MFCC", n_mels=16, n_mfcc=6), _waves, _WAVES),
    "STFT, ISTFT": (
        lambda: Calling(
            lambda pair, wave: pair[1](pair[0](wave)),
            torch.nn.ModuleList([_made("processing.features.STFT", 16000), _made("processing.features.ISTFT", 16000)]),
        ),
        _waves,
        _WAVES,
    ),
    "InputNormalization": (
        lambda: _made("processing.features.InputNormalization", norm_type="sentence"),
        _LENGTHS,
        _FRAMES,
    ),
    "StatisticsPooling": (lambda: _made("nnet.pooling.StatisticsPooling"), _LENGTHS, _FRAMES),
    "AttentionPooling": (lambda: _made("nnet.pooling.AttentionPooling", _WIDTH), _FRAME, _FRAMES),
    "PCEN": (
        lambda: _calls(lambda module, x: module(x.exp()), "nnet.normalization.PCEN", _WIDTH),
        _FRAME,
        _FRAMES,
    ),
    "UNetModel": (
        lambda: _calls(
            lambda module, image, steps: module(image, steps),
            "nnet.unet.UNetModel",
            2,
            8,
            2,
            1,
            [2],
            channel_mult=(1, 2),
            norm_num_groups=4,
            num_heads=2,
        ),
        lambda batch, height, width: Inputs((torch.randn(batch, 2, height, width), torch.randint(0, 10, (batch,)))),
        {"batch": _BATCH, "height": Size(16, (12, 20)), "width": Size(20, (16, 12))},
    ),
    "RandomProjectionQuantizer": (
        lambda: _made("nnet.quantisers.RandomProjectionQuantizer", _WIDTH, 8, 24),
        _FRAME,
        _FRAMES,
    ),
}
