"""The small repairs of what people report, in the form that the others have."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from opbridge.fixing import small_repairs
from opbridge.fixing.families.folding import fold
from opbridge.fixing.site import Repair, Site, repair
from opbridge.rules.looking import Looked

__all__: list[str] = []


def _at_a_site(function: Callable[[Looked, ir.Node | None], str]) -> Repair:
    def repaired(site: Site) -> str:
        return function(site.looked, site.found_at)

    return repaired


for _rule, _function in small_repairs.REPAIRS.items():
    repair(_rule)(_at_a_site(_function))

repair("unfolded")(fold)
