"""monai's networks with small configurations, for images or volumes, and some of its layers and losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from opbridge.coverage.models.entries import Case, Inputs, ModelEntry
from opbridge.coverage.models.varying import Size, vary
from opbridge.coverage.models.wrapping import Calling

__all__ = ["PACKAGES", "entries"]

PACKAGES = ("monai",)

_BATCH = Size(2, (1, 3))
_IMAGES = {"batch": _BATCH, "height": Size(32, (48, 64)), "width": Size(48, (32, 64))}
_LARGE = {"batch": _BATCH, "height": Size(64, (96, 128)), "width": Size(96, (64, 96))}
_HUGE = {"batch": _BATCH, "height": Size(128, (160, 192)), "width": Size(160, (128, 192))}
_VOLUMES = {"batch": Size(1, (2,)), "height": Size(32, (48, 32)), "width": Size(32, (32, 48))}
_FIXED = {"batch": _BATCH}
_STEPS = ((8, 16, 32), (2, 2))
_LEVELS = {"channels": (8, 16, 16), "attention_levels": (False, False, True), "num_res_blocks": 1, "norm_num_groups": 4}
_PATCHES = {"hidden_size": 24, "mlp_dim": 32, "num_layers": 2, "num_heads": 2, "spatial_dims": 2}


def entries() -> Iterator[ModelEntry]:
    """The networks, then the layers and losses."""
    for name, (make, draw, sizes) in {**_NETWORKS, **_OTHERS}.items():
        yield ModelEntry(name, partial(_case, make, draw, sizes))


def _case(make: Callable[[Any], torch.nn.Module], draw: Callable[..., Inputs], sizes: Mapping[str, Size]) -> Case:
    import monai
    import monai.losses
    import monai.networks.blocks
    import monai.networks.layers
    import monai.networks.nets

    return vary(make(monai), draw, sizes)


def _images(channels: int, batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.randn(batch, channels, height, width),))


def _volumes(channels: int, batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.randn(batch, channels, height, height, width),))


def _of_size(*shape: int) -> Callable[..., Inputs]:
    return lambda batch: Inputs((torch.randn(batch, *shape),))


def _timed(batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.randn(batch, 1, height, width), torch.randint(0, 1000, (batch,))))


def _conditioned(batch: int, height: int, width: int) -> Inputs:
    image, steps = _timed(batch, height, width).args
    return Inputs((image, steps, torch.randn(batch, 5, 12)))


def _controlled(batch: int, height: int, width: int) -> Inputs:
    image, steps = _timed(batch, height, width).args
    return Inputs((image, steps, torch.randn(batch, 1, 8 * height, 8 * width)))


def _segmented(batch: int, height: int, width: int) -> Inputs:
    image, steps = _timed(batch, height, width).args
    return Inputs((image, steps, torch.rand(batch, 3, height, width)))


def _with_labels(batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.randn(batch, 1, height, width), torch.rand(batch, 3, height, width)))


def _pairs(batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.rand(batch, 1, height, width), torch.rand(batch, 1, height, width)))


def _segments(batch: int, height: int, width: int) -> Inputs:
    """Predictions of three classes, and the class of each pixel, one-hot."""
    classes = torch.nn.functional.one_hot(torch.randint(0, 3, (batch, height, width)), 3)
    return Inputs((torch.randn(batch, 3, height, width), classes.movedim(-1, 1).float()))


def _moved(batch: int, height: int, width: int) -> Inputs:
    return Inputs((torch.rand(batch, 1, height, width), 3 * torch.randn(batch, 2, height, width)))


def _affine(batch: int, height: int, width: int) -> Inputs:
    turned = torch.eye(3)[:2].repeat(batch, 1, 1) + 0.1 * torch.randn(batch, 2, 3)
    return Inputs((torch.rand(batch, 1, height, width), turned))


def _tokens(batch: int, sequence: int) -> Inputs:
    return Inputs((torch.randint(0, 20, (batch, sequence)),))


def _tokens_and_context(batch: int, sequence: int) -> Inputs:
    return Inputs((torch.randint(0, 20, (batch, sequence)), torch.randn(batch, 5, 16)))


def _bags(batch: int, count: int) -> Inputs:
    """As many images of one size for each prediction."""
    return Inputs((torch.randn(batch, count, 3, 32, 32),))


def _net(name: str, *args: Any, **options: Any) -> Callable[[Any], torch.nn.Module]:
    return lambda package: getattr(package.networks.nets, name)(*args, **options)


def _block(name: str, *args: Any, **options: Any) -> Callable[[Any], torch.nn.Module]:
    return lambda package: getattr(package.networks.blocks, name)(*args, **options)


def _layer(name: str, *args: Any, **options: Any) -> Callable[[Any], torch.nn.Module]:
    return lambda package: getattr(package.networks.layers, name)(*args, **options)


def _loss(name: str, **options: Any) -> Callable[[Any], torch.nn.Module]:
    return lambda package: getattr(package.losses, name)(**options)


def _inference(package: Any) -> torch.nn.Module:
    """A network over windows of a larger image."""
    net = package.networks.nets.BasicUNet(2, 1, 2, features=(4, 4, 8, 8, 8, 4))
    infer = package.inferers.sliding_window_inference
    return Calling(lambda module, image: infer(image, (32, 32), 2, module, overlap=0.5, mode="gaussian"), net)


_IMAGE, _COLOR = partial(_images, 1), partial(_images, 3)
_VOLUME = partial(_volumes, 1)
_Row = tuple[Callable[[Any], torch.nn.Module], Callable[..., Inputs], Mapping[str, Size]]
_NETWORKS: Mapping[str, _Row] = {
    "AHNet": (_net("AHNet", layers=(1, 1, 1, 1), spatial_dims=2, upsample_mode="bilinear"), _IMAGE, _HUGE),
    "AttentionUnet": (_net("AttentionUnet", 2, 1, 2, *_STEPS), _IMAGE, _IMAGES),
    "AutoEncoder": (_net("AutoEncoder", 2, 1, 1, (8, 16), (2, 2), num_res_units=1), _IMAGE, _IMAGES),
    "AutoencoderKL": (
        lambda package: Calling(
            lambda module, image: module.reconstruct(image), package.networks.nets.AutoencoderKL(2, 1, 1, **_LEVELS)
        ),
        _IMAGE,
        _IMAGES,
    ),
    "BasicUNet": (_net("BasicUNet", 2, 1, 2, features=(4, 4, 8, 8, 16, 4)), _IMAGE, _IMAGES),
    "BasicUNet, odd sizes": (
        _net("BasicUNet", 2, 1, 2, features=(4, 4, 8, 8, 16, 4)),
        _IMAGE,
        {"batch": _BATCH, "height": Size(36, (51, 64)), "width": Size(49, (37, 66))},
    ),
    "BasicUNetPlusPlus": (_net("BasicUNetPlusPlus", 2, 1, 2, features=(4, 4, 8, 8, 16, 4)), _IMAGE, _IMAGES),
    "Classifier": (_net("Classifier", (1, 32, 32), 5, (4, 8), (2, 2)), _of_size(1, 32, 32), _FIXED),
    "ControlNet": (_net("ControlNet", 2, 1, **_LEVELS), _controlled, _IMAGES),
    "DecoderOnlyTransformer": (
        _net("DecoderOnlyTransformer", 20, 32, 16, 2, 2),
        _tokens,
        {"batch": _BATCH, "sequence": Size(10, (7, 13))},
    ),
    "DecoderOnlyTransformer, with_cross_attention": (
        _net("DecoderOnlyTransformer", 20, 32, 16, 2, 2, with_cross_attention=True),
        _tokens_and_context,
        {"batch": _BATCH, "sequence": Size(10, (7, 13))},
    ),
    "DenseNet": (_net("DenseNet", 2, 1, 3, 8, 4, (2, 2), 2), _IMAGE, _IMAGES),
    "DiffusionModelUNet": (_net("DiffusionModelUNet", 2, 1, 1, num_head_channels=8, **_LEVELS), _timed, _IMAGES),
    "DiffusionModelUNet, with_conditioning": (
        _net("DiffusionModelUNet", 2, 1, 1, with_conditioning=True, cross_attention_dim=12, **_LEVELS),
        _conditioned,
        _IMAGES,
    ),
    "DynUNet": (_net("DynUNet", 2, 1, 2, (3, 3, 3), (1, 2, 2), (2, 2), filters=(8, 16, 16)), _IMAGE, _IMAGES),
    "DynUNet, deep_supervision": (
        _net(
            "DynUNet", 2, 1, 2, [3] * 4, (1, 2, 2, 2), [2] * 3, filters=[8] * 4, deep_supervision=True, res_block=True
        ),
        _IMAGE,
        _IMAGES,
    ),
    "EfficientNetBN": (_net("EfficientNetBN", "efficientnet-b0", False, spatial_dims=2), _COLOR, _LARGE),
    "FlexibleUNet": (_net("FlexibleUNet", 3, 2, "resnet18", spatial_dims=2), _COLOR, _LARGE),
    "FullyConnectedNet": (_net("FullyConnectedNet", 6, 3, (8, 8)), _of_size(6), _FIXED),
    "Generator": (_net("Generator", (8,), (4, 4, 4), (8, 4), (2, 2)), _of_size(8), _FIXED),
    "GlobalNet": (_net("GlobalNet", (32, 32), 2, 2, 4, 2), _of_size(2, 32, 32), _FIXED),
    "HighResNet": (_net("HighResNet", 2, 1, 2), _IMAGE, _IMAGES),
    "LocalNet": (_net("LocalNet", 2, 2, 4, (0, 1, 2)), partial(_images, 2), _IMAGES),
    "MILModel": (
        _net("MILModel", 3, "att_trans", pretrained=False, backbone="resnet18"),
        _bags,
        {"batch": _BATCH, "count": Size(4, (3, 6))},
    ),
    "MedNeXt": (_net("MedNeXt", 2, 8, 1, 2, kernel_size=3, blocks_down=(1, 1, 1, 1)), _IMAGE, _IMAGES),
    "PatchDiscriminator": (_net("PatchDiscriminator", 2, 8, 1, num_layers_d=2), _IMAGE, _IMAGES),
    "QuickNAT": (_net("Quicknat", num_classes=3, num_filters=8, se_block=None), _IMAGE, _IMAGES),
    "RegUNet": (_net("RegUNet", 2, 2, 4, 2), partial(_images, 2), _IMAGES),
    "Regressor": (_net("Regressor", (1, 32, 32), (3,), (4, 8), (2, 2)), _of_size(1, 32, 32), _FIXED),
    "ResNet": (
        _net("ResNet", "basic", (1, 1, 1, 1), (8, 8, 16, 16), spatial_dims=2, n_input_channels=1),
        _IMAGE,
        _IMAGES,
    ),
    "Restormer": (
        lambda package: package.networks.nets.restormer.Restormer(
            2, 1, 1, dim=8, num_blocks=(1, 1, 1, 1), heads=(1, 1, 2, 2), num_refinement_blocks=1
        ),
        _IMAGE,
        _IMAGES,
    ),
    "SENet": (_net("SENet", 2, 1, "se_resnet_bottleneck", (1, 1, 1, 1), 1, 4, num_classes=3), _IMAGE, _LARGE),
    "SPADEAutoencoderKL": (
        lambda package: Calling(
            lambda module, image, labels: module.reconstruct(image, labels),
            package.networks.nets.SPADEAutoencoderKL(2, 3, 1, 1, spade_intermediate_channels=8, **_LEVELS),
        ),
        _with_labels,
        _IMAGES,
    ),
    "SPADEDiffusionModelUNet": (
        _net("SPADEDiffusionModelUNet", 2, 1, 1, 3, spade_intermediate_channels=8, **_LEVELS),
        _segmented,
        _IMAGES,
    ),
    "SegResNet": (_net("SegResNet", 2, 8, 1, 2, blocks_down=(1, 1, 1), blocks_up=(1, 1)), _IMAGE, _IMAGES),
    "SegResNetDS": (_net("SegResNetDS", 2, 8, 1, 2, blocks_down=(1, 1, 1), dsdepth=2), _IMAGE, _IMAGES),
    "SwinUNETR": (_net("SwinUNETR", 1, 2, feature_size=12, spatial_dims=2, depths=(1, 1, 1, 1)), _IMAGE, _LARGE),
    "SwinUNETR, use_v2": (
        _net("SwinUNETR", 1, 2, feature_size=12, spatial_dims=2, depths=(1, 1, 1, 1), window_size=4, use_v2=True),
        _IMAGE,
        {**_LARGE, "height": Size(64, ()), "width": Size(64, ())},
    ),
    "SwinUNETR, 3D": (
        _net("SwinUNETR", 1, 2, feature_size=12, depths=(1, 1, 1, 1), window_size=4),
        _VOLUME,
        {"batch": Size(1, (2,)), "height": Size(64, ()), "width": Size(64, ())},
    ),
    "UNETR": (
        _net("UNETR", 1, 2, (32, 32), feature_size=4, hidden_size=24, mlp_dim=32, num_heads=2, spatial_dims=2),
        _of_size(1, 32, 32),
        _FIXED,
    ),
    "UNet": (_net("UNet", 2, 1, 2, *_STEPS, num_res_units=1), _IMAGE, _IMAGES),
    "UNet, 3D": (_net("UNet", 3, 1, 2, *_STEPS, num_res_units=1), _VOLUME, _VOLUMES),
    "VNet": (_net("VNet", 2, dropout_dim=2), _IMAGE, _IMAGES),
    "VQVAE": (
        _net("VQVAE", 2, 1, 1, (8, 16), 1, (8, 16), ((2, 4, 1, 1),) * 2, ((2, 4, 1, 1, 0),) * 2, embedding_dim=8),
        _IMAGE,
        _IMAGES,
    ),
    "ViT": (_net("ViT", 1, (32, 32), (8, 8), classification=True, **_PATCHES), _of_size(1, 32, 32), _FIXED),
    "ViTAutoEnc": (_net("ViTAutoEnc", 1, (32, 32), (4, 4), **_PATCHES), _of_size(1, 32, 32), _FIXED),
    "VoxelMorph": (
        lambda package: package.networks.nets.VoxelMorph(
            package.networks.nets.VoxelMorphUNet(2, 2, 8, (8, 8, 8, 8), (8, 8)), spatial_dims=2, integration_steps=3
        ),
        _pairs,
        {"batch": _BATCH, "height": Size(32, ()), "width": Size(32, ())},
    ),
}

_LOSSES: Mapping[str, Mapping[str, Any]] = {
    "DiceLoss": {"softmax": True},
    "DiceCELoss": {"softmax": True},
    "FocalLoss": {"use_softmax": True},
    "TverskyLoss": {"softmax": True},
    "GeneralizedDiceLoss": {"softmax": True},
    "SoftDiceclDiceLoss": {"iter_": 2},
}
_OTHERS: Mapping[str, _Row] = {
    "sliding_window_inference": (_inference, _IMAGE, {**_LARGE, "batch": Size(1, ())}),
    "ASPP": (_block("SimpleASPP", 2, 4, 4, (1, 3), (1, 2)), partial(_images, 4), _IMAGES),
    "SubpixelUpsample": (_block("SubpixelUpsample", 2, 3, 2, 2), _COLOR, _IMAGES),
    "Warp": (_block("Warp", "bilinear", "zeros"), _moved, _IMAGES),
    "Warp, nearest": (_block("Warp", "nearest", "border"), _moved, _IMAGES),
    "DVF2DDF": (_block("DVF2DDF", 3), partial(_images, 2), _IMAGES),
    "AffineTransform": (_layer("AffineTransform", (24, 24)), _affine, _IMAGES),
    "GaussianFilter": (_layer("GaussianFilter", 2, 1.5), _COLOR, _IMAGES),
    "SavitzkyGolayFilter": (_layer("SavitzkyGolayFilter", 5, 2, 2), _COLOR, _IMAGES),
    "HilbertTransform": (_layer("HilbertTransform", 2), _COLOR, _IMAGES),
    "MedianFilter": (_layer("MedianFilter", 1, 2), _IMAGE, _IMAGES),
    "ApplyFilter": (_layer("ApplyFilter", torch.ones(3, 3) / 9), _IMAGE, _IMAGES),
    **{name: (_loss(name, **options), _segments, _IMAGES) for name, options in _LOSSES.items()},
    "SSIMLoss": (_loss("SSIMLoss", spatial_dims=2), _pairs, _IMAGES),
    "LocalNormalizedCrossCorrelationLoss": (
        _loss("LocalNormalizedCrossCorrelationLoss", spatial_dims=2),
        _pairs,
        _IMAGES,
    ),
    "GlobalMutualInformationLoss": (_loss("GlobalMutualInformationLoss", num_bins=8), _pairs, _IMAGES),
    "BendingEnergyLoss": (_loss("BendingEnergyLoss"), partial(_images, 2), _IMAGES),
}
