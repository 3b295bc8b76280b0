"""timm's families with a dynamic batch: captured with a batch of two, verified, and run with a batch of one.

One small model of each family, in a process of its own. A note that a batch of one is not covered is told, as is each
file that gives something else than eager PyTorch for it.

    python bench/timm_batches.py --jobs 2         # all families
    python bench/timm_batches.py resnet10t swin   # those whose names contain one of these; nothing is written
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from results import table, write_section

# The smallest of each family by the number of parameters, where that is less than 25 million.
NAMES = (
    "cait_xxs24_224",
    "coat_tiny",
    "convit_tiny",
    "convmixer_768_32",
    "cpubone_nano",
    "crossvit_tiny_240",
    "cs3darknet_focus_s",
    "csatv2",
    "cspnext_tiny",
    "deit_tiny_patch16_224",
    "densenet121",
    "dla46x_c",
    "dpn48b",
    "edgenext_xx_small",
    "efficientformer_l1",
    "efficientformerv2_s0",
    "efficientvim_m1",
    "efficientvit_b0",
    "efficientvit_m0",
    "ese_vovnet19b_slim_dw",
    "eva02_tiny_patch14_224",
    "fasternet_t0",
    "fastvit_t8",
    "gcvit_xxtiny",
    "ghostnet_050",
    "gmlp_ti16_224",
    "halonet_h1",
    "hardcorenas_b",
    "hgnetv2_b0",
    "hrnet_w18_small",
    "iformer_t",
    "inception_next_atto",
    "inception_v3",
    "lcnetv2_small",
    "legacy_seresnet18",
    "levit_128s",
    "lowformer_b0",
    "mobilenetv3_small_050",
    "mobilevit_xxs",
    "mvitv2_tiny",
    "nest_tiny",
    "pit_ti_224",
    "poolformerv2_s12",
    "pvt_v2_b0",
    "rdnet_tiny",
    "regnetx_002",
    "repghostnet_050",
    "repvit_m1",
    "res2next50",
    "resnest14d",
    "resnet10t",
    "resnetv2_18",
    "rexnet_100",
    "shvit_s1",
    "skresnet18",
    "starnet_s050",
    "swiftformer_xs",
    "test_byobnet",
    "test_coatnet",
    "test_convnext",
    "test_mambaout",
    "test_nfnet",
    "test_vit",
    "test_vit_relpos",
    "tiny_vit_5m_224",
    "tinynet_e",
    "tnt_s_legacy_patch16_224",
    "twins_svt_small",
    "visformer_tiny",
    "vit_tiny_r_s16_p8_224",
    "vitamin_small_224",
    "xception",
    "xcit_nano_12_p8_224",
)
LIMIT = 120


@dataclass
class Outcome:
    """What came of one model.

    Attributes:
        name: The model.
        failure: Why it failed; empty where it did not.
        notes: The notes about sizes.
        seconds: The time that the capture took.
    """

    name: str
    failure: str
    notes: list[str]
    seconds: float

    def line(self) -> str:
        state = self.failure or "ok"
        return f"{self.name:36} {self.seconds:6.1f} s  {state}" + "".join(f"\n    {note}" for note in self.notes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of models; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="how many run at the same time")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(asdict(examined(options.names[0]))))
        return
    chosen = [name for name in NAMES if not options.names or any(part in name for part in options.names)]
    found = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(in_child, chosen):
            found.append(outcome)
            print(outcome.line(), flush=True)
    print(summary(found))
    if not options.names:
        write_section("timm_batches", "timm's families with a dynamic batch", report(found))


def in_child(name: str) -> Outcome:
    """One model in a process of its own."""
    try:
        run = subprocess.run(
            [sys.executable, __file__, "--child", name], capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(name, f"takes more than {LIMIT} s", [], float(LIMIT))
    try:
        return Outcome(**json.loads(run.stdout.splitlines()[-1]))
    except (IndexError, ValueError):
        return Outcome(name, (run.stderr.strip().splitlines() or ["no result"])[-1][:200], [], 0.0)


def examined(name: str) -> Outcome:
    """Exports one model, and runs the file with a batch of one."""
    import onnxruntime
    import timm
    import torch

    import opbridge

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False).eval()
    size = model.default_cfg.get("min_input_size") or model.default_cfg["input_size"]
    if model.default_cfg.get("fixed_input_size"):
        size = model.default_cfg["input_size"]
    x = torch.randn(2, *size)
    notes: list[str] = []
    seconds = 0.0
    try:
        program = opbridge.export(model, (x,), dynamic_shapes=({0: "batch"},))
        notes = [each for each in program.capture.notes if "valid only for" in each or "torch.export" in each]
        seconds = program.timings["capture"]
        if program.verification is None or not program.verification.ok:
            return Outcome(name, "verification fails", notes, seconds)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            program.save(path)
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            (got,) = session.run(None, {session.get_inputs()[0].name: x[:1].numpy()})
        with torch.no_grad():
            expected = model(x[:1])
        torch.testing.assert_close(torch.from_numpy(got), expected, rtol=1e-3, atol=1e-3)
    except Exception as error:  # any reason is one line of the table
        return Outcome(name, f"{type(error).__name__}: {_first(error)}", notes, seconds)
    return Outcome(name, "", notes, seconds)


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:160]


def summary(found: list[Outcome]) -> str:
    """The counts, as a sentence."""
    ok = sum(not each.failure for each in found)
    noted = sum(bool(each.notes) for each in found)
    return (
        f"Of {len(found)} models, {ok} are verified and give with a batch of one what eager PyTorch does; {noted} have "
        f"a note about sizes. All captures take {sum(each.seconds for each in found):.0f} s."
    )


def report(found: list[Outcome]) -> str:
    """The section of RESULTS.md."""
    rows = [[each.name, f"{each.seconds:.1f}", each.failure or "ok", "; ".join(each.notes)] for each in found]
    return "\n\n".join([summary(found), table(["Model", "Capture (s)", "Result", "Notes about sizes"], rows)])


if __name__ == "__main__":
    main()
