"""Python control flow, and values that a trace makes constant without a warning.

By default both branches of a data-dependent `if` are in the file. A data-dependent index into a Python tuple is an
error with its line and an alternative. capture="trace" exports the operators executed for the example, and lists every
value that became a constant; verification detects inputs for which these values differ.
"""

from __future__ import annotations

import torch

import opbridge


class Gate(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = self.linear(x)
        scale = (1.0, 2.0, 3.0)[int(x.abs().max() * 0) + 1]
        return torch.tanh(x) * scale


class Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) if x.sum() > 0 else x * 2


def build():
    """The model and example inputs."""
    torch.manual_seed(0)
    return Gate().eval(), (torch.rand(3, 4) + 0.1,)


def main() -> None:
    model, args = build()
    print(opbridge.export(Branch(), args).verification, "\n")

    try:
        opbridge.export(model, args)
    except opbridge.CaptureError as error:
        print(f"refused: {error}\n")

    program = opbridge.export(model, args, capture="trace")
    print(f"{program.plan}\n{program.verification}\n")

    # The constants are valid only for inputs like the example; inputs for the other branch differ.
    print(opbridge.verify(program, model, (-args[0],)))

    # capture="auto" captures the operators if possible; otherwise it traces, with a note that gives the reason.
    print("\n".join(opbridge.export(model, args, capture="auto").plan.notes))


if __name__ == "__main__":
    main()
