"""A capture leaves torch and the model as they were, also where it fails."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from opbridge.capture import capture
from opbridge.capture.config import CaptureConfig
from opbridge.errors import OpbridgeError


class _Stop(Exception):
    pass


def _fail(x):
    raise _Stop("stopped here")


def _jvp(x):
    return torch.func.jvp(_fail, (x,), (x,))


def _dual(x):
    with forward_ad.dual_level():
        return _fail(forward_ad.make_dual(x, x))


def _autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return _fail(x @ x.T)


def _no_grad(x):
    torch.set_grad_enabled(False)
    return _fail(x)


def _enable_grad(x):
    torch.set_grad_enabled(True)
    return _fail(x)


def _inference(x):
    with torch.inference_mode():
        return _fail(x)


def _hook(x):
    x = x.detach().requires_grad_()
    y = x.square()
    y.register_hook(_fail)
    return torch.autograd.grad(y.sum(), x)


def _script(x):
    return _raising(x)


@torch.jit.script
def _raising(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 2:
        raise ValueError("stopped here")
    return x


def _state():
    """What a capture replaces or changes for a time."""
    interpreter = torch._C._functorch.peek_interpreter_stack()
    script = torch._C.ScriptMethod.__call__, torch._C.ScriptFunction.__call__
    return {
        "transform": None if interpreter is None else interpreter.level(),
        "dual level": forward_ad._current_level,
        "modes": len(_get_current_dispatch_mode_stack()),
        "function modes": torch._C._len_torch_function_stack(),
        "mode before autograd": torch._ops._len_torch_dispatch_stack_pre_dispatch(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "call": nn.Module.__call__,
        "scripts": [getattr(each, "__func__", each) for each in script],
        "compiling": (torch.compiler.is_compiling(), torch.compiler.is_exporting()),
        "exporting": torch.onnx.is_in_onnx_export(),
        "backward": torch.autograd._engine_run_backward,
        "transforms": (
            torch._functorch.vmap._vmap_increment_nesting,
            torch._functorch.eager_transforms._grad_increment_nesting,
            torch._functorch.eager_transforms.lazy_dynamo_disallow,
        ),
        "map over gradients": (torch._vmap_internals._vmap, torch.autograd.functional._vmap),
        "attention": (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()),
        "proxies": torch.fx.experimental.proxy_tensor._CURRENT_MAKE_FX_TRACER,
    }


_FAILING = {
    "plain": _fail,
    "vmap": lambda x: torch.func.vmap(_fail)(x),
    "grad": lambda x: torch.func.grad(_fail)(x),
    "vmap of grad": lambda x: torch.func.vmap(torch.func.grad(_fail))(x),
    "jacfwd of jacrev": lambda x: torch.func.hessian(_fail)(x),
    "linearize": lambda x: torch.func.linearize(_fail, x),
    "functionalize": lambda x: torch.func.functionalize(_fail)(x),
    "jvp": _jvp,
    "dual": _dual,
    "autocast": _autocast,
    "no_grad": _no_grad,
    "enable_grad": _enable_grad,
    "inference_mode": _inference,
    "hook": _hook,
    "script": _script,
}


@pytest.mark.parametrize("name", _FAILING)
def test_torch_is_as_before_a_capture_that_fails(name):
    before = _state()
    with pytest.raises(OpbridgeError):
        capture(_FAILING[name], torch.ones(3, 3), config=CaptureConfig("auto"))
    assert _state() == before


class _Model(nn.Module):
    """Writes to everything that a model has, and may stop then."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(2))
        self.plain = torch.ones(3)
        self.kept = None
        self.fails = fails

    def forward(self, x):
        x = x.detach().requires_grad_()
        self.linear(x).sum().backward()
        self.count.add_(1)
        self.plain += 1
        self.kept = self.plain * 2
        self.added = x
        if self.fails:
            _fail(x)
        return x.grad + self.plain.detach()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("gradient", [None, 2.0])
def test_the_model_is_as_before(fails, gradient):
    model = _Model(fails=fails)
    if gradient is not None:
        model.linear.weight.grad = torch.full((3, 3), gradient)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers()), "plain": model.plain}
    values = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    attributes = set(vars(model))
    if fails:
        with pytest.raises(OpbridgeError, match="stopped here"):
            capture(model, torch.ones(2, 3), config=CaptureConfig("auto"))
    else:
        capture(model, torch.ones(2, 3))
    now = {**dict(model.named_parameters()), **dict(model.named_buffers()), "plain": model.plain}
    assert all(now[name] is tensor for name, tensor in tensors.items())
    torch.testing.assert_close({name: tensor.detach() for name, tensor in now.items()}, values, rtol=0, atol=0)
    assert set(vars(model)) == attributes
    assert model.kept is None
    assert model.linear.bias.grad is None
    if gradient is None:
        assert model.linear.weight.grad is None
    else:
        torch.testing.assert_close(model.linear.weight.grad, torch.full((3, 3), gradient))


def test_a_capture_inside_of_modes_keeps_them():
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        before = _state()
        capture(nn.Linear(3, 3), torch.ones(2, 3))
        assert _state() == before
