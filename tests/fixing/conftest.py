"""What the tests of repairs share."""

from __future__ import annotations

import pytest


@pytest.fixture
def lacking(tmp_path):
    """The path of a target without some operators, or with the facts that are given."""

    def make(*operators: str, facts: str = "") -> str:
        if operators:
            facts += f'[[fact]]\nkind = "missing"\noperators = {list(operators)}\nsource = "published: x"\n'
        path = tmp_path / "chip.toml"
        path.write_text(f'name = "chip"\nversions = ["1.0"]\n{facts}')
        return str(path)

    return make
