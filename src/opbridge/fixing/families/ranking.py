"""TopK of more elements than a target takes, in parts; TopK that need not sort them; ArgMax of one dimension."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from opbridge.conversion.step import Step
from opbridge.fixing.site import Refused, Site, repair
from opbridge.targets.facts import Attribute, Below

_MOST_PARTS = 64


@repair("too-large", operators=["TopK"])
def in_parts(site: Site) -> str:
    """The largest elements, then the largest of the others, and so on; each part removes its own from the input.

    Equal elements come in the order of their places, as in one TopK.
    """
    step = site.step()
    bound = min((each.bound for each in site.facts(Below) if each.input == "K"), default=0)
    count = step.constant(1)
    rank = step.rank()
    if count is None or count.size != 1 or bound < 2 or not rank:
        return ""
    axis = int(step.get("axis", -1)) % rank
    most, wanted = int(bound) - 1, int(count.ravel()[0])
    parts = -(-wanted // most)
    if parts > _MOST_PARTS:
        raise Refused(f"in more than {_MOST_PARTS} parts")
    settings = {"axis": axis, "largest": step.get("largest", 1), "sorted": step.get("sorted", 1)}
    values, places = step.data, None
    found_values, found_places = [], []
    for at in range(parts):
        size = min(most, wanted - at * most)
        top, chosen = step.emit("TopK", values, [size], outputs=2, **settings)
        found_values.append(top)
        found_places.append(chosen if places is None else step.emit("GatherElements", places, chosen, axis=axis))
        if at == parts - 1:
            break
        # What was taken goes to the front, in its order, the others behind it, in theirs; then the front is cut off.
        nothing, ones = _filled(step, 0.0, values), _filled(step, 1.0, chosen)
        taken = step.emit("ScatterElements", nothing, chosen, ones, axis=axis)
        left = step.emit("Sub", step.number(1.0), taken)
        before = step.emit("Sub", step.emit("CumSum", taken, axis), 1.0)
        behind = step.emit("Add", step.emit("CumSum", left, axis), float(size - 1))
        target = step.emit("Cast", step.emit("Where", step.emit("Cast", taken, to=9), before, behind), to=7)
        if places is None:
            whole = step.size(values, axis)
            places = step.emit("Range", 0, step.squeezed(step.sizes(whole), [0]), 1)
            places = step.unsqueezed(places, [each for each in range(rank) if each != axis]) if rank > 1 else places
            places = step.emit("Expand", places, step.emit("Shape", values))
        values = step.sliced(step.emit("ScatterElements", values, target, values, axis=axis), size, _END, axis)
        places = step.sliced(step.emit("ScatterElements", places, target, places, axis=axis), size, _END, axis)
    results = [step.emit("Concat", *each, axis=axis) for each in (found_values, found_places)]
    site.put(step, *results)
    return f"replaced TopK of {wanted} elements by {parts} of at most {most}"


_END = 2**31 - 1


@repair("unsupported-attribute", operators=["TopK"])
def in_order(site: Site) -> str:
    """Elements that may come in any order come in theirs."""
    step = site.step()
    bounds = [each for each in site.facts(Attribute) if each.attribute == "sorted"]
    if step.get("sorted", 1) or not bounds:
        return ""
    step.set(sorted=1)
    return "sorted the elements of TopK, which may be in any order"


def _filled(step: Step, number: float, like: ir.Value) -> ir.Value:
    """A number in the shape of a tensor."""
    made: ir.Value = step.emit("Expand", step.number(number), step.emit("Shape", like))
    step.types.set(made, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, step.shape(like)))
    return made


@repair("unsupported-form", operators=["ArgMax", "ArgMin"])
def along_the_last_of_two(site: Site) -> str:
    """The only dimension becomes the last one of two."""
    step = site.step()
    if step.rank() != 1:
        raise Refused("of this form")
    settings = {name: each.value for name, each in site.node.attributes.items()}
    given = step.unsqueezed(step.data, [0])
    place = step.emit(site.node.op_type, given, **{**settings, "axis": 1, "keepdims": 1})
    site.put(step, step.squeezed(place, [0] if step.get("keepdims", 1) else [0, 1]))
    return f"put the dimension of {site.node.op_type} beside another of size 1"
