"""If and Loop, with the blocks that a symbolic function fills through `g`."""

from __future__ import annotations

import torch
from torch.onnx import utils
from torch.onnx._internal.torchscript_exporter import jit_utils

from cases.declare import floats, library

X = floats(2, 3)
YES = torch.tensor(True)


@library(
    "(Tensor condition, Tensor x) -> Tensor",
    lambda condition, x: torch.where(condition, x + 1, x * 2),
    args=(YES, X),
    nodes="If Mul Add",
)
def if_with_blocks(g, condition, x):
    result, (then, otherwise), _ = jit_utils.add_op_with_blocks(g, "If", condition, n_blocks=2)
    utils._add_output_to_block(then.block, then.op("Add", x, then.op("Constant", value_t=torch.tensor(1.0))))
    utils._add_output_to_block(otherwise.block, otherwise.op("Mul", x, torch.tensor(2.0)))
    return result.setType(x.type())


@library(
    "(Tensor condition, Tensor x) -> (Tensor, Tensor)",
    lambda condition, x: (torch.where(condition, x.abs(), x.neg()), torch.where(condition, x, x.exp())),
    args=(YES, X),
    nodes="If Neg Exp Abs Identity",
)
def if_with_two_outputs(g, condition, x):
    results, (then, otherwise), _ = jit_utils.add_op_with_blocks(g, "If", condition, outputs=2, n_blocks=2)
    for value in (then.op("Abs", x), then.op("Identity", x)):
        utils._add_output_to_block(then.block, value)
    for value in (otherwise.op("Neg", x), otherwise.op("Exp", x)):
        utils._add_output_to_block(otherwise.block, value)
    return tuple(result.setType(x.type()) for result in results)


@library(
    "(Tensor condition, Tensor x) -> Tensor",
    lambda condition, x: torch.where(condition, x.abs() + x.exp(), x.exp()),
    args=(YES, X),
    nodes="Exp If Identity Abs Add",
)
def if_that_uses_values_outside(g, condition, x):
    outside = g.op("Exp", x)
    result, (then, otherwise), _ = jit_utils.add_op_with_blocks(g, "If", condition, n_blocks=2)
    utils._add_output_to_block(then.block, then.op("Add", then.op("Abs", x), outside))
    utils._add_output_to_block(otherwise.block, otherwise.op("Identity", outside))
    return result.setType(x.type())


@library(
    "(Tensor x, int times) -> Tensor",
    lambda x, times: x * 2**times,
    3,
    nodes="Loop Identity Mul",
)
def loop(g, x, times):
    condition = g.op("Constant", value_t=torch.tensor(True))
    result, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", times, condition, x, n_blocks=1)
    utils._add_input_to_block(body.block)
    go_on = utils._add_input_to_block(body.block)
    state = utils._add_input_to_block(body.block)
    go_on.setType(condition.type())
    state.setType(x.type())
    utils._add_output_to_block(body.block, body.op("Identity", go_on))
    utils._add_output_to_block(body.block, body.op("Mul", state, torch.tensor(2.0)).setType(x.type()))
    return result.setType(x.type())


@library(
    "(Tensor x, int times) -> (Tensor, Tensor)",
    lambda x, times: (x + times, torch.stack([(x + i).sum() for i in range(times)])),
    4,
    nodes="Loop Identity Add ReduceSum",
    verify=False,
)
def loop_with_scan_output(g, x, times):
    condition = g.op("Constant", value_t=torch.tensor(True))
    (last, sums), (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", times, condition, x, outputs=2, n_blocks=1)
    step, go_on, state = (utils._add_input_to_block(body.block) for _ in range(3))
    step.setType(times.type())
    go_on.setType(condition.type())
    state.setType(x.type())
    utils._add_output_to_block(body.block, body.op("Identity", go_on))
    utils._add_output_to_block(body.block, body.op("Add", state, torch.tensor(1.0)).setType(x.type()))
    utils._add_output_to_block(body.block, body.op("ReduceSum", state, keepdims_i=0))
    return last.setType(x.type()), sums


@library(
    "(Tensor condition, Tensor x, int times) -> Tensor",
    lambda condition, x, times: torch.where(condition, x * 2**times, x),
    2,
    args=(YES, X),
    nodes="Loop Identity If Identity Mul",
)
def if_inside_a_loop(g, condition, x, times):
    forever = g.op("Constant", value_t=torch.tensor(True))
    result, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", times, forever, x, n_blocks=1)
    _, go_on, state = (utils._add_input_to_block(body.block) for _ in range(3))
    go_on.setType(forever.type())
    state.setType(x.type())
    chosen, (then, otherwise), _ = jit_utils.add_op_with_blocks(body, "If", condition, n_blocks=2)
    utils._add_output_to_block(then.block, then.op("Mul", state, torch.tensor(2.0)).setType(x.type()))
    utils._add_output_to_block(otherwise.block, otherwise.op("Identity", state))
    utils._add_output_to_block(body.block, body.op("Identity", go_on))
    utils._add_output_to_block(body.block, chosen.setType(x.type()))
    return result.setType(x.type())


@library(
    "(Tensor condition, Tensor x) -> Tensor",
    lambda condition, x: torch.where(condition, x.abs(), x.neg()),
    args=(YES, X),
    nodes="If Neg Abs",
)
def if_by_hand(g, condition, x):
    # The graph's own methods, as code from before the helper wrote it.
    result = g.op("If", condition)
    for operator in ("Abs", "Neg"):
        block = utils._add_block(result.node())
        value = block.addNode(f"onnx::{operator}", [x]).output()
        value.setType(x.type())
        block.registerOutput(value)
    return result.setType(x.type())
