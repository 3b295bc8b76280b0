"""The bounds of windows of audio, compared with transformers' own."""

from __future__ import annotations

import pytest
import torch
from helpers import known_functions
from helpers.transformers_classes import of_module


@pytest.mark.parametrize("module", ["qwen3_asr", "qwen3_omni_moe"])
@pytest.mark.parametrize("seed", range(20))
def test_bounds_are_those_of_transformers(module, seed):
    original = of_module(f"models.{module}.modeling_{module}", "get_audio_cu_seqlens")
    computed = known_functions.computed(original)
    generator = torch.Generator().manual_seed(seed)

    def drawn(low, high, count):
        return torch.randint(low, high, (count,), generator=generator)

    for half, whole in ((50, 800), (50, 400), (10, 20), (4, 24)):
        count = int(drawn(1, 6, 1))
        lengths = drawn(0 if seed % 2 else 1, 40 * half, count)
        chunks = drawn(1, 2 * half + 1, int(drawn(1, 9, 1)))
        found = computed(chunks, lengths, whole, half)
        assert found.dtype == torch.int32
        assert found.tolist() == original(chunks, lengths, whole, half).tolist()
    given = {"cu_seqlens": torch.tensor([0, 3])}
    assert computed(chunks, lengths, 800, 50, kwargs=given) is not None and not given
