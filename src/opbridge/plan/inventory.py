"""The operators of PyTorch and its libraries, and which of them have a route: what `opbridge ops --missing` lists.

What counts is every overload of a namespace that is functional and that a capture can hold. The first of these rules
that fits an overload leaves it out:

1. It writes to its arguments: in-place and `out` forms. A capture has the functional form in their place.
2. It gives no tensor and no size: what Python asks of a tensor, and checks. A capture holds the answer.
3. It is the derivative of another: its name says so (`backward`, `jvp`, `_grad`). A capture of a gradient decomposes
   it or holds it, and opbridge has routes for those that are met; they are not counted.
4. PyTorch has no kernel of it for dense tensors on the CPU: operators of other devices and of sparse, nested and
   quantised tensors.
5. It is for a device or a library of kernels by its name (cudnn, miopen, mkldnn, fbgemm, ...).
6. It makes sparse, nested or quantised tensors, or takes them apart, by its name.
7. It is a part of PyTorch's machinery: its tests, optimisers and transforms (`_test_...`, `_fused_adam`,
   `_add_batch_dim`, ...).

An overload that is left has one of these routes:

translation     by opbridge's or torchlib's translations, or the user's: the routes standard, function and kernel
decomposition   torch or opbridge decomposes it, or its kernel is made of other operators
aten            nothing but a node that libtorch runs, which has to be allowed
none            nothing at all

Whether each operator of a decomposition has a route depends on the arguments: `opbridge check` tells it of a model.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from opbridge.base.torch_private import torch_operators
from opbridge.graph.decompose import decompositions
from opbridge.translations.catalogue import default_registry
from opbridge.translations.registry import Registry

__all__ = ["NAMESPACES", "Inventory", "InventoryRow", "inventory"]

NAMESPACES = {
    "aten": "torch",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "transformers": "transformers.integrations.moe",
    "torchao": "torchao",
}
"""The namespaces that are listed, and what has to be imported for their operators to be there."""

_DERIVATIVE = re.compile(r"backward|_jvp|_grad$|differentiable")
_OTHER_DEVICE = re.compile(
    r"cudnn|miopen|mkldnn|mps|cuda|cufft|vulkan|nnpack|fbgemm|cslt|triton|_efficient_attention|overrideable"
)
_OTHER_LAYOUT = re.compile(
    r"sparse|coalesce|_cs[rc]_|_bs[rc]_|_coo_|nested|to_dense|_?indices(_copy)?$|_?values(_copy)?$|spdiags|s?smm$|sspaddmm"
)
_QUANTIZED = re.compile(
    r"quantized_|_quantized|^quantize_|^dequantize|^q_|^q(nms|roi_align)$|int_repr|prepack|_rowwise_prune|"
    r"choose_qparams_optimized|_saturate_weight_to_fp16"
)
_MACHINERY = re.compile(
    r"^_test_|_foobar|_batch_dim$|^_fused_(adamw?|adagrad|sgd)$|^_amp_|_dual|_fw_primal|_autocast|pin_memory|_lazy_clone|"
    r"_resize_output|^resize|^set$|_make_dep_token|from_file|^data$|_functional_|_to_cpu|slice_inverse|"
    r"flatten_dense_tensors|_reshape_from_tensor|_new_zeros_with_same_feature_meta"
)
_PYTORCH = ("aten", "torchvision")


@dataclass(frozen=True)
class InventoryRow:
    """One overload that counts.

    Attributes:
        operator: Its name.
        route: "translation", "decomposition", "aten" or "none".
        schema: Its arguments and results, as torch declares them.
    """

    operator: str
    route: str
    schema: str


@dataclass(frozen=True)
class Inventory:
    """The operators of some namespaces.

    Attributes:
        rows: The overloads that count, by name.
        excluded: How many do not, by namespace and reason.
        absent: The namespaces of packages that are not installed.
    """

    rows: tuple[InventoryRow, ...]
    excluded: dict[str, dict[str, int]]
    absent: tuple[str, ...]

    @property
    def missing(self) -> tuple[InventoryRow, ...]:
        """The overloads that no route carries unless one is allowed."""
        return tuple(row for row in self.rows if row.route in ("aten", "none"))

    def counts(self) -> dict[str, dict[str, int]]:
        """How many overloads take each route, by namespace."""
        found: dict[str, Counter[str]] = {}
        for row in self.rows:
            found.setdefault(row.operator.partition("::")[0], Counter())[row.route] += 1
        return {namespace: dict(counter) for namespace, counter in found.items()}


def inventory(pattern: str = "*", *, registry: Registry | None = None, opset: int | None = None) -> Inventory:
    """Which operators of PyTorch and its libraries there are, and which of them have a route.

    Args:
        pattern: A shell pattern for names, as `opbridge ops` takes it: the namespace and the overload may be left out.
        registry: The translations; by default all that there are.
        opset: The opset that is exported; by default the newest that any translation is for.
    """
    registry = registry or default_registry()
    known = decompositions()
    rows: list[InventoryRow] = []
    excluded: dict[str, Counter[str]] = {}
    absent = tuple(name for name, module in NAMESPACES.items() if not torch_operators.is_importable(module))
    for name in sorted(torch_operators.all_operators(tuple(name for name in NAMESPACES if name not in absent))):
        target = torch_operators.operator_object(name)
        if target is None or not _fits(name, pattern):
            continue
        reason = _reason_excluded(target)
        if reason is not None:
            excluded.setdefault(target.namespace, Counter())[reason] += 1
            continue
        rows.append(InventoryRow(name, _route(target, name, registry, known, opset), str(target._schema)))
    return Inventory(tuple(rows), {name: dict(counter) for name, counter in excluded.items()}, absent)


def _fits(operator: str, pattern: str) -> bool:
    name = operator if "::" in pattern else operator.partition("::")[2]
    return any(fnmatch.fnmatchcase(candidate, pattern) for candidate in (name, name.partition(".")[0]))


def _reason_excluded(target: torch._ops.OpOverload) -> str | None:
    """Why an overload does not count, by the first of the rules that fits; None where it does."""
    name = target.name().partition("::")[2].partition(".")[0]
    if target._schema.is_mutable:
        return "in-place or out= variant"
    if not _gives_values(torch_operators.declared(target)[1]):
        return "no tensor result"
    if _DERIVATIVE.search(name):
        return "derivative"
    if not torch_operators.runs_on_cpu(target):
        return "no kernel for dense tensors on the CPU"
    if _OTHER_DEVICE.search(name):
        return "for another device"
    if target.namespace not in _PYTORCH:
        return None  # whose operators take dense tensors, whatever they are called
    if _OTHER_LAYOUT.search(name) or _QUANTIZED.search(name):
        return "for sparse, nested or quantized tensors"
    return "internal to PyTorch" if _MACHINERY.search(name) else None


def _gives_values(results: Sequence[torch_operators.Declared]) -> bool:
    return any(each.type.rstrip("?").removesuffix("[]").rstrip("?") in ("Tensor", "SymInt") for each in results)


def _route(target: torch._ops.OpOverload, name: str, registry: Registry, known: dict, opset: int | None) -> str:
    newest = opset or max((entry.since for entry in registry.of(name)), default=0)
    if any(registry.find(name, newest, complex=complex) for complex in (False, True)):
        return "translation"
    if target in known or torch_operators.is_made_of_others(target):
        return "decomposition"
    results = torch_operators.declared(target)[1]
    gives_tensors = all(each.type.rstrip("?").removesuffix("[]") == "Tensor" for each in results)
    return "aten" if gives_tensors else "none"
