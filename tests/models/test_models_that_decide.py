"""Models of other packages whose Python looks at data or draws random numbers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import opbridge

pytestmark = pytest.mark.slow


def _reformer() -> tuple[torch.nn.Module, dict[str, Any]]:
    from transformers import ReformerConfig, ReformerModel

    config = ReformerConfig(
        vocab_size=50,
        hidden_size=16,
        num_attention_heads=2,
        attention_head_size=8,
        feed_forward_size=20,
        attn_layers=["local", "lsh"],
        axial_pos_shape=[4, 4],
        axial_pos_embds_dim=[8, 8],
        local_attn_chunk_length=4,
        lsh_attn_chunk_length=4,
        num_buckets=2,
        num_hashes=1,
        max_position_embeddings=16,
        is_decoder=False,
        hash_seed=0,
        use_cache=False,
    )
    return ReformerModel(config), {"input_ids": torch.randint(2, 50, (2, 16))}


def _funnel() -> tuple[torch.nn.Module, dict[str, Any]]:
    from transformers import FunnelConfig, FunnelModel

    config = FunnelConfig(
        vocab_size=50, block_sizes=[1, 1], num_decoder_layers=1, d_model=16, n_head=2, d_head=8, d_inner=20
    )
    ids = torch.randint(2, 50, (2, 8))
    return FunnelModel(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _vits() -> tuple[torch.nn.Module, dict[str, Any]]:
    from transformers import VitsConfig, VitsModel

    config = VitsConfig(
        vocab_size=38,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        ffn_dim=16,
        flow_size=16,
        spectrogram_bins=9,
        upsample_initial_channel=16,
        upsample_rates=[2, 2],
        upsample_kernel_sizes=[4, 4],
        resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
        prior_encoder_num_flows=1,
        prior_encoder_num_wavenet_layers=1,
        posterior_encoder_num_wavenet_layers=1,
        duration_predictor_num_flows=1,
        depth_separable_num_layers=1,
        duration_predictor_filter_channels=16,
    )
    model = VitsModel(config)
    model.noise_scale = model.noise_scale_duration = 0  # so that two runs may be compared
    ids = torch.randint(1, 38, (1, 7))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize("make", [_reformer, _funnel, _vits], ids=["reformer", "funnel", "vits"])
def test_transformers(make):
    pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    model, given = make()
    program = opbridge.export(model.eval(), (), kwargs=given)
    assert program.capture.mode == "direct"
    assert program.verification is not None and program.verification.ok


def test_attention_along_the_edges_of_a_graph():
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    edges = torch.tensor([[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 0, 3]])
    program = opbridge.export(nn.GATConv(4, 3, heads=2).eval(), (torch.randn(5, 4), edges))
    assert program.capture.mode == "direct"
    assert program.verification is not None and program.verification.ok


def test_a_random_rotation():
    augmentation = pytest.importorskip("kornia.augmentation", reason="kornia is not installed")
    model = augmentation.RandomAffine(degrees=10.0, p=1.0).eval()
    program = opbridge.export(model, (torch.rand(2, 3, 8, 8),))
    assert program.capture.mode == "direct"


def test_a_rotation_by_given_numbers():
    augmentation = pytest.importorskip("kornia.augmentation", reason="kornia is not installed")

    class Drawn(torch.nn.Module):
        """What is drawn at random is given, and which of the images are turned at all."""

        def __init__(self):
            super().__init__()
            self.affine = augmentation.RandomAffine(10.0, (0.1, 0.2), (0.8, 1.2), shear=5.0, p=0.5)

        def forward(self, x, angle, translations, scale, shear, kept):
            drawn = {"angle": angle, "translations": translations, "scale": scale, "batch_prob": kept}
            drawn |= {"shear_x": shear[0], "shear_y": shear[1], "center": torch.full((2, 2), 3.5)}
            return self.affine(x, params={**drawn, "forward_input_shape": torch.tensor([2, 3, 8, 8])})

    def inputs(*kept):
        numbers = torch.randn(2) * 20, torch.randn(2, 2), torch.rand(2, 2) * 0.4 + 0.8, torch.randn(2, 2) * 5
        return torch.rand(2, 3, 8, 8), *numbers, torch.tensor(kept)

    torch.manual_seed(0)
    model = Drawn().eval()
    session = opbridge.export(model, inputs(1.0, 1.0), verify=False).session()
    for kept in itertools.product((0.0, 1.0), repeat=2):
        given = inputs(*kept)
        feeds = {each.name: value.numpy() for each, value in zip(session.get_inputs(), given, strict=True)}
        (found,) = session.run(None, feeds)
        torch.testing.assert_close(torch.from_numpy(found), model(*given), rtol=1e-3, atol=1e-4)


def test_changes_of_colours_in_a_random_order():
    augmentation = pytest.importorskip("kornia.augmentation", reason="kornia is not installed")
    names = ("brightness_factor", "contrast_factor", "saturation_factor", "hue_factor")

    class Drawn(torch.nn.Module):
        """What is drawn at random is given."""

        def __init__(self):
            super().__init__()
            self.jitter = augmentation.ColorJitter(0.3, 0.3, 0.3, 0.3, p=1.0)

        def forward(self, x, order, factors):
            drawn = dict(zip(names, factors.unbind(0), strict=True), order=order, batch_prob=torch.ones(2))
            return self.jitter(x, params={**drawn, "forward_input_shape": torch.tensor([2, 3, 6, 6])})

    torch.manual_seed(0)
    model, x = Drawn().eval(), torch.rand(2, 3, 6, 6)
    neutral, factors = torch.tensor([[1.0], [1], [1], [0]]), torch.tensor([[1.2], [0.8], [1.1], [0.05]])
    given = (x, torch.tensor([2, 0, 3, 1]), factors.repeat(1, 2))
    session = opbridge.export(model, given, verify=False).session()
    for order in itertools.permutations(range(4)):
        kept = torch.rand(4, 1) > 0.3
        given = (torch.rand(2, 3, 6, 6), torch.tensor(order), torch.where(kept, factors, neutral).repeat(1, 2))
        feeds = {each.name: value.numpy() for each, value in zip(session.get_inputs(), given, strict=True)}
        (found,) = session.run(None, feeds)
        torch.testing.assert_close(torch.from_numpy(found), model(*given), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("is_training", [True, False])
def test_vector_quantisation_without_the_replacement_of_dead_codes(is_training):
    package = pytest.importorskip("vector_quantize_pytorch", reason="vector_quantize_pytorch is not installed")
    torch.manual_seed(0)
    model = package.VectorQuantize(dim=4, codebook_size=8, threshold_ema_dead_code=0).train(is_training)
    program = opbridge.export(model, (torch.randn(2, 6, 4),))
    assert program.capture.mode == "direct"
    assert program.verification is not None and program.verification.ok
