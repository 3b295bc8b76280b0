"""Small operators in others that nearly every target has."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair


@repair("missing-operator", "no-kernel", operators=["IsNaN"])
def nan_differs_from_itself(site: Site) -> str:
    """IsNaN is true where an element is not equal to itself."""
    step = site.step()
    site.put(step, step.emit("Not", step.emit("Equal", step.data, step.data)))
    return "replaced IsNaN by Equal and Not"


@repair("missing-operator", "no-kernel", operators=["Xor"])
def either(site: Site) -> str:
    """Xor is true where two truth values are not equal."""
    step = site.step()
    site.put(step, step.emit("Not", step.emit("Equal", step.data, step.input(1))))
    return "replaced Xor by Equal and Not"


@repair("unsupported-form", operators=["Less"])
def greater_the_other_way(site: Site) -> str:
    """What is less than another is what the other is greater than."""
    if site.is_lacked("Greater"):
        raise Refused("without Greater")
    step = site.step()
    site.put(step, step.emit("Greater", step.input(1), step.data))
    return "replaced Less by Greater"


@repair("unsupported-form", operators=["ConstantOfShape"])
def with_its_value(site: Site) -> str:
    """The value that it has by default is said."""
    if "value" in site.node.attributes:
        raise Refused("with a value")
    step = site.step()
    site.put(step, step.emit("ConstantOfShape", step.data, value=ir.tensor(np.zeros(1, np.float32))))
    return "set the value of ConstantOfShape explicitly"


@repair("missing-operator", "no-kernel", operators=["Size"])
def number_of_elements(site: Site) -> str:
    """Size is the product of the sizes."""
    step = site.step()
    sizes = [step.size(step.data, axis) for axis in range(step.rank())]
    product = step.product(sizes)
    site.put(step, step.number(product) if isinstance(product, int) else step.squeezed(product, [0]))
    return "replaced Size by the product of the shape"


@repair("missing-operator", "no-kernel", "unsupported-type", operators=["OneHot"])
def by_comparison(site: Site) -> str:
    """Each index is compared with all that there are, of a number that is constant."""
    step = site.step()
    depth, values = step.known(1, "a depth"), step.input(2)
    assert depth is not None and values is not None
    rank = step.rank() + 1
    axis = int(step.get("axis", -1)) % rank
    dtype = step.dtype(step.data)
    if not dtype.is_integer() or dtype.bitwidth < 32 or dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        raise Refused("of indices other than int32 or int64")
    places = np.arange(depth[0]).reshape([-1 if each == axis else 1 for each in range(rank)])
    given = step.data
    below = step.emit("Less", given, step.number(0, dtype))
    given = step.emit("Where", below, step.emit("Add", given, step.number(depth[0], dtype)), given)
    found = step.emit("Equal", step.unsqueezed(given, [axis]), step.number(places, dtype))
    off, on = (step.squeezed(step.sliced(values, at, at + 1, 0), [0]) for at in (0, 1))
    site.put(step, step.emit("Where", found, on, off))
    return "replaced OneHot by Equal and Where"
