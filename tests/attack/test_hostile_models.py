"""The campaign over models, in little."""

from __future__ import annotations

import random

import pytest

from attack.campaigns import hostile_models
from attack.hostile_models import hostile


@pytest.mark.slow
def test_the_same_seed_gives_the_same_file_and_another_one_another():
    made = [hostile(random.Random(seed)) for seed in range(100)]
    assert made == [hostile(random.Random(seed)) for seed in range(100)]
    assert len(set(made)) > 80


@pytest.mark.slow
def test_a_few_files_have_no_finding():
    found = hostile_models.run(120, 7, 30)
    assert found["files"] == 30 and not found["findings"], found["findings"]
