"""Loops that fill a list up to a size."""

from __future__ import annotations

import ast
import textwrap

import pytest
import torch
from helpers.matching import assert_matches

from opbridge.capture.tracer.counting_loops import as_for_loop


def _loop(text: str) -> ast.While:
    (loop,) = ast.parse(textwrap.dedent(text)).body
    assert isinstance(loop, ast.While)
    return loop


def test_the_length_is_the_number_of_the_iteration():
    loop = as_for_loop(
        _loop("""
            while len(found) < x.size(0) - 1:
                h = f(x[len(found)], h)
                if h is None:
                    break
                found += [h]
                g(len(found), found[0])
        """)
    )
    assert loop is not None
    assert ast.unparse(loop).replace("__opbridge_iteration_2_0__", "i") == textwrap.dedent("""\
        for i in range(len(found), x.size(0) - 1):
            h = f(x[i], h)
            if h is None:
                break
            found += [h]
            g(i + 1, found[0])""")


@pytest.mark.parametrize(
    "text",
    [
        "while len(found) < n:\n    found.append(1)",  # which a method may change, if it is a tensor
        "while len(found) < 3:\n    found.append(1)",
        "while len(found) <= x.shape[0]:\n    found.append(1)",
        "while len(found) < x.shape[0]:\n    x = f(x)\n    found.append(1)",
        "while len(found) < x.shape[0]:\n    x.resize_(2)\n    found.append(1)",
        "while len(found) < x.shape[0]:\n    if f():\n        continue\n    found.append(1)",
        "while len(found) < x.shape[0]:\n    for y in x:\n        f()\n    else:\n        continue\n    found += [1]",
        "while len(found) < x.shape[0]:\n    found.append(1)\n    found.append(2)",
        "while len(found) < x.shape[0]:\n    if f():\n        found.append(1)",
        "while len(found) < x.shape[0]:\n    found.append(1)\n    f(found)",
        "while len(found) < x.shape[0]:\n    found.append(found)",
        "while len(found) < x.shape[0]:\n    found.append(1)\n    found[0] = 2",
        "while len(found) < x.shape[0]:\n    found.append(1)\n    found = []",
        "while len(found) < x.shape[0]:\n    found += [1, 2]",
        "while len(found) < x.shape[0]:\n    found += [*x]",
        "while len(found) < x.shape[0]:\n    g = lambda: f(found)\n    found.append(1)",
    ],
)
def test_other_loops_stay(text):
    assert as_for_loop(_loop(text)) is None


class Decoder(torch.nn.Module):
    """A decoder that is given what it is to say, as that of Tacotron 2; it writes to what it carries."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs, gates = [], []
        state, total = x.new_zeros(x.shape[1], 4), x.new_zeros(x.shape[1], 4)
        while len(outputs) < x.size(0) - 1:
            state = self.cell(x[len(outputs)], state)
            total += state
            outputs += [state * total.tanh()]
            gates.append(state.sum(1))
        return torch.stack(outputs), torch.stack(gates), total


@pytest.mark.slow
def test_a_decoder_of_any_number_of_steps():
    others = [(torch.randn(steps, 3, 4),) for steps in (2, 5, 12)]
    program = assert_matches(
        Decoder().eval(), torch.randn(8, 3, 4), others=others, dynamic_shapes=({0: "steps"},), rtol=1e-4, atol=1e-5
    )
    assert program.plan.decisions
