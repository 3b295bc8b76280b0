"""How fast ONNX Runtime runs a decoder: plain, with fused norms, as a folder for onnxruntime-genai, and its builder's.

A Llama of 8 layers of random weights (width 512, 8 heads of queries, 4 of keys, 8192 words). One token after a cache of
512, and 512 tokens at once. All sessions in one process, in turns, after a warm-up; medians. Nodes: in the file, and
after ONNX Runtime has loaded it on the CPU. The logits of all are compared with those of the first.

    python bench/generation.py             # needs onnxruntime-genai (pip install 'opbridge[genai]')
    python bench/generation.py --quick     # 2 layers, nothing written
"""

from __future__ import annotations

import argparse
import functools
import logging
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy
import onnx
import onnxruntime
import tokenizers
import torch
import transformers
from results import interleaved, median, table, write_section

import opbridge

_CACHE = 512
_TOKENS = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="2 layers; nothing is written")
    parser.add_argument("--runs", type=int, default=30, help="timed runs of each (30)")
    parser.add_argument("--threads", type=int, default=2, help="ONNX Runtime's threads (2)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        files = written(Path(folder), 2 if options.quick else 8)
        rows = measured(files, options.runs, options.threads, Path(folder))
    header = ["file", "nodes", "after loading", "one token, ms", "512 tokens, ms", "of the builder's"]
    body = table(header, rows)
    if options.quick:
        print(f"\n{body}")
        return
    said = (
        f"A Llama of 8 layers in float32 on the CPU, {options.threads} threads; medians of {options.runs} runs, "
        "interleaved in one process."
    )
    write_section("generation", "A decoder in fused forms", f"{said}\n\n{body}")


def written(folder: Path, layers: int) -> dict[str, Path]:
    """The files of one model, by their names in the table."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=8192,
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=2048,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    files = {"plain": folder / "plain.onnx", "fused norms (--target onnxruntime)": folder / "norms.onnx"}
    task = {"task": "text-generation"}
    opbridge.export(model, (), files["plain"], **task)
    opbridge.export(model, (), files["fused norms (--target onnxruntime)"], target="onnxruntime", **task)
    opbridge.export(model, (), folder / "genai", genai=True, **task)
    files["--genai"] = folder / "genai" / "model.onnx"
    model.save_pretrained(folder / "saved")
    words = tokenizers.models.WordLevel({f"w{number}": number for number in range(8192)}, unk_token="w0")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words), eos_token="w2")
    tokenizer.save_pretrained(folder / "saved")  # which the builder asks for
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(folder / "saved")]
    kind = ["-o", str(folder / "built"), "-p", "fp32", "-e", "cpu", "-c", str(folder / "cache")]
    subprocess.run([*builder, *kind], check=True, capture_output=True)
    files["onnxruntime-genai's builder"] = folder / "built" / "model.onnx"
    return files


def measured(files: dict[str, Path], runs: int, threads: int, folder: Path) -> list[list[str]]:
    """The rows of the table."""
    sessions = {
        name: session(file, threads, folder / f"{at}.loaded.onnx") for at, (name, file) in enumerate(files.items())
    }
    medians = []
    for new, past in ((1, _CACHE), (_TOKENS, 0)):
        given = {name: feeds(each, new, past) for name, each in sessions.items()}
        logits = [sessions[name].run(["logits"], given[name])[0] for name in sessions]
        for each in logits[1:]:
            numpy.testing.assert_allclose(each, logits[0], rtol=1e-3, atol=1e-3)
        calls = {name: functools.partial(sessions[name].run, None, given[name]) for name in sessions}
        medians.append([1000 * median(times) for times in interleaved(calls, runs, 3).values()])
    rows = []
    for at, (name, file) in enumerate(files.items()):
        one, many = medians[0][at], medians[1][at]
        nodes = [
            len(onnx.load(path, load_external_data=False).graph.node) for path in (file, folder / f"{at}.loaded.onnx")
        ]
        shares = f"{one / medians[0][-1]:.2f}, {many / medians[1][-1]:.2f}"
        rows.append([name, *map(str, nodes), f"{one:.2f}", f"{many:.1f}", shares])
    return rows


def session(file: Path, threads: int, loaded: Path) -> onnxruntime.InferenceSession:
    """A session, which writes what it made of the file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.optimized_model_filepath = str(loaded)
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def feeds(session: onnxruntime.InferenceSession, new: int, past: int) -> dict[str, numpy.ndarray]:
    """The same inputs for each file."""
    found = {}
    draw = numpy.random.default_rng(0)
    for each in session.get_inputs():
        if each.name == "input_ids":
            found[each.name] = numpy.arange(new, dtype=numpy.int64)[None]
        elif each.name == "attention_mask":
            found[each.name] = numpy.ones((1, past + new), numpy.int64)
        elif each.name == "position_ids":
            found[each.name] = numpy.arange(past, past + new, dtype=numpy.int64)[None]
    for name in sorted(each.name for each in session.get_inputs() if each.name.startswith("past")):
        found[name] = draw.standard_normal((1, 4, past, 64), numpy.float32)
    return found


if __name__ == "__main__":
    main()
