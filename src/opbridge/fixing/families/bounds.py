"""Inputs that a target has to know, in operators that need not have them."""

from __future__ import annotations

from opbridge.fixing.site import Site, repair


@repair("constant-input", operators=["Clip"])
def clip_by_extremes(site: Site) -> str:
    """Clip is a Max with the lower bound, and then a Min with the upper one."""
    step = site.step()
    result = step.data
    for at, operator in ((1, "Max"), (2, "Min")):
        bound = step.input(at)
        if bound is not None:
            result = step.emit(operator, result, bound)
    if result is step.data:
        return ""
    site.put(step, result)
    return "replaced Clip by Max and Min"


@repair("constant-input", "dynamic-shape", operators=["Pad"])
def pad_by_concatenation(site: Site) -> str:
    """Padding with a number is a Concat with tensors of it, of the sizes computed at run time."""
    step = site.step()
    if step.get("mode", "constant") != "constant":
        return ""
    rank, pads, axes = step.rank(), step.input(1), step.known(3, "axes") if step.to >= 18 else None
    if pads is None:
        return ""
    places = [axis % rank for axis in axes] if axes is not None else list(range(rank))
    dtype = step.dtype(step.data)
    given = step.input(2)
    number = step.number(0, dtype) if given is None else step.emit("Reshape", given, [1] * rank)
    zero = step.number(0)
    result = step.data
    for at, axis in enumerate(places):
        amounts = [step.sliced(pads, each, each + 1, 0) for each in (at, len(places) + at)]
        for before, amount in zip((True, False), amounts, strict=True):
            # What is to be cut off is a negative amount, which starts later, or ends earlier.
            cut = step.emit("Max", step.emit("Neg", amount), zero)
            added = step.emit("Max", amount, zero)
            size = step.sizes(step.size(result, axis))
            bounds = (cut, size) if before else (step.number([0]), step.emit("Sub", size, cut))
            result = step.emit("Slice", result, *bounds, [axis])
            sizes = [step.sizes(step.size(result, each)) if each != axis else added for each in range(rank)]
            more = step.emit("Expand", number, step.emit("Concat", *sizes, axis=0))
            result = step.emit("Concat", *((more, result) if before else (result, more)), axis=axis)
    site.put(step, result)
    return "replaced Pad by Concat"


@repair("data-dependent-shape", "missing-operator", operators=["NonZero"])
def known_places(site: Site) -> str:
    """The places of what is known to be other than zero are known."""
    from opbridge.fixing.families.folding import fold

    value = site.node.inputs[0]
    if value is None or not site.looked.is_known(value):
        return ""
    return fold(site)
