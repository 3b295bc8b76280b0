"""The sources of functions of packages that are not imported."""

from __future__ import annotations

import functools
import importlib
import sys

import pytest
from helpers.distributions import Distribution

from opbridge.model_support.fingerprints import fingerprint, fingerprint_of_source
from opbridge.model_support.package_sources import has_module, is_installed, source_of

_SOURCE = '''
import functools, sys


def passing_on(function):
    return function


@passing_on
@functools.lru_cache(maxsize=None)
def decorated(x):
    """Documented."""
    return x  # as it is


class Base:
    def inherited(self):
        return 1

    @staticmethod
    def static(x):
        return x

    async def waiting(self):
        return 2


class Derived(Base):
    own = 3


if sys.platform:
    def conditional():
        return 4
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    made = Distribution(tmp_path, monkeypatch, "a-package")
    made.module("a_package.__init__", "")
    made.module("a_package.inner.__init__", "def of_a_folder():\n    pass\n")
    made.module("a_package.inner.module", _SOURCE)
    return "a_package.inner.module"


@pytest.mark.parametrize("name", ["Base.inherited", "Base.static", "conditional"])
def test_fingerprints_are_those_of_the_function(package, name):
    read = fingerprint_of_source(source_of(f"{package}:{name}"))
    assert "a_package" not in sys.modules
    found = importlib.import_module(package)
    for each in name.split("."):
        found = vars(found)[each]
    assert read and read == fingerprint(found)


def test_decorators_belong_to_a_source(package):
    source = source_of(f"{package}:decorated")
    assert source.startswith("@passing_on\n@functools.lru_cache") and source.endswith("# as it is\n")
    plain = importlib.import_module(package).decorated.__wrapped__
    assert fingerprint_of_source(source) == fingerprint(plain)
    assert fingerprint(functools.wraps(plain)(lambda x: x)) == ""


def test_a_method_that_is_inherited_is_found(package):
    assert source_of(f"{package}:Derived.inherited") == source_of(f"{package}:Base.inherited")
    assert source_of(f"{package}:Base.waiting").lstrip().startswith("async def waiting")


@pytest.mark.parametrize("name", ["Derived.own", "Derived.absent", "absent", "Base", "Absent.inherited"])
def test_what_is_no_function_has_no_source(package, name):
    assert source_of(f"{package}:{name}") is None


def test_modules(package):
    assert has_module(package) and has_module("a_package.inner") and source_of("a_package.inner:of_a_folder")
    assert not has_module("a_package.outer") and source_of("a_package.outer:decorated") is None
    assert is_installed("a_package") and not is_installed("a_package_that_is_not_there")
    assert not has_module("a_package_that_is_not_there") and "a_package" not in sys.modules
