"""The segments that an Emformer divides frames into, for any number of frames.

torchaudio copies the right context of each segment, and builds its attention mask segment by segment, in Python loops.
Here an index tensor has the frames of all right contexts, and the mask compares the segments of rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes

__all__ = [
    "MASK_CALLS",
    "attention_mask",
    "frames_of_mask",
    "frames_of_right_contexts",
    "has_unknown_keys",
    "has_unknown_length",
    "keys_of_mask",
    "padding_mask",
    "right_contexts",
]

MASK_CALLS = {
    "_gen_attention_mask_col_widths": "10155941af86a30d",
    "_gen_attention_mask_block": "107aaf191c46872b",
}
"""The functions that `_gen_attention_mask` calls, as in torchaudio 2.11."""


def has_unknown_length(named: Mapping[str, Any]) -> bool:
    """Whether the number of frames is not known."""
    return isinstance(torch_sizes.known_size(named["input"].shape[0]), torch.SymInt)


def has_unknown_keys(named: Mapping[str, Any]) -> bool:
    """Whether the number of keys, or that of sequences, is not known."""
    sizes = [*named["utterance"].shape[:2], *(named[each].shape[0] for each in ("right_context", "mems"))]
    return any(isinstance(torch_sizes.known_size(each), torch.SymInt) for each in sizes)


def right_contexts(named: Mapping[str, Any]) -> torch.Tensor:
    """What `_gen_right_context` gives, of its arguments by name.

    Returns:
        [segments * right context, batch, features]: the frames after each segment; those of the last one are the last.
    """
    model, frames = named["self"], named["input"]
    last = frames.shape[0] - model.right_context_length
    starts = (torch.arange(_segments(model, last), device=frames.device) + 1) * model.segment_length
    within = torch.arange(model.right_context_length, device=frames.device)
    found: torch.Tensor = frames[(starts.clamp(max=last).unsqueeze(1) + within).flatten()]
    return found


def attention_mask(named: Mapping[str, Any]) -> torch.Tensor:
    """What `_gen_attention_mask` gives, of its arguments by name.

    Returns:
        bool [rows, columns]: whether a row does not attend to a column. Rows are right contexts, frames and, with a
        memory, a summary of each segment; columns are the memory, right contexts and frames.
    """
    model, length, device = named["self"], named["input"].shape[0], named["input"].device
    segment, after = model.segment_length, model.right_context_length
    count = _segments(model, length)
    segments = torch.arange(count, device=device)
    of_contexts = segments.repeat_interleave(after)
    frames = torch.arange(length, device=device)
    rows = torch.cat([of_contexts, frames // segment])
    queries = torch.cat([rows, segments] if model.use_mem else [rows]).unsqueeze(1)
    in_context = queries == of_contexts
    starts = (queries * segment - model.left_context_length).clamp(min=0)
    in_frames = (frames >= starts) & (frames < (queries + 1) * segment)
    attends = torch.cat([in_context, in_frames], 1)
    if model.use_mem:
        rows, memory = rows.unsqueeze(1), segments[:-1]
        remembers = (memory < rows) & (memory >= rows - model.max_memory_size)
        attends = torch.cat([torch.cat([remembers, remembers.new_zeros(count, count - 1)]), attends], 1)
    return ~attends


def _segments(model: Any, length: Any) -> Any:
    return (length + model.segment_length - 1) // model.segment_length


def padding_mask(named: Mapping[str, Any]) -> torch.Tensor:
    """What `_gen_padding_mask` gives, of its arguments by name. Of a batch of one, no key is masked.

    Returns:
        bool [batch, keys]: whether a key is beyond the end of its sequence. The keys are those of the attention.
    """
    lengths, before = named["lengths"], named["left_context_key"]
    keys = sum(named[each].shape[0] for each in ("mems", "right_context", "utterance"))
    keys = keys if before is None else keys + before.shape[0]
    inside = keys + lengths.unsqueeze(1) - lengths.max()
    return torch.arange(keys, device=lengths.device) >= inside


def frames_of_right_contexts(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `_gen_right_context`: frames of whole segments and of a part of one, with and without a context."""
    for settings in ({"right_context_length": 2}, {"right_context_length": 5}, {}):
        for length in (1, 4, 8, 11):
            frames = torch.arange((length + settings.get("right_context_length", 0)) * 6.0).reshape(-1, 2, 3)
            yield (owner([], 4, **settings), frames), {}


def frames_of_mask(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `_gen_attention_mask`: as those of `_gen_right_context`, with left contexts and memories."""
    for settings in (
        {},
        {"left_context_length": 3, "right_context_length": 2},
        {"right_context_length": 1, "max_memory_size": 2},
        {"left_context_length": 6, "max_memory_size": 1},
    ):
        for length in (1, 4, 8, 19):
            yield (owner([], 4, **settings), torch.zeros(length, 2, 3)), {}


def keys_of_mask(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `_gen_padding_mask`: sequences of several lengths, with a memory, a summary and a left context."""
    utterance, context, memory, summary = (torch.zeros(size, 2, 3) for size in (7, 2, 3, 4))
    nothing = torch.zeros(0)
    for lengths in ([7, 7], [4, 7], [3, 1]):
        yield (utterance, context, nothing, torch.tensor(lengths), nothing), {}
        yield (utterance, context, summary, torch.tensor(lengths), memory, torch.zeros(5, 2, 3)), {}
