"""What depends on constants alone, computed now."""

from __future__ import annotations

from opbridge.fixing.site import Site, repair
from opbridge.rules.looking import bodies


@repair("constant-input", "constant-condition")
def fold(site: Site) -> str:
    """What is computed from constants alone is computed."""
    from onnxscript import optimizer

    if site.found_at is not None:
        # A branch that runs takes the place of its If: the line of that is the one of nodes that have none.
        for body in bodies(site.node):
            for inner in body.all_nodes():
                for key, text in site.node.metadata_props.items():
                    inner.metadata_props.setdefault(key, text)
    if not optimizer.fold_constants(site.model).modified:
        return ""
    return "folded constants"
