"""What packages say while they are imported for a sweep."""

from __future__ import annotations

import logging
import warnings
from types import SimpleNamespace

import pytest

from opbridge.coverage.engine.quiet import quietly
from opbridge.coverage.models import catalogue

LOGGER = logging.getLogger("a_package")


def _talking():
    warnings.warn("old", FutureWarning, stacklevel=1)
    LOGGER.warning("odd")
    LOGGER.error("broken")
    return []


def test_warnings_are_not_shown_and_errors_are(caplog, recwarn):
    with quietly():
        _talking()
    assert caplog.messages == ["broken"] and not recwarn
    with pytest.warns(FutureWarning, match="old"):
        _talking()
    assert caplog.messages == ["broken", "odd", "broken"]


def test_packages_of_families_are_imported_quietly(caplog, recwarn, monkeypatch):
    monkeypatch.setattr(catalogue, "_module", lambda family: SimpleNamespace(entries=_talking))
    assert catalogue.entries_of.__wrapped__("a_family") == {}
    assert caplog.messages == ["broken"] and not recwarn


def test_what_a_file_of_the_users_says_is_shown(caplog, monkeypatch):
    monkeypatch.setattr(catalogue.specs, "attribute", lambda spec, what: _talking)
    with pytest.warns(FutureWarning, match="old"):
        assert catalogue.entries_of.__wrapped__("models.py:MODELS") == {}
    assert caplog.messages == ["odd", "broken"]
