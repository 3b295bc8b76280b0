"""Nodes of built-in kernels: what a translation may give them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from opbridge.errors import TranslationError
from opbridge.translations.lib.kernel_nodes import kernel


@pytest.mark.parametrize("value", [object(), [1, object()]], ids=["one", "among others"])
def test_an_argument_that_is_no_number_is_named(value: Any) -> None:
    x = SimpleNamespace(builder=SimpleNamespace(domains={}))
    with pytest.raises(TranslationError, match="argument 'groups' is computed from dynamic sizes"):
        kernel("deform_conv2d", [x], stride=[1, 1], groups=value)
