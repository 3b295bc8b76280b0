"""What the folder of a causal model for onnxruntime-genai holds beside the model: its configuration, its tokenizer.

onnxruntime-genai runs a decoder by the names of its inputs and outputs, which genai_config.json gives, with the sizes
of its cache and the special tokens. The task text-generation gives those names.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opbridge.errors import UsageError
from opbridge.model_support.transformers import causal_models

__all__ = ["GenaiFolder", "genai_folder"]

# By transformers' name of a model type, the name that onnxruntime-genai 0.18 has for it.
_MODEL_TYPES = {
    "ernie4_5": "ernie4_5",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3_text",
    "gpt_oss": "gptoss",
    "granite": "granite",
    "hunyuan_v1_dense": "hunyuandensev1",
    "llama": "llama",
    "mistral": "mistral",
    "nemotron": "nemotron",
    "olmo": "olmo",
    "phi": "phi",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "smollm3": "smollm3",
}

_PROVIDERS: dict[str, list[dict[str, Any]]] = {"onnxruntime": [], "cuda": [{"cuda": {}}]}
_PRECISIONS = ("float16",)

_TOKENIZER_FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)

# Of a model's generation config, what genai_config.json has for the search, with its default there.
_SEARCH = {
    "diversity_penalty": 0.0,
    "do_sample": False,
    "early_stopping": True,
    "length_penalty": 1.0,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
    "num_return_sequences": 1,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
}


@dataclass(frozen=True)
class GenaiFolder:
    """What a folder for onnxruntime-genai holds beside the model.

    Attributes:
        path: The folder.
        config: genai_config.json, but for what only the exported graph says.
        tokenizer: The files of the tokenizer, which are copied.
    """

    path: Path
    config: dict[str, Any]
    tokenizer: tuple[Path, ...] = ()

    @property
    def longest(self) -> int:
        """The most tokens of a text."""
        return int(self.config["model"]["context_length"])

    def document(
        self, inputs: Collection[str], *, shared_buffer: bool, settings: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The content of genai_config.json.

        Args:
            inputs: The names of the graph's inputs.
            shared_buffer: Whether the graph writes the new keys and values into the buffer of the past ones.
            settings: Settings of ONNX Runtime's sessions.
        """
        found = copy.deepcopy(self.config)
        given = [name for name in ("input_ids", "attention_mask", "position_ids") if name in inputs]
        cache = {f"past_{half}_names": f"past_key_values.%d.{half}" for half in ("key", "value")}
        found["model"]["decoder"]["inputs"] = {**{name: name for name in given}, **cache}
        found["model"]["decoder"]["session_options"].update(settings or {})
        found["search"]["past_present_share_buffer"] = shared_buffer
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of it."""
        found = []
        if "eos_token_id" not in self.config["model"]:
            pad = self.config["model"]["pad_token_id"]
            found.append(f"the model names no end token, so onnxruntime-genai ends a text at the pad token, {pad}")
        if self.tokenizer:
            return tuple(found)
        return (
            *found,
            "the folder has no tokenizer, because the model was not loaded from a folder that has one: save it there "
            f"with tokenizer.save_pretrained('{self.path}')",
        )


def genai_folder(
    model: Any, f: Any, *, task: str | None, target: str | None, precision: str | None, **unsupported: Any
) -> GenaiFolder:
    """What the folder of a model holds.

    Args:
        model: A causal model of transformers.
        f: The folder to write.
        task: The task of the export.
        target: The name of the target.
        precision: The type that the model is cast to.
        **unsupported: Arguments of the export that have no meaning for a folder, by their names.

    Raises:
        UsageError: onnxruntime-genai does not know the model, or an argument does not go with the folder.
    """
    if task != "text-generation":
        raise UsageError("genai=True (--genai) requires task='text-generation' (--task text-generation).")
    given = [name for name, value in unsupported.items() if value is not None]
    if given:
        raise UsageError(
            f"{given[0]}= has no effect with genai=True (--genai), because onnxruntime-genai finds the inputs and "
            "outputs by the names of the task. Leave one of them out."
        )
    provider = (target or "onnxruntime").partition(":")[0]
    if provider not in _PROVIDERS:
        raise UsageError(
            f"genai=True (--genai) supports the targets {' and '.join(_PROVIDERS)}, but target='{target}'. "
            "onnxruntime-genai runs the model in ONNX Runtime."
        )
    if precision is not None and precision not in _PRECISIONS:
        raise UsageError(
            f"precision='{precision}' is not supported with genai=True (--genai): the folder has weights of float32 or "
            "float16. For weights of 4 bits, quantize the model with torchao before the export (docs/quantised.md)."
        )
    folder = _checked_folder(f)
    config = _text_config(model)
    name = _MODEL_TYPES.get(str(getattr(config, "model_type", None)))
    if name is None:
        raise UsageError(
            f"onnxruntime-genai does not know models of type '{getattr(config, 'model_type', None)}' "
            f"({type(model).__name__}). It knows {', '.join(_MODEL_TYPES)}. Export the model without genai "
            "(--genai), and run it in ONNX Runtime."
        )
    document = {"model": _model(model, config, name, _PROVIDERS[provider]), "search": _search(model, config)}
    return GenaiFolder(folder, document, _tokenizer_files(model))


def _checked_folder(f: Any) -> Path:
    """The folder to write.

    Raises:
        UsageError: No folder can be there.
    """
    if f is None or hasattr(f, "write"):
        raise UsageError("genai=True (--genai) writes a folder. Give its path.")
    folder = Path(f)
    if folder.suffix == ".onnx" or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"genai=True (--genai) writes a folder, but {folder} is a file. Give the path of a folder.")
    if not folder.exists() and not folder.absolute().parent.is_dir():
        raise UsageError(f"The folder {folder.parent} does not exist. Create it, or give another path.")
    return folder


def _text_config(model: Any) -> Any:
    """The configuration of the model as a decoder.

    Raises:
        UsageError: It is no causal model of transformers.
    """
    if not causal_models.is_model(model):
        raise UsageError(
            "genai=True (--genai) supports causal language models of transformers, such as LlamaForCausalLM, but the "
            f"model is a {type(model).__name__}."
        )
    return causal_models.text_config(model)


def _model(model: Any, config: Any, name: str, providers: list[dict[str, Any]]) -> dict[str, Any]:
    """The part of genai_config.json that describes the model."""
    heads = int(config.num_attention_heads)
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    tokens = {key: _token(model, config, key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    if tokens["pad_token_id"] is None:
        end = tokens["eos_token_id"]
        tokens["pad_token_id"] = end[0] if isinstance(end, list) else end if end is not None else 0
    return {
        **{key: value for key, value in tokens.items() if value is not None},
        "context_length": int(config.max_position_embeddings),
        "decoder": {
            "session_options": {"log_id": "onnxruntime-genai", "provider_options": copy.deepcopy(providers)},
            "filename": "model.onnx",
            "head_size": int(size),
            "hidden_size": int(config.hidden_size),
            "inputs": {},
            "outputs": {
                "logits": "logits",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
            },
            "num_attention_heads": heads,
            "num_hidden_layers": int(config.num_hidden_layers),
            "num_key_value_heads": int(getattr(config, "num_key_value_heads", None) or heads),
        },
        "type": name,
        "vocab_size": int(config.vocab_size),
    }


def _token(model: Any, config: Any, key: str) -> Any:
    """A special token: of the generation config, which may be told apart by training, or of the model's."""
    found = getattr(getattr(model, "generation_config", None), key, None)
    return getattr(config, key, None) if found is None else found


def _search(model: Any, config: Any) -> dict[str, Any]:
    """The part of genai_config.json that says how the next token is chosen."""
    settings = getattr(model, "generation_config", None)
    found = {}
    for key, default in _SEARCH.items():
        value = getattr(settings, key, None)
        found[key] = default if value is None or isinstance(value, str) else value
    return {**found, "max_length": int(config.max_position_embeddings)}


def _tokenizer_files(model: Any) -> tuple[Path, ...]:
    """The files of the tokenizer beside the model's own, where it was loaded from a folder."""
    place = str(getattr(model, "name_or_path", "") or "")
    if not place or not Path(place).is_dir():
        return ()
    files = (Path(place) / name for name in _TOKENIZER_FILES)
    return tuple(file for file in files if file.is_file())
