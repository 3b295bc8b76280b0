"""Products of groups of rows, as mixtures of experts have them, in tensors of fixed sizes."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair

_NAME = "products_of_rows"
"""The function of `opbridge.translations.linalg.group_functions` with the loop."""


@repair("loop-sizes", operators=["Loop"])
def of_all_rows(site: Site) -> str:
    """All rows are multiplied with the matrix of each group, and those of the group are chosen."""
    for key, function in site.model.functions.items():
        if key[:2] == ("opbridge", _NAME) and site.node in list(function):
            # which needs onnxscript; other repairs do without it
            from opbridge.translations.linalg.group_functions import products_of_all_rows

            made = ir.from_proto(products_of_all_rows.to_function_proto())
            made.name = function.name
            site.model.functions[key] = made
            return "multiplied all rows with the matrix of each group"
    raise Refused("that changes the size of what it carries")
