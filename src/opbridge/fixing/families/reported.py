"""The small repairs of what people report, in the form that the others have."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from opbridge.fixing import small_repairs
from opbridge.fixing.families.folding import fold
from opbridge.fixing.site import Refused, Repair, Site, repair
from opbridge.rules.looking import Looked

__all__: list[str] = []


def _at_a_site(function: Callable[[Looked, ir.Node | None], str]) -> Repair:
    def repaired(site: Site) -> str:
        return function(site.looked, site.found_at)

    return repaired


for _rule, _function in small_repairs.REPAIRS.items():
    repair(_rule)(_at_a_site(_function))

repair("unfolded")(fold)


@repair("faulty-chain", operators=["Mul"])
def gelu_in_another_order(site: Site) -> str:
    """x * (1 + erf(...)) * 0.5 is (x * 0.5) * (1 + erf(...)): a half is exact, whatever it is multiplied with first."""
    node, step = site.node, site.step()
    for half, product in (node.inputs, tuple(reversed(node.inputs))):
        number, inner = site.looked.constant(half), product.producer() if product is not None else None
        if number is None or number.size != 1 or float(number.ravel()[0]) != 0.5 or inner is None:
            continue
        factors = list(inner.inputs)
        sums = [at for at, each in enumerate(factors) if each is not None and _adds_to_erf(each)]
        if inner.op_type == "Mul" and len(sums) == 1:
            data = step.emit("Mul", factors[1 - sums[0]], half)
            site.put(step, step.emit("Mul", data, factors[sums[0]]))
            return "halved the input of Gelu instead of its result"
    raise Refused("in this order")


def _adds_to_erf(value: ir.Value) -> bool:
    node = value.producer()
    if node is None or node.op_type != "Add":
        return False
    return any(
        each is not None and (made := each.producer()) is not None and made.op_type == "Erf" for each in node.inputs
    )
