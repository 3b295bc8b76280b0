"""Runs the campaigns: python -m attack [--seconds 3600] [--each 60] [--seed N] [--only NAME] [--results FILE].

Prints what was tried and found, and ends with 1 where something was found.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import time
from pathlib import Path
from typing import Any

from attack import campaigns
from attack.results import write_results

__all__ = ["main"]

_HOUR = 3600.0


def names() -> list[str]:
    """The campaigns there are."""
    return sorted(each.name for each in pkgutil.iter_modules(campaigns.__path__))


def run_all(chosen: list[str], seconds: float, seed: int) -> dict[str, dict[str, Any]]:
    """What each campaign returned, which has `seconds`; with how long it took, under "seconds"."""
    done = {}
    for name in chosen:
        started = time.monotonic()
        print(f"{name}: {seconds:.0f} s from the seed {seed}", flush=True)
        result = importlib.import_module(f"attack.campaigns.{name}").run(seconds, seed)
        done[name] = {**result, "seconds": round(time.monotonic() - started)}
        counts = {key: value for key, value in done[name].items() if key != "findings"}
        print(f"  {json.dumps(counts)}, {len(result['findings'])} findings", flush=True)
        for finding in result["findings"]:
            print(f"  found: {json.dumps(finding, default=str)}", flush=True)
    return done


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=_HOUR, help="for all of them")
    parser.add_argument("--each", type=float, help="seconds for each of them, in the place of --seconds")
    parser.add_argument("--seed", type=int, default=None, help="what is drawn, drawn from; by default another each day")
    parser.add_argument("--only", action="append", choices=names(), help="a campaign; may be given several times")
    parser.add_argument("--results", type=Path, help="a Markdown file to write a section of")
    given = parser.parse_args()
    chosen = given.only or names()
    seed = int(time.time() // 86400) if given.seed is None else given.seed
    done = run_all(chosen, given.each or given.seconds / len(chosen), seed)
    if given.results is not None:
        length = (
            f" EACH={given.each:g}" if given.each else "" if given.seconds == _HOUR else f" SECONDS={given.seconds:g}"
        )
        write_results(done, seed, given.results, f"make attack{length}")
    return 1 if any(each["findings"] for each in done.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
