"""The export modes of torch.onnx.export, `operator_export_type=`, with current releases of torch.

    python examples/export_modes.py
    opbridge export examples/export_modes.py:build --raw

`mul` and `triu` have translations; the custom operator `folding::fold` has none. Operators that run in libtorch require
torch; operators of other libraries than aten must be allowed when the session is created.
"""

from __future__ import annotations

import torch

import opbridge
from opbridge import cli


@torch.library.custom_op("folding::fold", mutates_args=())
def fold(x: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        x = x + x.flip(-1)
    return x


@fold.register_fake
def _(x, times):
    return torch.empty_like(x)


class Upper(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.triu(x * 2.0, diagonal=1)


class Folded(Upper):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.folding.fold(super().forward(x), times=2)


def build() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model with all three operators, and example inputs."""
    return Folded(), (torch.randn(3, 3),)


def show(mode: str, program: opbridge.Program) -> None:
    """The model's operators by route, its ONNX nodes, and whether it was compared with PyTorch."""
    routes = ", ".join(f"{row.operator} {row.route}" for row in program.plan.rows)
    nodes = ", ".join(f"{node.domain or 'ONNX'}::{node.op_type}" for node in program.model.graph)
    verified = f"not verified: {program.unverified}" if program.unverified else "verified"
    print(f"{mode}\n  {routes}\n  {nodes}\n  {verified}\n")


def run(program: opbridge.Program, model: torch.nn.Module) -> None:
    """Loads the file as somebody who was given it does."""
    try:
        opbridge.session(program.to_bytes())
    except opbridge.ModelFileError as error:
        print(f"  without being named: {error}\n")
    session = opbridge.session(program.to_bytes(), aten=["folding::*"])
    x = torch.randn(3, 3)
    (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    same = torch.equal(torch.from_numpy(result), model(x))
    print(f"  aten=['folding::*']: {'equal to' if same else 'NOT EQUAL to'} PyTorch\n")


def main() -> None:
    torch.manual_seed(0)
    model, args = build()
    show("ONNX", opbridge.export(Upper(), args, operator_export_type=torch.onnx.OperatorExportTypes.ONNX))
    try:
        opbridge.export(model, args, operator_export_type="ONNX")
    except opbridge.MissingOperators as error:
        print(f"ONNX, with an operator that has no translation\n{error}\n")
    show("ONNX_ATEN", opbridge.export(Upper(), args, operator_export_type="ONNX_ATEN"))
    program = opbridge.export(model, args, operator_export_type="ONNX_ATEN_FALLBACK")
    show("ONNX_ATEN_FALLBACK", program)
    run(program, model)
    show("ONNX_FALLTHROUGH", opbridge.export(model, args, operator_export_type="ONNX_FALLTHROUGH"))
    show("RAW", opbridge.export(model, args, operator_export_type="RAW"))

    # A mode corresponds to `allow=` and `routes=`, which select routes by operator.
    program = opbridge.export(Upper(), args, routes={"aten::triu": "aten"})
    show("routes={'aten::triu': 'aten'}", program)
    (node,) = (node for node in program.model.graph if node.domain)
    for name, attribute in node.attributes.items():
        print(f"  {name:<14} {attribute.value}")

    print("\nthe raw graph: opbridge export examples/export_modes.py:build --raw")
    cli.main(["export", f"{__file__}:build", "--raw"])


if __name__ == "__main__":
    main()
