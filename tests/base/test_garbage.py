"""The collector is off only inside, and stays off where the caller had turned it off."""

from __future__ import annotations

import gc

import pytest

from opbridge.base.garbage import no_collection


@pytest.mark.parametrize("on", [True, False])
def test_it_is_as_before_afterwards(on: bool) -> None:
    was_on = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(ValueError), no_collection():
            assert not gc.isenabled()
            raise ValueError
        assert gc.isenabled() == on
    finally:
        (gc.enable if was_on else gc.disable)()
