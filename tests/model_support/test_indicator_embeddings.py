"""The embeddings of Ovis2's indicators, written without branches."""

from __future__ import annotations

import pytest
import torch
from helpers.transformers_classes import of_module

import opbridge
from opbridge.model_support import applying
from opbridge.model_support.transformers import image_list_inputs

pytest.importorskip("transformers", reason="not installed")


def _model(**changes):
    """A model that only embeds tokens, of which 6 and 7 are indicators."""
    kind = of_module("models.ovis2.modeling_ovis2", "Ovis2Model")
    (stub, _), settings = next(iter(image_list_inputs.indicators(kind)))

    class Model(kind):
        __module__ = kind.__module__  # so that functions of that module are those of the model

        def __init__(self):
            torch.nn.Module.__init__(self)
            for name, value in (vars(stub) | changes).items():
                setattr(self, name, value)

        def forward(self, tokens):
            return super().forward(tokens, **settings).last_hidden_state

    return Model().eval()


def test_they_are_exported_without_branches():
    program = opbridge.export(
        _model(),
        (torch.tensor([[6, 1, 7], [2, 7, 7]]),),
        dynamic_shapes=({0: "batch"},),
        inputs=[(torch.tensor([[1, 2, 3]]),), (torch.tensor([[6, 6, 6], [1, 2, 3], [7, 1, 6]]),)],
    )
    assert not program.capture.decisions
    assert not [each for each in program.model.graph.all_nodes() if each.op_type == "If"]


def test_an_indicator_without_an_embedding_is_an_error_only_in_texts_that_have_it():
    model = _model(visual_indicator_token_ids=[6, 7, 5])
    with applying.applied(model):
        assert torch.equal(model(torch.tensor([[6, 1]])), _model()(torch.tensor([[6, 1]])))
        with pytest.raises(IndexError):
            model(torch.tensor([[5, 1]]))
