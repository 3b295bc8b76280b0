"""Gradients, transforms and autograd functions inside of a model; fake quantization; state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reported_models.report import Case, module, reported


class _Jacobian(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.model(x), torch.flatten(torch.autograd.functional.jacobian(self.model, x), 1)


@reported("pytorch/pytorch", 128325)
def jacobian() -> Case:
    model = _Jacobian(module(lambda x: x[:, 0] ** 2 + x[:, 1]))
    return Case(model, lambda n: (torch.randn(n, 2),), (3,), [(3,)])


@reported("pytorch/pytorch", 128325, "jacrev under vmap of a network, dynamic batch")
def jacobian_by_vmap() -> Case:
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))

    def jacobians(x: Tensor) -> tuple[Tensor, Tensor]:
        return network(x), torch.vmap(torch.func.jacrev(network))(x)

    return Case(module(jacobians), lambda n: (torch.randn(n, 2),), (3,), [(1,), (7,)], ({0: "n"},))


@reported("pytorch/pytorch", 125984)
def gradient() -> Case:
    def forces(x: Tensor) -> tuple[Tensor, ...]:
        y = x.square()
        return torch.autograd.grad(y.sum(), x)

    return Case(module(forces), lambda n: (torch.ones(n).uniform_().requires_grad_(),), (3,), [(3,)])


@reported("pytorch/pytorch", 125984, "forces of atoms: pairs within a cutoff, in the model's own enable_grad, dynamic")
def forces_of_pairs() -> Case:
    def forces(positions: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            positions = positions.detach().requires_grad_(True)
            delta = positions[:, None] - positions[None]
            i, j = torch.triu_indices(positions.shape[0], positions.shape[0], 1)
            distance = delta[i, j].norm(dim=-1)
            close = distance < 2.0
            energy = (torch.exp(-distance[close]) * (1 - distance[close] / 2) ** 2).sum()
            return energy, -torch.autograd.grad(energy, positions)[0]

    return Case(module(forces), lambda n: (torch.randn(n, 3),), (5,), [(2,), (9,)], ({0: "atoms"},))


@reported("pytorch/pytorch", 153063)
def vmap_over_module() -> Case:
    inner = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    return Case(
        module(lambda x: torch.vmap(inner)(x)), lambda n: (torch.randn(n, 8),), (16,), [(1,), (5,)], ({0: "n"},)
    )


@reported("pytorch/pytorch", 153063, "an ensemble: functional_call over stacked parameters, convolution and batch norm")
def vmap_over_parameters() -> Case:
    class Ensemble(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            models = [nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval() for _ in range(3)]
            parameters, buffers = torch.func.stack_module_state(models)
            self.names, self.buffer_names = list(parameters), list(buffers)
            self.stacked = nn.ParameterList([each.detach() for each in parameters.values()])
            self.states = list(buffers.values())
            self.base = [models[0]]

        def forward(self, x: Tensor) -> Tensor:
            def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
                return torch.func.functional_call(self.base[0], (parameters, buffers), (x,))

            parameters = dict(zip(self.names, self.stacked, strict=True))
            buffers = dict(zip(self.buffer_names, self.states, strict=True))
            return torch.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x).mean(0)

    return Case(
        Ensemble(), lambda b, h: (torch.randn(b, 2, h, h),), (2, 6), [(1, 3), (3, 9)], ({0: "b", 2: "h", 3: "w"},)
    )


@reported("pytorch/pytorch", 120820)
def gradient_through_sqrt() -> Case:
    def guided(x: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            loss = torch.sqrt(x.square().sum(-1) + 1).sum()
            return torch.autograd.grad([loss], [x])[0]

    return Case(module(guided), lambda b: (torch.randn(b, 4),), (2,), [(1,), (5,)], ({0: "b"},))


@reported("pytorch/pytorch", 120820, "guidance through a transformer layer and its attention, twice in a loop")
def gradient_through_attention() -> Case:
    class Guided(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 2, 16, 0.0, batch_first=True)

        def forward(self, x: Tensor, target: Tensor) -> Tensor:
            for _ in range(2):
                with torch.enable_grad():
                    x_in = x.detach().requires_grad_()
                    loss = (self.layer(x_in).mean(1) - target).square().sum()
                    grad = torch.autograd.grad([loss], [x_in])[0]
                x = x - 0.1 * grad
            return x

    return Case(
        Guided().eval(),
        lambda b, n: (torch.randn(b, n, 16), torch.randn(b, 16)),
        (2, 4),
        [(1, 1), (3, 7)],
        ({0: "b", 1: "n"}, {0: "b"}),
    )


class _SigmoidGeometricMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> Tensor:
        x_sigmoid = x.sigmoid()
        y_sigmoid = y.sigmoid()
        z = (x_sigmoid * y_sigmoid).sqrt()
        ctx.save_for_backward(x_sigmoid, y_sigmoid, z)
        return z

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x_sigmoid, y_sigmoid, z = ctx.saved_tensors
        return grad_output * z * (1 - x_sigmoid) / 2, grad_output * z * (1 - y_sigmoid) / 2


@reported("open-mmlab/mmdeploy", 2917)
def autograd_function_without_symbolic() -> Case:
    sizes = {0: "b", 2: "h", 3: "w"}
    return Case(
        module(_SigmoidGeometricMean.apply),
        lambda b, h: (torch.randn(b, 3, h, h), torch.randn(b, 1, h, h)),
        (1, 4),
        [(2, 7)],
        (sizes, sizes),
    )


@reported("open-mmlab/mmdeploy", 2917, "its backward too: the model returns its gradient")
def autograd_function_gradient() -> Case:
    def graded(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            z = _SigmoidGeometricMean.apply(x, y)
            return z, torch.autograd.grad(z.square().sum(), x)[0]

    return Case(
        module(graded),
        lambda b, n: (torch.randn(b, n), torch.randn(b, n)),
        (2, 3),
        [(1, 1), (4, 6)],
        ({0: "b", 1: "n"},) * 2,
    )


class _FakeQuantized(nn.Module):
    def __init__(self, observing: bool, per_channel: bool) -> None:
        super().__init__()
        from torch.ao import quantization

        self.fake = quantization.FakeQuantize.with_args(
            observer=quantization.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=torch.quint8
        )()
        self.weight_fake = quantization.default_per_channel_weight_fake_quant() if per_channel else nn.Identity()
        self.linear = nn.Linear(6, 4)
        self.fake(torch.randn(20, 6))
        self.weight_fake(self.linear.weight)
        if not observing:
            self.apply(quantization.disable_observer)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(self.fake(x), self.weight_fake(self.linear.weight), self.linear.bias)


@reported("pytorch/pytorch", 167063)
def fake_quantize() -> Case:
    return Case(_FakeQuantized(False, False).eval(), lambda b: (torch.randn(b, 6),), (2,), [(1,), (5,)], ({0: "b"},))


@reported("pytorch/pytorch", 167063, "weights by channel, per-token scales computed in the model")
def fake_quantize_per_channel() -> Case:
    inner = _FakeQuantized(False, True).eval()

    def quantized(x: Tensor) -> Tensor:
        scale = x.abs().amax(-1) / 127
        x = torch.fake_quantize_per_channel_affine(x, scale, torch.zeros_like(scale, dtype=torch.int32), 0, -128, 127)
        return inner(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            return quantized(x)

    return Case(Model().eval(), lambda b: (torch.randn(b, 6),), (2,), [(1,), (5,)], ({0: "b"},))


class _Streaming(nn.Module):
    """A causal convolution that keeps the end of the last chunk in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 5)
        self.register_buffer("cache", torch.zeros(1, 3, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.cache, x], 2)
        self.cache.copy_(x[:, :, -4:])
        return self.conv(x)


class _StreamingGiven(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(3, 3, k) for k in (3, 5))

    def forward(self, x: Tensor, caches: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        updated = {}
        for index, conv in enumerate(self.convs):
            x = torch.cat([caches[f"layer{index}"], x], 2)
            updated[f"layer{index}"] = x[:, :, -caches[f"layer{index}"].shape[2] :]
            x = conv(x).relu()
        return x, updated


@reported("pytorch/pytorch", 60828)
def streaming_buffer() -> Case:
    return Case(_Streaming(), lambda n: (torch.randn(1, 3, n),), (6,), [(4,), (9,)], ({2: "n"},))


@reported("pytorch/pytorch", 60828, "the caches are a dictionary, shorter chunks than caches")
def streaming_caches() -> Case:
    return Case(
        _StreamingGiven(),
        lambda b, n: (
            torch.randn(b, 3, n),
            {"layer0": torch.randn(b, 3, 2), "layer1": torch.randn(b, 3, 4)},
        ),
        (2, 6),
        [(1, 1), (3, 9)],
        ({0: "b", 2: "n"}, {"layer0": {0: "b"}, "layer1": {0: "b"}}),
    )


class _Prompted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("prompt_feat", torch.randn(1, 4, 8))
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(1, 4, 8)
        out[:, :, :] = self.prompt_feat.to(x.device)
        return self.linear(out + x)


class _PromptedInside(_Prompted):
    def forward(self, x: Tensor) -> Tensor:
        prompt = self.prompt_feat.shape[1]
        out = x.new_zeros(x.shape[0], prompt + x.shape[1], 8)
        out[:, :prompt] = self.prompt_feat
        out[:, prompt:] = x
        out[..., 1::2] *= -1
        return self.linear(out)


@reported("pytorch/pytorch", 178868)
def buffer_copied() -> Case:
    return Case(_Prompted(), lambda b: (torch.randn(b, 4, 8),), (1,), [(1,)])


@reported("pytorch/pytorch", 178868, "before a dynamic sequence, float64, then a step slice changed in place")
def buffer_copied_before() -> Case:
    return Case(
        _PromptedInside().double(),
        lambda b, n: (torch.randn(b, n, 8, dtype=torch.double),),
        (1, 4),
        [(3, 1), (2, 9)],
        ({0: "b", 1: "n"},),
    )
