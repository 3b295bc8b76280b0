from __future__ import annotations

import torch
from helpers.matching import assert_matches


def test_compressed_rows_of_sorted_indices() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pointers = torch._convert_indices_from_coo_to_csr(x, 5)
        return pointers, torch._convert_indices_from_coo_to_csr(x, 8, out_int32=True)

    program = assert_matches(
        model,
        torch.tensor([0, 0, 2, 2, 2, 3]),
        others=[(torch.tensor([0, 1]),), (torch.tensor([3, 3, 4, 4]),), (torch.tensor([0]),)],
        dynamic_shapes=({0: "n"},),
    )
    assert program.plan.rows[0].how == "opbridge translation, opset 18"
    assert_matches(model, torch.zeros(0, dtype=torch.int64))
