"""Python control flow, and values that a trace freezes silently.

An `if` on data is no problem by default: both of its sides are in the file. An index that data decide into a Python
tuple is refused, with its line and what to write in its place. capture="trace" takes that as it runs on the example,
and names every value that it froze; verification finds out where these decide.
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

    # What was frozen holds as long as the inputs are like the example; inputs for the other branch show it.
    print(opbridge.verify(program, model, (-args[0],)))

    # capture="auto" takes the capture of the operators where it can, and says why where it cannot.
    print("\n".join(opbridge.export(model, args, capture="auto").plan.notes))


if __name__ == "__main__":
    main()
