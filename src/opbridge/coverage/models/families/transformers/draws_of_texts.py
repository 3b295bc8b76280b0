"""Tensors for parameters of transformers' models that stand for texts, codes and features of them."""

from __future__ import annotations

import torch

from opbridge.coverage.models.families.transformers.facts import Facts

__all__ = [
    "boxes",
    "classes",
    "classes_mask",
    "classes_of_each",
    "codes",
    "codes_in_batch",
    "decoder_codes",
    "decoder_codes_in_batch",
    "decoder_features",
    "decoder_tokens",
    "encoder_features",
    "features",
    "mask",
    "plain_mask",
    "queries",
    "questions",
    "sentences",
    "task",
    "tokens",
]

_CLASSES, _CLASS_WORDS = 3, 4


def tokens(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    found = facts.tokens(batch, sequence)
    question = facts.value("question_token_id")
    if isinstance(question, int):
        found[:, 1] = question
    return found


def sentences(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Tokens of texts each of which ends with the token for its end."""
    found = facts.tokens(batch, sequence)
    end = facts.value("eos_token_id")
    found[:, -1] = end[0] if isinstance(end, list) else end
    return found


def questions(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Tokens of a question and a text, with the three tokens that separate them."""
    found = facts.tokens(batch, sequence)
    found[:, [3, 4, -1]] = facts.value("sep_token_id")
    return found


def mask(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Of a batch of texts the first of which is shorter: padded at its end."""
    found = plain_mask(facts, batch, sequence)
    if batch > 1:
        found[0, sequence - 2 :] = 0
    return found


def plain_mask(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return torch.ones(batch, sequence, dtype=torch.int64)


def codes(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Tokens of a text and codes of a sound, or codes alone, step by step."""
    count = facts.value("num_codebooks", "num_channels", part="audio")
    with_text = facts.value("audio_bos_token_id", "audio_pad_token_id") is not None and "codebooks" in str(
        facts.config.to_dict()
    )
    return facts.tokens(batch, sequence, count + with_text, vocabulary=facts.value("codebook_size", "vocab_size"))


def codes_in_batch(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return facts.tokens(batch * facts.value("num_codebooks", part="decoder"), sequence)


def decoder_tokens(facts: Facts, batch: int, decoder_sequence: int) -> torch.Tensor:
    vocabulary = facts.value("decoder_vocab_size", "tgt_vocab_size", "t2u_vocab_size", "vocab_size", part="decoder")
    return facts.tokens(batch, decoder_sequence, vocabulary=vocabulary)


def decoder_codes(facts: Facts, batch: int, decoder_sequence: int) -> torch.Tensor:
    count = facts.value("num_codebooks", "num_channels", part="decoder")
    return facts.tokens(batch, decoder_sequence, count, vocabulary=facts.value("vocab_size", part="decoder"))


def decoder_codes_in_batch(facts: Facts, batch: int, decoder_sequence: int) -> torch.Tensor:
    return facts.tokens(batch * facts.value("num_codebooks", part="decoder"), decoder_sequence)


def features(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return torch.randn(batch, sequence, facts.value("d_model", "hidden_size"))


def decoder_features(facts: Facts, batch: int, decoder_sequence: int) -> torch.Tensor:
    return features(facts, batch, decoder_sequence)


def encoder_features(facts: Facts, batch: int, decoder_sequence: int) -> torch.Tensor:
    width = facts.value("encoder_hidden_size", "cross_attention_hidden_size", "d_model", "hidden_size")
    return torch.randn(batch, decoder_sequence, width)


def queries(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    return features(facts, batch, sequence)


def boxes(facts: Facts, batch: int, sequence: int) -> torch.Tensor:
    """Boxes of words on a page of 1000 by 1000: left, top, right, bottom."""
    corner = torch.randint(0, 500, (batch, sequence, 2))
    return torch.cat([corner, corner + torch.randint(1, 400, (batch, sequence, 2))], 2)


def task(facts: Facts, batch: int) -> torch.Tensor:
    length = facts.value("task_seq_len", default=8)
    return facts.tokens(batch, length, vocabulary=facts.value("text_encoder_vocab_size"))


def classes(facts: Facts, batch: int) -> torch.Tensor:
    """The names of the classes to detect, those of each image after the other's."""
    return facts.tokens(batch * _CLASSES, _CLASS_WORDS)


def classes_mask(facts: Facts, batch: int) -> torch.Tensor:
    return torch.ones(batch * _CLASSES, _CLASS_WORDS, dtype=torch.int64)


def classes_of_each(facts: Facts, batch: int) -> torch.Tensor:
    return torch.full((batch,), _CLASSES)
