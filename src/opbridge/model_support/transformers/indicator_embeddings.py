"""The embeddings of Ovis2's visual indicators, written without a question whether a text has them.

For each indicator, the model asks whether any token is this one, and only then writes its embedding in the place of
those tokens. Where none is, this writes nothing: the question needs no answer, and a capture no branch. An indicator
without an embedding is asked for as before.

Checked on transformers 5.24.
"""

from __future__ import annotations

from opbridge.model_support.transformers.changed_statements import with_statements

__all__ = ["without_questions"]

_WRITE = "inputs_embeds[mask] = visual_indicator_features[i].to(inputs_embeds.device, inputs_embeds.dtype)"

without_questions = with_statements(
    {
        f"if mask.any():\n    {_WRITE}": f"""\
if i < visual_indicator_features.shape[0] or mask.any():
    {_WRITE}"""
    }
)
"""The code of the method that asks nothing; None where it has other statements."""
