"""`@parse_args` of symbolic functions: weights, buffers and what follows from them are constants at export."""

from __future__ import annotations

import pytest
import torch
from cases.declare import define, floats
from torch.onnx.symbolic_helper import parse_args

import opbridge
from opbridge.errors import MissingOperators

_scaled = define("parsed_scale", "(Tensor x, Tensor scale) -> Tensor", lambda x, scale: x * scale.to(x.dtype))


@parse_args("v", "t")
def scaled(g, x, scale):
    assert isinstance(scale, torch.Tensor)
    return g.op("Mul", x, g.op("Constant", value_t=scale))


@parse_args("v", "f")
def scaled_by_a_number(g, x, scale):
    return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(scale)))


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        return x * scale

    symbolic = staticmethod(scaled)


class _Model(torch.nn.Module):
    def __init__(self, scale, call=_scaled, dtype=torch.float32):
        super().__init__()
        self.weight = torch.nn.Parameter(floats(4))
        self.register_buffer("buffer", torch.tensor([0.5, -1.0, 2.0, 3.0]).to(dtype))
        self.scale, self.call = scale, call

    def forward(self, x):
        return self.call(x, self.scale(self, x)) + self.weight


SCALES = {
    "a buffer": lambda model, x: model.buffer,
    "a weight": lambda model, x: model.weight,
    "of a weight": lambda model, x: model.weight.abs().amax(),
    "of both": lambda model, x: model.weight.detach() @ model.buffer,
    "made in forward": lambda model, x: torch.tensor([1.0, 2.0, 3.0, 4.0]),
}


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("call", [_scaled, _Scaled.apply], ids=["an operator", "a function"])
def test_what_is_known_at_export_is_a_constant(name, call):
    with opbridge.override():
        opbridge.symbolic("opcases::parsed_scale")(scaled)
        program = opbridge.export(_Model(SCALES[name], call).eval(), (floats(2, 4),))
    assert program.verification is not None and program.verification.ok


def test_a_number_of_a_buffer():
    with opbridge.override():
        opbridge.symbolic("opcases::parsed_scale")(scaled_by_a_number)
        model = _Model(lambda model, x: model.buffer[0])
        program = opbridge.export(model, (floats(2, 4),))
    assert program.verification is not None and program.verification.ok


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool])
def test_other_dtypes(dtype):
    read = []

    @parse_args("v", "t")
    def reading(g, x, scale):
        read.append(scale)
        return g.op("Mul", x, g.op("Constant", value_t=scale.float()))

    model = _Model(lambda model, x: model.buffer, dtype=dtype)
    with opbridge.override():
        opbridge.symbolic("opcases::parsed_scale")(reading)
        program = opbridge.export(model, (floats(2, 4),), verify=False)
    assert read and read[0].dtype == dtype
    assert torch.equal(read[0], model.buffer)
    x = floats(2, 4)
    (found,) = program.session().run(None, {program.session().get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), model(x).detach())


def test_what_the_inputs_decide_is_refused_with_the_argument():
    with opbridge.override():
        opbridge.symbolic("opcases::parsed_scale")(scaled)
        with pytest.raises(MissingOperators) as raised:
            opbridge.export(_Model(lambda model, x: x.amax()), (floats(2, 4),))
    assert "'scale' is declared as a constant" in str(raised.value)
    assert "Declare it as a value, 'v'" in str(raised.value)
    assert "prim::Param" not in str(raised.value)
