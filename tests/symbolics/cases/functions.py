"""autograd.Function with a `symbolic` beside its `forward`."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.onnx import symbolic_helper
from torch.onnx.symbolic_helper import parse_args

from cases.declare import autograd, floats, integers

X = floats(2, 3, 4)
CUSTOM = {"custom_domain": 1}


@autograd(lambda f: f.apply, X, X.abs(), nodes={9: "Mul Add", 13: "Mul Add", 18: "Mul Add", 20: "Mul Add"})
class TwiceFirst(Function):
    @staticmethod
    def forward(ctx, a, b):
        return 2 * a + b

    @staticmethod
    def symbolic(g, a, b):
        two = g.op("Constant", value_t=torch.tensor([2.0]))
        return g.op("Add", g.op("Mul", a, two), b)


@autograd(lambda f: lambda x: f.apply(x, 0.1), X, nodes="LeakyRelu")
class NumberArgument(Function):
    @staticmethod
    def forward(ctx, x, slope):
        return F.leaky_relu(x, slope)

    @staticmethod
    def symbolic(g, x, slope):
        # Numbers arrive as they are.
        assert isinstance(slope, float)
        return g.op("LeakyRelu", x, alpha_f=slope)


@autograd(
    lambda f: lambda x: f.apply(x, 3, 0.5, True, "floor", None),
    X,
    nodes="custom_domain::Everything",
    custom_opsets=CUSTOM,
    verify=False,
)
class ArgumentsOfEveryKind(Function):
    @staticmethod
    def forward(ctx, x, number, factor, flag, mode, nothing):
        return x * number * factor

    @staticmethod
    def symbolic(g, x, number, factor, flag, mode, nothing):
        assert nothing is None and flag is True
        return g.op("custom_domain::Everything", x, n_i=number, f_f=factor, b_i=flag, m_s=mode, none_f=nothing)


@autograd(lambda f: lambda x: f.apply(x, (0, 2, 1), [1, -1]), X, nodes="Transpose")
class SequenceArguments(Function):
    @staticmethod
    def forward(ctx, x, order, unused):
        return x.permute(*order).contiguous()

    @staticmethod
    def symbolic(g, x, order, unused):
        assert unused == [1, -1]
        return g.op("Transpose", x, perm_i=order)


@autograd(lambda f: f.apply, X, nodes="ReduceMean Sub")
class SeveralOutputs(Function):
    @staticmethod
    def forward(ctx, x):
        mean = x.mean()
        return x - mean, mean

    @staticmethod
    def symbolic(g, x):
        mean = g.op("ReduceMean", x, keepdims_i=0)
        return g.op("Sub", x, mean), mean


@autograd(lambda f: lambda x: f.apply(f.apply(f.apply(x, 1.0), 2.0), 1.0), X, nodes="Elu Elu Elu")
class UsedManyTimes(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        return F.elu(x, alpha)

    @staticmethod
    def symbolic(g, x, alpha):
        return g.op("Elu", x, alpha_f=alpha)


@autograd(lambda f: lambda x: f.apply(x, None), X, nodes="Identity")
class NoneForATensor(Function):
    @staticmethod
    def forward(ctx, x, weight):
        return x.clone() if weight is None else x * weight

    @staticmethod
    def symbolic(g, x, weight):
        return g.op("Identity", x) if symbolic_helper._is_none(weight) else g.op("Mul", x, weight)


@autograd(lambda f: lambda x, scale: f.apply(x, 0.5, scale), X, torch.tensor(3.0), nodes="Mul Clip")
class TensorAfterNumber(Function):
    @staticmethod
    def forward(ctx, x, lower, scale):
        return torch.clamp(x * scale, min=lower)

    @staticmethod
    def symbolic(g, x, lower, scale):
        return g.op("Clip", g.op("Mul", x, scale), g.op("Constant", value_t=torch.tensor(lower)))


@autograd(lambda f: f.apply, X, nodes="Round")
class ThroughNumpy(Function):
    """Nothing that a tracer could follow: numpy, and Python numbers made of the values."""

    @staticmethod
    def forward(ctx, x):
        limit = float(x.abs().max())
        assert limit >= 0
        return torch.from_numpy(np.round(x.detach().numpy()))

    @staticmethod
    def symbolic(g, x):
        return g.op("Round", x)


@autograd(
    lambda f: lambda x, scale: f.apply(x, scale, 0, 255),
    X,
    torch.tensor(0.02),
    nodes="QuantizeLinear DequantizeLinear",
)
class FakeQuantize(Function):
    @staticmethod
    def forward(ctx, x, scale, low, high):
        return torch.fake_quantize_per_tensor_affine(x, float(scale), 128, low, high)

    @staticmethod
    def symbolic(g, x, scale, low, high):
        zero = g.op("Constant", value_t=torch.tensor(128, dtype=torch.uint8))
        return g.op("DequantizeLinear", g.op("QuantizeLinear", x, scale, zero), scale, zero)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None, None


@autograd(lambda f: f.apply, X, nodes="Sign")
class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)

    @staticmethod
    def symbolic(g, x):
        return g.op("Sign", x)


@autograd(lambda f: lambda x: f.apply(x, 2, 1), X, nodes="TopK")
class ParsedArguments(Function):
    @staticmethod
    def forward(ctx, x, k, dim):
        values, indices = torch.topk(x, k, dim)
        ctx.mark_non_differentiable(indices)
        return values, indices

    @staticmethod
    @parse_args("v", "i", "i")
    def symbolic(g, x, k, dim):
        return symbolic_helper._topk_helper(g, x, k, dim, sorted=True)


@autograd(
    lambda f: lambda boxes, scores: f.apply(boxes, scores, 10, 0.5),
    floats(1, 8, 4),
    floats(1, 8, 3),
    nodes="TRT::EfficientNMS_TRT",
    custom_opsets={"TRT": 1},
    verify=False,
)
class Plugin(Function):
    """The shape of a TensorRT plugin: forward makes up outputs of the right shapes."""

    @staticmethod
    def forward(ctx, boxes, scores, limit, threshold):
        batch = boxes.shape[0]
        return (
            torch.zeros(batch, 1, dtype=torch.int32),
            torch.zeros(batch, limit, 4),
            torch.zeros(batch, limit),
            torch.zeros(batch, limit, dtype=torch.int32),
        )

    @staticmethod
    def symbolic(g, boxes, scores, limit, threshold):
        return g.op(
            "TRT::EfficientNMS_TRT",
            boxes,
            scores,
            background_class_i=-1,
            max_output_boxes_i=limit,
            iou_threshold_f=threshold,
            plugin_version_s="1",
            outputs=4,
        )


class _Cube(Function):
    @staticmethod
    def forward(ctx, x):
        return x**3

    @staticmethod
    def symbolic(g, x):
        return g.op("Mul", g.op("Mul", x, x), x)


@autograd(lambda f: lambda x: torch.neg(f.apply(torch.abs(x))), X, nodes="Abs Pow Neg")
class Nested(Function):
    """`forward` uses another Function; the outer one's nodes stand for both."""

    @staticmethod
    def forward(ctx, x):
        return _Cube.apply(x)

    @staticmethod
    def symbolic(g, x):
        return g.op("Pow", x, g.op("Constant", value_t=torch.tensor(3.0)))


class _Layer(torch.nn.Module):
    def __init__(self, function: type[Function], offset: float) -> None:
        super().__init__()
        self.function = function
        self.bias = torch.nn.Parameter(floats(4) + offset)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function.apply(x, self.bias)


@autograd(lambda f: torch.nn.Sequential(_Layer(f, 0.0), torch.nn.Tanh(), _Layer(f, 1.0)), X, nodes="Add Tanh Add")
class InModules(Function):
    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def symbolic(g, x, bias):
        return g.op("Add", x, bias)


@autograd(lambda f: f.apply, X, integers(2, 3, 4), nodes="Cast Mul Cast")
class IntegerInput(Function):
    @staticmethod
    def forward(ctx, x, mask):
        return (x * mask).int()

    @staticmethod
    def symbolic(g, x, mask):
        weight = g.op("Cast", mask, to_i=symbolic_helper.cast_pytorch_to_onnx[x.type().scalarType()])
        return g.op("Cast", g.op("Mul", x, weight), to_i=6)


@autograd(lambda f: f.apply, X, nodes="Softplus Tanh Mul")
class SetupContext(Function):
    @staticmethod
    def forward(x):
        return F.mish(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def symbolic(g, x):
        return g.op("Mul", x, g.op("Tanh", g.op("Softplus", x)))


@autograd(lambda f: f.apply, X, nodes="Abs")
class HandsBackItsInput(Function):
    @staticmethod
    def forward(ctx, x):
        return x.abs()

    @staticmethod
    def symbolic(g, x):
        return [g.op("Abs", x)]


def _by_name(g, *args, **kwargs):
    """One handler for several classes, told apart by name."""
    name = kwargs["name"]
    (x, *others) = args
    result = {
        "ClipByHandler": lambda: g.op("Clip", x, g.op("Constant", value_t=torch.tensor(float(others[0])))),
        "ReluByHandler": lambda: g.op("Relu", x),
    }[name]()
    result.setType(next(g.original_node.outputs()).type())
    return result


class ReluByHandler(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.relu(x)


@autograd(
    lambda f: lambda x: ReluByHandler.apply(f.apply(x, 0.25)),
    X,
    registered={"prim::PythonOp": _by_name},
    nodes="Clip Relu",
)
class ClipByHandler(Function):
    @staticmethod
    def forward(ctx, x, lower):
        return x.clamp(min=lower)
