"""A causal language model in one file, for the prompt and for each token after it, with the generation loop.

    python examples/text_generation.py

The model is a small Llama with random weights. `task="text-generation"` creates the inputs of the export: tokens, mask,
positions, and the cache, which is empty for the prompt. The loop requires only ONNX Runtime and NumPy, and returns the
same tokens as transformers' `generate`. On the command line:

    opbridge export examples/text_generation.py:build --task text-generation -o model.onnx
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import opbridge

DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


def build() -> transformers.PreTrainedModel:
    """The model."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=500,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
    )
    return transformers.LlamaForCausalLM(config).eval()


def empty_cache(session: Any, batch: int) -> dict[str, np.ndarray]:
    """The inputs of a file that are its cache before the first token: no keys and values, states of zero."""
    sizes = {"batch": batch, "past_sequence": 0}
    return {
        each.name: np.zeros([sizes.get(size, size) for size in each.shape], DTYPES[each.type])
        for each in session.get_inputs()
        if each.name.startswith("past")
    }


def generate(session: Any, prompt: np.ndarray, count: int) -> np.ndarray:
    """Texts and the most likely `count` tokens after them, int64 [batch, length + count]."""
    inputs = {each.name: each for each in session.get_inputs()}
    outputs = [each.name for each in session.get_outputs()]
    one_by_one = inputs["input_ids"].shape[1] == 1  # a model with recurrent states processes its prompt so
    cache = empty_cache(session, len(prompt))
    text, seen = prompt, 0
    while text.shape[1] < prompt.shape[1] + count:
        new = text[:, seen : seen + 1] if one_by_one else text[:, seen:]
        past, seen = seen, seen + new.shape[1]
        given = {
            "input_ids": new,
            "attention_mask": np.ones((len(text), seen), np.int64),
            "position_ids": np.tile(np.arange(past, seen), (len(text), 1)),
            **cache,
        }
        run = session.run(None, {name: value for name, value in given.items() if name in inputs})
        result = dict(zip(outputs, run, strict=True))
        cache = {
            name: result[name.replace("past_key_values", "present").replace("past_", "present_")] for name in cache
        }
        if seen == text.shape[1]:
            text = np.concatenate([text, result["logits"][:, -1:].argmax(-1)], axis=1)
    return text


def main() -> None:
    """Exports the model, and compares 50 tokens with those of transformers."""
    model = build()
    with tempfile.TemporaryDirectory() as folder:
        program = opbridge.export(model, f=Path(folder) / "model.onnx", task="text-generation")
        print(program.verification.summary())
        session = opbridge.session(Path(folder) / "model.onnx")
    for each in session.get_inputs()[:4]:
        print(f"  {each.name} {each.shape}")
    prompt = torch.randint(500, (2, 7))
    expected = model.generate(prompt, max_new_tokens=50, do_sample=False, eos_token_id=None, pad_token_id=0)
    actual = generate(session, prompt.numpy(), 50)
    same = "equal to" if (actual == expected.numpy()).all() else "DIFFERENT FROM"
    print(f"{actual.shape[1] - prompt.shape[1]} tokens of {len(actual)} texts: {same} model.generate")


if __name__ == "__main__":
    main()
