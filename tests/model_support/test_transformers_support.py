"""What opbridge knows of transformers: each replacement gives what the function gives, on the inputs of its entry."""

from __future__ import annotations

import pytest

from opbridge.model_support import changed_sources, comparison
from opbridge.model_support.entries import CaptureContext
from opbridge.model_support.transformers.support import SUPPORT

pytest.importorskip("transformers", reason="not installed")

_REPLACED = [
    (entry, target) for entry in SUPPORT.entries if not isinstance(entry, CaptureContext) for target in entry.targets
]


@pytest.fixture(scope="module")
def states():
    found = [each for each in changed_sources.package_sources_known("transformers") if each.brought_by == "opbridge"]
    return {each.target: each.state for each in found[0].targets}


@pytest.mark.slow
@pytest.mark.parametrize(("entry", "target"), _REPLACED, ids=[target for _, target in _REPLACED])
def test_a_replacement_gives_what_the_function_gives(entry, target, states):
    if states[target] != "known":
        pytest.skip(f"this transformers has another {target}")  # transformers is not pinned
    assert not comparison.differences(entry, target)


def test_some_targets_are_known(states):
    """So that the rows above are not all skipped."""
    assert "known" in states.values()
