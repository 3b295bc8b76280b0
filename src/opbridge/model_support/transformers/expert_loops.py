"""Mixtures of experts that go over the experts that any token has chosen, without a loop that has as many passes.

Most mixtures of transformers have a form with grouped products, which it takes by itself. Those here have none. Where
the weights of all experts are one tensor, `of_dbrx`, `of_longcat` and `of_step` sort the pairs of tokens and experts by
expert, and multiply all of them in grouped products, as transformers does. Where each expert is a module of its own,
the loop goes over all experts, and an expert that no token has chosen computes nothing.

The products of a token are added in another order than by the loops.

Checked on transformers 5.24.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from opbridge.model_support.entries import Arguments
from opbridge.model_support.transformers.changed_statements import with_statements

__all__ = ["of_dbrx", "of_longcat", "of_step", "over_all_modules", "with_a_cast_where_needed"]

_MODULE = "transformers.integrations.moe"

over_all_modules = with_statements(
    {
        "expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()": (
            "expert_hit = [[number] for number in range(self.num_experts)]"
        )
    }
)
"""The code of a loop over modules that goes over all of them; None where it chooses them in another way."""

with_a_cast_where_needed = with_statements(
    {
        "self.classifier = self.classifier.to(self.dtype)": (
            "self.classifier = self.classifier if self.classifier.weight.dtype == self.dtype "
            "else self.classifier.to(self.dtype)"
        )
    }
)
"""The code of a router that casts its weights where they have another dtype alone: a capture has no such cast."""

_Products = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Of rows sorted by expert, and a matrix for each expert, the product of each row with its expert's."""


def of_dbrx(named: Arguments) -> torch.Tensor:
    """What the experts of DBRX return, of their arguments by name."""
    module, hidden = named["self"], named["hidden_states"]
    first, second, last = (
        each.view(-1, module.ffn_hidden_size, module.hidden_size)
        for each in (module.mlp.w1, module.mlp.v1, module.mlp.w2)
    )

    def computed(rows: torch.Tensor, expert: torch.Tensor, products: _Products) -> torch.Tensor:
        gate, up = products(rows, first.transpose(1, 2)), products(rows, second.transpose(1, 2))
        return products(module.mlp.activation_fn(gate) * up, last)

    states = hidden.reshape(-1, module.hidden_size)
    found = _mixed(states, named["top_k_index"], named["top_k_weights"], module.num_experts, computed)
    return found.view(hidden.shape[0], -1, module.hidden_size)


def of_longcat(named: Arguments) -> torch.Tensor | None:
    """What the experts of Longcat-Flash return; None where all of them are identities."""
    module, count = named["self"], named["self"].num_routed_experts
    if module.gate_up_proj is None:
        return None

    def computed(rows: torch.Tensor, expert: torch.Tensor, products: _Products) -> torch.Tensor:
        gate, up = products(rows, module.gate_up_proj[:count].transpose(1, 2)).chunk(2, dim=-1)
        found = products(module.act_fn(gate) * up, module.down_proj.transpose(1, 2))
        return torch.where(expert[:, None] < count, found, rows)

    return _mixed(named["hidden_states"], named["top_k_index"], named["top_k_weights"], count, computed)


def of_step(named: Arguments) -> torch.Tensor:
    """What the experts of Step-3.7 return."""
    module = named["self"]

    def computed(rows: torch.Tensor, expert: torch.Tensor, products: _Products) -> torch.Tensor:
        found = module._apply_gate(products(rows, module.gate_up_proj.transpose(1, 2)))
        return products(found, module.down_proj.transpose(1, 2))

    return _mixed(named["hidden_states"], named["top_k_index"], named["top_k_weights"], module.num_experts, computed)


def _mixed(
    states: torch.Tensor,
    chosen: torch.Tensor,
    weights: torch.Tensor,
    count: int,
    computed: Callable[[torch.Tensor, torch.Tensor, _Products], torch.Tensor],
) -> torch.Tensor:
    """The weighted sums of what the experts of each token compute, [tokens, size].

    Args:
        states: [tokens, size].
        chosen: The experts of each token, int64, [tokens, experts].
        weights: Their weights, of the same shape.
        count: How many experts have weights: the product with an expert of a higher number is 0.
        computed: What experts compute, of rows sorted by expert, their experts, and products with matrices.
    """
    importlib.import_module(_MODULE)  # which registers the operator
    grouped: Any = torch.ops.transformers.grouped_mm_fallback
    expert, order = chosen.reshape(-1).sort(stable=True)
    ends = (expert[:, None] <= torch.arange(count, device=expert.device)).sum(0).int()
    rows = states[torch.div(order, chosen.shape[1], rounding_mode="trunc")]
    found = computed(rows, expert, lambda left, right: grouped(left, right, ends))
    found = (found * weights.reshape(-1)[order, None]).to(states.dtype)
    return found[order.argsort()].view(*chosen.shape, states.shape[1]).sum(1)
