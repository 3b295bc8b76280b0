"""A sweep over a Ray cluster of two nodes on this machine, one of which is killed half-way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opbridge import UsageError
from opbridge.coverage import sweep

HERE = Path(__file__).parent
DB = f"{HERE / 'samples_to_sweep.py'}:{{}}"

SCRIPT = """
import json, sys, time
from opbridge.coverage import sweep

def main(db, output, timeout):
    import ray
    from ray.cluster_utils import Cluster

    # A node that is gone should be missed soon, and one on a busy machine should not.
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 12}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": quick}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    open(output + ".started", "w").close()
    killed = []

    def told(done, total, tally):
        if done >= total // 2 and not killed:
            killed.append(done)
            cluster.remove_node(second, allow_graceful=False)

    options = {"allow": ("standard", "function", "kernel"), "timeout": float(timeout), "ray": cluster.address}
    found = sweep(db=db, progress=told, **options)
    deadline = time.monotonic() + 60
    while (nodes := sum(node["Alive"] for node in ray.nodes())) > 1 and time.monotonic() < deadline:
        time.sleep(0.2)
    with open(output, "w") as file:
        json.dump([cluster.address, killed, nodes, found.samples], file)
    ray.shutdown()
    cluster.shutdown()

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def without_times(samples):
    return [
        {name: value for name, value in each.items() if name not in ("seconds", "cpu_seconds", "timings")}
        for each in samples
    ]


START_SECONDS, SECONDS = 90, 900
TIMEOUT = 30
"""Seconds for a sample. Those of a new process have taken more than five while Ray's processes started on two cores."""


def _has_run(command: list[str], environment: dict[str, str], output: Path) -> bool:
    """Runs the script; false where Ray does not start.

    Its processes have its standard output too, so that a pipe would stay open where they outlive the script.
    """
    log, started = output.with_name("log.txt"), Path(f"{output}.started")
    with open(log, "w") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
    begun = time.monotonic()
    while process.poll() is None and time.monotonic() - begun < (SECONDS if started.exists() else START_SECONDS):
        time.sleep(0.2)
    if process.poll() is None:
        for each in _descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.kill()
        process.wait()
    if not started.exists():
        return False
    assert process.returncode == 0, log.read_text()[-3000:]
    return True


def _descendants(process: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
    found = [process]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found[1:]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.thorough  # Ray's own processes take a minute of processor time to start
@pytest.mark.timeout(2 * START_SECONDS + SECONDS + 120)  # more than it waits for, so that its own error is seen
def test_two_nodes_one_of_which_is_killed(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'opbridge[ray]'")
    script = tmp_path / "two_nodes.py"
    script.write_text(SCRIPT)
    # Ray takes the loopback address where it is told that there is no cluster of several machines.
    environment = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    environment["PYTHONPATH"] = str(HERE.parents[1] / "src")
    output = tmp_path / "found.json"
    command = [sys.executable, str(script), DB.format("BREAKING_AND_MANY"), str(output), str(TIMEOUT)]
    if not any(_has_run(command, environment, output) for _ in range(2)):
        pytest.skip(f"Ray did not start two nodes on this machine within {START_SECONDS} s, twice.")
    address, killed, nodes, found = json.loads((tmp_path / "found.json").read_text())
    assert address.startswith("127.0.0.1:")
    assert nodes == 1 and 34 <= killed[0] < 69
    options = {"allow": ("standard", "function", "kernel"), "timeout": TIMEOUT, "jobs": 2}
    assert without_times(found) == without_times(sweep(db=DB.format("BREAKING_AND_MANY"), **options).samples)


def test_without_ray_it_says_what_to_install(monkeypatch):
    import importlib.util

    whole = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ray" else whole(name, *rest))
    with pytest.raises(UsageError, match="pip install 'opbridge\\[ray\\]'"):
        sweep(db=DB.format("GOOD"), ray="auto")
