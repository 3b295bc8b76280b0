"""Sizes that a target would compute before the run, and cannot: computed on the GPU."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair
from opbridge.rules.of_early_sizes import SIZES, is_computable_early
from opbridge.rules.size_inputs import size_inputs

_ARRANGING = frozenset(
    {"Add", "Cast", "Concat", "Div", "Identity", "Max", "Min", "Mul", "Neg", "Reshape", "Squeeze", "Sub", "Unsqueeze"}
)
"""Operators of sizes: what comes before them is computed on the GPU, so that sizes beside it stay known."""

_WHOLE = (ir.DataType.INT32, ir.DataType.INT64)


@repair("size-of-floats", "size-of-selection")
def behind_topk(site: Site) -> str:
    """Each number passes through a TopK of one element, which gives it back, and which is not computed early."""
    if site.is_lacked("TopK"):
        raise Refused("without TopK")
    node, step = site.node, site.step()
    made: dict[ir.Value, ir.Value] = {}
    for size in size_inputs(node, SIZES):
        if not is_computable_early(size, site.looked):
            made[size] = _late(site, step, size, {})
    site.put_before(step)
    for at, value in enumerate(node.inputs):
        if value in made:
            node.replace_input_with(at, made[value])
    return f"computed the size of {node.op_type} on the GPU, through TopK"


def _late(site: Site, step: Step, value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """A size as it is computed behind a TopK.

    Args:
        site: The place.
        step: What builds.
        value: The size, or a part of it.
        known: What was built so far.
    """
    if is_computable_early(value, site.looked):
        return value
    if value not in known:
        maker = value.producer()
        given = [] if maker is None else [each for each in maker.inputs if each is not None]
        if maker is not None and maker.op_type in _ARRANGING and all(each.dtype in _WHOLE for each in given):
            attributes = {name: each.value for name, each in maker.attributes.items()}
            inputs = [None if each is None else _late(site, step, each, known) for each in maker.inputs]
            known[value] = step.emit(maker.op_type, *inputs, **attributes)
        else:
            known[value] = _through(step, value)
    return known[value]


def _through(step: Step, value: ir.Value) -> ir.Value:
    """A tensor of whole numbers, each of which was the largest of one."""
    if value.dtype not in _WHOLE:
        raise Refused("whose size is computed in a type other than int32 and int64")
    rank = step.rank(value)
    axes = [rank, rank + 1] if rank == 0 else [rank]  # TopK of one dimension is refused
    found, _ = step.emit("TopK", step.unsqueezed(value, axes), [1], outputs=2, axis=-1)
    return step.squeezed(found, axes)
