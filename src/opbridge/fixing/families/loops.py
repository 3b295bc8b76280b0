"""Loops that run a known number of times, written out; Loops without a condition."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair
from opbridge.rules.looking import Looked, bodies

_MOST_NODES = 4000


@repair("missing-operator", "no-kernel", "partly-supported", operators=["Loop"])
def unrolled(site: Site) -> str:
    """The body stands in the model as often as it runs.

    1. The number of runs is constant, and neither the condition before the loop nor that of its body ends it.
    2. The nodes are not too many, and have no bodies of their own.
    """
    step = site.step()
    node = step.node
    count, condition = step.known(0, "a trip count"), step.input(1)
    body = next(bodies(node))
    if count is None:
        raise Refused("without a trip count")
    if condition is not None and not _is_true(site.looked, condition):
        raise Refused("whose condition is computed")
    if not _goes_on(site.looked, body.outputs[0], body.inputs[1]):
        raise Refused("whose body computes the condition")
    runs = max(count[0], 0)
    nodes = list(body)
    if runs * len(nodes) > _MOST_NODES:
        raise Refused(f"of {runs * len(nodes)} nodes, more than {_MOST_NODES}")
    if any(True for each in nodes for _ in bodies(each)):
        raise Refused("whose body contains subgraphs")
    carried = list(node.inputs[2:])
    collected: list[list[ir.Value]] = [[] for _ in body.outputs[1 + len(carried) :]]
    if not runs and collected:
        raise Refused("with zero iterations")
    stored = {
        value: step.emit("Constant", value=value.const_value)
        for value in body.initializers.values()
        if value.const_value is not None
    }
    true = step.number(True, ir.DataType.BOOL)
    for run in range(runs):
        known: dict[ir.Value, ir.Value | None] = {**stored, body.inputs[0]: step.number(run), body.inputs[1]: true}
        known.update(zip(body.inputs[2:], carried, strict=True))
        for each in nodes:
            _copied(step, each, known)
        results = [known.get(each, each) for each in body.outputs[1:]]
        carried = results[: len(carried)]
        for parts, result in zip(collected, results[len(carried) :], strict=True):
            assert result is not None
            parts.append(step.unsqueezed(result, [0]))
    lists = [step.emit("Concat", *parts, axis=0) for parts in collected]
    site.put(step, *[*carried, *lists][: len(node.outputs)])
    return f"unrolled the {runs} iterations of the Loop"


@repair("unsupported-form", operators=["Loop"])
def with_a_condition(site: Site) -> str:
    """The condition that is left out is true."""
    node = site.node
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        raise Refused("of this form")
    step = site.step()
    true = step.number(True, ir.DataType.BOOL)
    site.put_before(step)
    if len(node.inputs) < 2:
        node.resize_inputs(2)
    node.replace_input_with(1, true)
    return "set the condition of Loop to true"


def _copied(step: Step, node: ir.Node, known: dict[ir.Value, ir.Value | None]) -> None:
    """A node of the body with what its inputs are in this run."""
    given = [None if each is None else known.get(each, each) for each in node.inputs]
    attributes = [ir.Attr(each.name, each.type, each.value) for each in node.attributes.values()]
    copy = ir.Node(node.domain, node.op_type, given, attributes, num_outputs=len(node.outputs))
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.name, new.type = old.name, old.type
        known[old] = new
    origin = dict(node.metadata_props)
    step.add(copy, step.to)
    if origin:
        copy.metadata_props.clear()
        copy.metadata_props.update(origin)


def _is_true(looked: Looked, value: ir.Value) -> bool:
    found = looked.constant(value)
    return found is not None and found.size == 1 and bool(found.ravel()[0])


def _goes_on(looked: Looked, value: ir.Value, given: ir.Value) -> bool:
    """Whether a body says that it goes on: true, or what it was given."""
    while value is not given:
        producer = value.producer()
        if producer is None or producer.op_type != "Identity" or producer.inputs[0] is None:
            return _is_true(looked, value)
        value = producer.inputs[0]
    return True
