"""What depends on constants alone, computed now."""

from __future__ import annotations

from onnx_ir.passes import common as passes

from opbridge.fixing.site import Site, repair


@repair("constant-input", "constant-condition")
def fold(site: Site) -> str:
    """What is computed from constants alone is computed."""
    from onnxscript import optimizer

    if not optimizer.fold_constants(site.model).modified:
        return ""
    passes.RemoveUnusedNodesPass()(site.model)
    return "computed what depends on constants alone"
