"""`super` in loops and comprehensions of as many iterations as a size says."""

from __future__ import annotations

import dis

import pytest
import torch

import opbridge
from opbridge.capture.control_flow.liveness import live_names


class OfComprehension(torch.nn.Linear):
    def forward(self, x):
        return torch.stack([super(OfComprehension, self).forward(row) for row in x])


class OfGenerator(torch.nn.Linear):
    def forward(self, x):
        return torch.stack(tuple(super(OfGenerator, self).forward(row) for row in x))


class OfLoop(torch.nn.Linear):
    def forward(self, x):
        found = []
        for row in x:
            row = super().forward(row) * 2
            found.append(row)
        return torch.stack(found)


class OfVariable(torch.nn.Linear):
    def forward(self, x):
        above = super()
        return torch.stack([above.forward(row) for row in x])


class OfMethod(torch.nn.Linear):
    def forward(self, x):
        above = super().forward
        return torch.stack([above(row) for row in x])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OfComprehension, OfGenerator, OfLoop, OfVariable, OfMethod])
def test_the_loop_has_as_many_iterations_as_there_are_rows(kind):
    others = [(torch.rand(rows, 4),) for rows in (1, 2, 6)]
    program = opbridge.export(kind(4, 4), (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), inputs=others)
    assert program.verification.ok and len(program.verification.runs) == 4


def _loaded(function, name):
    return next(each.offset for each in dis.get_instructions(function) if each.argval == name)


def test_super_reads_the_first_argument_alone():
    code = OfLoop.forward.__code__
    assert live_names(code, _loaded(OfLoop.forward, "found")) >= {"self", "found"}
    assert "x" not in live_names(code, _loaded(OfLoop.forward, "append"))


def test_what_a_comprehension_goes_over_is_no_variable():
    def rows(x):
        return sum(len(locals()) for row in x)

    (code,) = (each for each in rows.__code__.co_consts if hasattr(each, "co_code"))
    assert live_names(code, _loaded(code, "locals")) == {"row"}
