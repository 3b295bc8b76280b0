"""The built-in kernels beside what there is without them: PyTorch, torchvision, and standard ONNX operators.

Bursts of calls, the contenders in turns, in one process; float32, 2 threads, medians. Between the bursts there is a
pause, in which the threads of the one before come to rest. The outputs are compared first.

    python bench/kernels.py            # every kernel
    python bench/kernels.py --quick    # fewer and shorter bursts, nothing written
    python bench/kernels.py --only deform     # the others' figures stay as they are
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Sequence

import kernels_calls
import kernels_convolution
import kernels_vision
import torch
from kernels_cases import THREADS, Machine, Measured, Section
from results import interleaved, median, table, write_section

SECTIONS: Sequence[Section] = [*kernels_calls.SECTIONS, *kernels_convolution.SECTIONS, *kernels_vision.SECTIONS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter bursts; nothing is written")
    parser.add_argument("--runs", type=int, default=15, help="bursts of each contender (15)")
    parser.add_argument("--only", default="", help="measure the kernels with this in their name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(THREADS)
    runs, burst = (5, 0.02) if options.quick else (options.runs, 0.1)
    machine = Machine.measured()
    said = (
        f"Medians of {runs} bursts, interleaved in one process; float32, {THREADS} threads. PyTorch on {THREADS} "
        f"threads reaches {machine.flops / 1e9:.0f} GFLOP/s in a matrix product on this machine, and "
        f"{machine.bytes / 1e9:.1f} GB/s in a memory copy, {machine.scaling:.1f} times that of one thread."
    )
    print(said)
    for section in SECTIONS:
        if options.only not in section.title.lower():
            continue
        rows = []
        for case in section.cases():
            row = section.row(case, Measured(seconds(case.contenders, runs, burst)), machine)
            print(" | ".join(row), flush=True)
            rows.append(row)
        body = f"{said}\n\n{table(section.header, rows)}\n\n{section.notes}".strip()
        if options.quick:
            print(f"\n{body}")
        else:  # at once, as all of them take a while
            name = "".join(letter if letter.isalnum() else "_" for letter in section.title.lower())
            write_section(f"kernels_{name}", f"Built-in kernels: {section.title}", body)


def seconds(contenders: dict[str, Callable[[], object]], runs: int, burst: float) -> dict[str, float]:
    """The time of one call of each contender."""
    counts = {name: calls_in(burst, call) for name, call in contenders.items()}

    def repeated(name: str) -> Callable[[], None]:
        call, count = contenders[name], counts[name]

        def run() -> None:
            for _ in range(count):
                call()

        return run

    taken = interleaved({name: repeated(name) for name in contenders}, runs, tidy=lambda: time.sleep(0.02))
    return {name: median(values) / counts[name] for name, values in taken.items()}


def calls_in(burst: float, call: Callable[[], object]) -> int:
    """How many calls fill a burst; one at least."""
    call()
    start = time.perf_counter()
    call()
    return max(1, round(burst / max(time.perf_counter() - start, 1e-6)))


if __name__ == "__main__":
    main()
