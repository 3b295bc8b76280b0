"""An If whose condition the shapes of tensors decide."""

from __future__ import annotations

from opbridge.fixing.families.folding import fold
from opbridge.fixing.families.sizes import Reading
from opbridge.fixing.site import Refused, Site, repair


@repair("branch-ranks", "branch-shapes", "missing-operator", "no-kernel", operators=["If"])
def the_branch_that_runs(site: Site) -> str:
    """The branch that runs stands in the place of the If."""
    found = Reading(site.looked).truth(site.node.inputs[0])
    if found is None:
        raise Refused("whose condition depends on values")
    step = site.step()
    condition = step.number(found, bool)
    site.put_before(step)
    site.node.replace_input_with(0, condition)
    return fold(site) and f"inlined the branch for the constant condition {found}"
