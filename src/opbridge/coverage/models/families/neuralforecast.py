"""neuralforecast's models of time series, with small configurations and with the exogenous series that they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary
from opbridge.coverage.models.wrapping import Calling

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("neuralforecast",)

_PAST, _HORIZON, _SERIES = 24, 6, 3
_SIZES = {"batch": Size(2, (1, 3))}
_RECURRENT_SIZES = {**_SIZES, "time": Size(_PAST, (19, 31))}
_LEFT_OUT = ("HINT", "TimeLLM", "xLSTM")
"""One reconciles the forecasts of another model, one downloads a language model, and one needs CUDA kernels."""

_OPTIONS: Mapping[str, Any] = {
    "encoder_hidden_size": 16,
    "decoder_hidden_size": 16,
    "lstm_hidden_size": 16,
    "hidden_size": 16,
    "linear_hidden_size": 24,
    "conv_hidden_size": 16,
    "n_head": 2,
    "n_heads": 2,
    "encoder_layers": 2,
    "mlp_units": [[16, 16]] * 3,
    "moving_avg_window": 5,
    "MovingAvg_window": 5,
    "moving_avg": 5,
    "patch_len": 6,
    "d_core": 16,
    "d_ff": 24,
    "d_model": 16,
    "e_layers": 2,
    "ff_dim": 16,
    "modes": 4,
    "temporal_ff": 16,
    "trajectory_samples": 4,
    "temporal_decoder_dim": 16,
    "decoder_output_dim": 8,
    "top_k": 2,
    "num_kernels": 2,
    "dilations": None,
    "encoder_n_blocks": 2,
}
"""Options by name, for every model that has them; those that are None keep their defaults."""
_OWN: Mapping[str, Mapping[str, Any]] = {"FEDformer": {"n_head": 8}}
_LOSSES: Mapping[str, str] = {"DeepAR": "DistributionLoss"}
_MORE = ("NHITS", "TFT", "LSTM")
"""Models that are tried with losses of more than one output."""


def entries() -> Iterator[ModelEntry]:
    """Every model as it is, with exogenous series where it takes them, and some with distributions and quantiles."""
    from neuralforecast import models

    for name in models.__all__:
        if name in _LEFT_OUT:
            continue
        cls = getattr(models, name)
        yield ModelEntry(name, partial(_make, name, False))
        if cls.EXOGENOUS_FUTR or cls.EXOGENOUS_HIST or cls.EXOGENOUS_STAT:
            yield ModelEntry(f"{name}, exogenous", partial(_make, name, True))
    for name in _MORE:
        for loss in ("DistributionLoss", "MQLoss"):
            yield ModelEntry(f"{name}, {loss}", partial(_make, name, False, loss))


def _make(name: str, exogenous: bool, loss: str | None = None) -> Case:
    import inspect

    from neuralforecast import models

    cls = getattr(models, name)
    parameters = inspect.signature(cls.__init__).parameters
    options = {key: value for key, value in _OPTIONS.items() if key in parameters and value is not None}
    options |= _OWN.get(name, {})
    if cls.MULTIVARIATE:
        options["n_series"] = _SERIES
    if exogenous:
        options |= {
            f"{kind}_exog_list": [f"{kind} {i}" for i in range(2)]
            for kind in ("futr", "hist", "stat")
            if getattr(cls, f"EXOGENOUS_{kind.upper()}")
        }
    model = cls(h=_HORIZON, input_size=_PAST, loss=_loss(loss or _LOSSES.get(name, "MAE")), **options)
    draw = partial(_windows, name, cls, exogenous)
    sizes = _RECURRENT_SIZES if model.RECURRENT else _SIZES
    return vary(Calling(_forecast, model), draw, sizes)


def _loss(name: str) -> Any:
    from neuralforecast.losses import pytorch

    if name == "DistributionLoss":
        return pytorch.DistributionLoss("StudentT", level=[80])
    return pytorch.MQLoss(level=[80]) if name == "MQLoss" else pytorch.MAE()


def _forecast(model: Any, windows: dict[str, Any]) -> Any:
    """The output of the network, and its distribution's parameters where the loss has one."""
    return model(dict(windows))


def _windows(name: str, cls: Any, exogenous: bool, batch: int, time: int = _PAST) -> Inputs:
    """Windows of several series each; of the series of a model of one, each window has one."""
    series = (_SERIES,) if cls.MULTIVARIATE else ()
    given: dict[str, Any] = {
        "insample_y": torch.randn(batch, time, *(series or (1,))),
        "insample_mask": torch.ones(batch, time, *(series or (1,))),
        "futr_exog": None,
        "hist_exog": None,
        "stat_exog": None,
    }
    if exogenous:
        future, past = time + _HORIZON, time
        if cls.EXOGENOUS_FUTR:
            given["futr_exog"] = (
                torch.randn(batch, 2, future, _SERIES)
                if series
                else torch.randn(batch, time if name == "DeepAR" else future, 2)
            )
        if cls.EXOGENOUS_HIST:
            given["hist_exog"] = torch.randn(batch, 2, past, _SERIES) if series else torch.randn(batch, past, 2)
        if cls.EXOGENOUS_STAT:
            given["stat_exog"] = torch.randn(_SERIES, 2) if series else torch.randn(batch, 2)
    return Inputs((given,))
