"""Products of groups of rows, as mixtures of experts have them, in tensors of fixed sizes."""

from __future__ import annotations

import onnx_ir as ir

from opbridge.fixing.site import Refused, Site, repair
from opbridge.translations.linalg.group_functions import products_of_all_rows, products_of_rows


@repair("loop-sizes", operators=["Loop"])
def of_all_rows(site: Site) -> str:
    """All rows are multiplied with the matrix of each group, and those of the group are chosen."""
    for key, function in site.model.functions.items():
        if key[:2] == ("opbridge", products_of_rows.name) and site.node in list(function):
            made = ir.from_proto(products_of_all_rows.to_function_proto())
            made.name = function.name
            site.model.functions[key] = made
            return "multiplied all rows with the matrix of each group"
    raise Refused("that changes the size of what it carries")
