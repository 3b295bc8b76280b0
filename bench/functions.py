"""What a torch.autograd.Function with `symbolic` costs: an export of 100 uses, beside translations of the same nodes.

The other model calls a torch.library operator, with its fake implementation, as often; its translation makes the very
nodes that `symbolic` makes, and the two files are compared before anything is timed. In turns, in one process; medians.

    python bench/functions.py            # at least 7 runs of each
    python bench/functions.py --quick    # 3 runs, nothing written
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from pathlib import Path

import torch
from onnxscript import opset18 as op
from results import interleaved, median, table, write_section

import opbridge

USES = 100


class Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return torch.nn.functional.leaky_relu(x, 0.25) * y + x

    @staticmethod
    def symbolic(g, x, y):
        return g.op("Add", g.op("Mul", g.op("LeakyRelu", x, alpha_f=0.25), y), x)


@torch.library.custom_op("bench::mix", mutates_args=())
def mix(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.leaky_relu(x, 0.25) * y + x


@mix.register_fake
def _(x, y):
    return torch.empty_like(x)


@opbridge.translation("bench::mix")
def translate_mix(x, y):
    return op.Add(op.Mul(op.LeakyRelu(x, alpha=0.25), y), x)


class WithFunction(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(USES):
            x = Mix.apply(x, y)
        return x


class WithOperator(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(USES):
            x = torch.ops.bench.mix(x, y)
        return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="3 runs; nothing is written")
    parser.add_argument("--runs", type=int, default=7, help="timed runs of each (7)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    runs = 3 if options.quick else options.runs
    body = table(
        [f"export of {USES} uses, seconds", "Function", "translation", "Function / translation"],
        [export_times("to a file", runs, verify=False), export_times("to a file, verified", runs, verify=True)],
    )
    if options.quick:
        print(f"\n{body}")
        return
    said = f"Medians of {runs} runs, interleaved in one process after a warm-up; {3 * USES} nodes in each file."
    write_section("functions", "Cost of a torch.autograd.Function", f"{said}\n\n{body}")


def export_times(name: str, runs: int, verify: bool) -> list[str]:
    """One row of the table."""
    args = (torch.randn(16, 16) / 4, torch.randn(16, 16) / 4)
    contenders = {"Function": WithFunction(), "translation": WithOperator()}
    made = {key: nodes(opbridge.export(model, args, verify=False)) for key, model in contenders.items()}
    if made["Function"] != made["translation"] or len(made["Function"]) != 3 * USES:
        raise SystemExit(f"the two files do not hold the same nodes: {made}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)

        def remove_files() -> None:
            for file in path.iterdir():
                file.unlink()

        seconds = interleaved(
            {
                key: lambda key=key, model=model: opbridge.export(model, args, path / f"{key}.onnx", verify=verify)
                for key, model in contenders.items()
            },
            runs,
            tidy=remove_files,
        )
    function, translation = (median(seconds[key]) for key in contenders)
    row = [name, f"{function:.3f}", f"{translation:.3f}", f"{function / translation:.2f}"]
    print(" | ".join(row), flush=True)
    return row


def nodes(program: opbridge.Program) -> list[str]:
    """The kinds of a program's nodes, in order."""
    return [node.op_type for node in program.model.graph]


if __name__ == "__main__":
    main()
