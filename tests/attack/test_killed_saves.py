"""The campaign of killed saves, in small."""

from __future__ import annotations

import pytest

from attack.campaigns import killed_saves
from opbridge.save import replacing


@pytest.mark.long
@pytest.mark.slow
def test_the_old_model_or_the_new_one_loads():
    done = killed_saves.run(60, seed=1, most=20)
    assert done["findings"] == []
    assert done["kills before a call"] > 15 and done["kills of a set"] > 10
    assert done["the old model"] and done["the new model"]


@pytest.mark.slow
def test_it_finds_what_leaves_no_model(monkeypatch):
    """With a removal before the rename, some kills leave nothing."""
    commit = replacing.Replacement.commit

    def without_care(self):
        for target in self._replacing:
            target.unlink(missing_ok=True)
        commit(self)

    monkeypatch.setattr(replacing.Replacement, "commit", without_care)
    assert killed_saves.run(0, seed=1, most=0)["findings"]
