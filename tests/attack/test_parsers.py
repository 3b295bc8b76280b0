"""The campaign over texts, in little."""

from __future__ import annotations

import random

import pytest

from attack.campaigns import hostile_texts
from opbridge.kernels import aten


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.thorough
def test_texts_that_are_mutated_reach_new_code_and_end_nothing():
    found = hostile_texts.run(5, seed=3)
    assert not found["findings"]
    assert found["texts"] > 3000 and found["taken"] > 300 and found["kept"] > 30, found


def test_the_seeds_are_schemas_and_nodes_for_them():
    texts = list(hostile_texts._texts(random.Random(0)))
    assert len(texts) == 600 and "Invalid schema" not in aten.rule(texts[0])
    node = dict(line.split("=", 1) for line in texts[1].splitlines())
    assert node["schema"] == texts[0] and node["arguments"].count("=") == len(node["arguments"].split())


def test_what_the_campaign_found_is_refused_with_words():
    for length, words in ((10**30, "a valid list length"), (2**31, "a valid list length")):
        assert words in aten.rule(f"a::b(int[{length}] x) -> ()")
    assert "Invalid schema" in aten.rule('a::b(str x="\\')
