"""Small causal models of transformers with random weights, and the loop of the example that runs their files."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import pytest
import torch

from helpers.transformers_classes import of_transformers
from opbridge.model_support.transformers import causal_models

__all__ = ["MODELS", "equal_tokens", "filled", "make", "make_with_layers"]

_LLAMA = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
_SMALL = {"vocab_size": 99, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
_MAMBA = {"hidden_size": 32, "state_size": 8, "num_hidden_layers": 2, "initializer_range": 0.3, **_SMALL}
_MAMBA_2 = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 2}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}
_WINDOW = {"sliding_window": 8, "head_dim": 8}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "initializer_range": 0.3, **_SMALL}
_HEADS = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "initializer_range": 0.3, **_SMALL}

# By name: the prefix of the classes, or both classes, and the configuration.
MODELS = {
    "llama": ("Llama", _LLAMA),
    "qwen2": ("Qwen2", _LLAMA),
    "qwen3": ("Qwen3", {**_LLAMA, "head_dim": 8}),
    "mistral": ("Mistral", {**_LLAMA, **_WINDOW}),
    "gemma2": ("Gemma2", {**_LLAMA, **_WINDOW}),
    "gemma3": (("Gemma3ForCausalLM", "Gemma3TextConfig"), {**_LLAMA, **_WINDOW}),
    "gpt2": (("GPT2LMHeadModel", "GPT2Config"), _GPT2),
    "gpt_neox": ("GPTNeoX", _LLAMA),
    "phi3": ("Phi3", _LLAMA),
    "bloom": ("Bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3, **_SMALL}),
    "opt": (
        "OPT",
        {**_HEADS, "ffn_dim": 48, "max_position_embeddings": 256, "word_embed_proj_dim": 32, "init_std": 0.3},
    ),
    "falcon": ("Falcon", _HEADS),
    "mixtral": ("Mixtral", {**_LLAMA, "num_local_experts": 4}),
    "qwen3_moe": ("Qwen3Moe", {**_LLAMA, **_EXPERTS, "num_experts": 4}),
    "gpt_oss": (
        "GptOss",
        {
            **_LLAMA,
            **_WINDOW,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "mamba": ("Mamba", _MAMBA),
    "mamba2": ("Mamba2", {**_MAMBA, "num_heads": 8, "head_dim": 8, "n_groups": 2}),
    "bamba": ("Bamba", {**_LLAMA, **_MAMBA_2, "attn_layer_indices": [1]}),
    "jamba": (
        "Jamba",
        {
            **_LLAMA,
            "mamba_d_state": 8,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "num_experts": 2,
            "num_experts_per_tok": 2,
            "use_mamba_kernels": False,
        },
    ),
    "lfm2": ("Lfm2", {**_LLAMA, "layer_types": ["conv", "full_attention"]}),
}


def make(name: str) -> torch.nn.Module:
    """A model; a test is skipped where the installed release of transformers has none of that name."""
    named, settings = MODELS[name]
    model, config = (f"{named}ForCausalLM", f"{named}Config") if isinstance(named, str) else named
    torch.manual_seed(0)
    made: torch.nn.Module = of_transformers(model)(of_transformers(config)(**settings)).eval()
    return made


def make_with_layers(name: str) -> torch.nn.Module:
    """A model; a test is skipped where its cache is of a class of its own, and not of transformers' layers."""
    model = make(name)
    own = causal_models.cache_of_its_own(model, torch.ones(1, 2, dtype=torch.int64))
    if own:
        pytest.skip(f"{type(model).__name__} has a cache of its own in this transformers, {own}")
    return model


def filled(model: torch.nn.Module, tokens: torch.Tensor, cache: Any = None) -> Any:
    """The cache of a model after tokens: one that is given, or one that the model makes."""
    name = causal_models.cache_parameter(model)
    with torch.no_grad():
        return model(tokens, **{name: cache}, use_cache=True)[name]


def equal_tokens(model: torch.nn.Module, session, count: int = 50) -> bool:
    """Whether the loop of examples/text_generation.py gives the tokens of `generate`, for two texts and for one."""
    example = pathlib.Path(__file__).parents[2] / "examples" / "text_generation.py"
    found = importlib.util.spec_from_file_location("text_generation_example", example)
    loop = importlib.util.module_from_spec(found)
    found.loader.exec_module(loop)
    generator = torch.Generator().manual_seed(3)
    prompts = torch.randint(2, 99, (2, 7), generator=generator), torch.randint(2, 99, (1, 1), generator=generator)
    for prompt in prompts:
        wanted = model.generate(prompt, max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0)
        if not (loop.generate(session, prompt.numpy(), count) == wanted.numpy()).all():
            return False
    return True
