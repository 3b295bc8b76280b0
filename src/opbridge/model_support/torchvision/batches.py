"""Images of several sizes as one batch, for sizes that are not known.

torchvision pads the images to the largest one. The size of the batch depends on those of all images, through minima,
maxima and rounding where these have been resized, and each size of a feature map is computed from it: conditions on
such sizes cannot be decided. Here the size is computed with tensors, so that it is a number that data decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from opbridge.base.torch_private import torch_sizes

__all__ = ["batched", "have_unknown_sizes", "images_of_sizes"]


def have_unknown_sizes(named: Mapping[str, Any]) -> bool:
    """Whether images have sizes that are not known, and all as many channels."""
    shapes = [each.shape for each in named["images"]]
    sizes = [torch_sizes.known_size(each) for shape in shapes for each in shape[1:]]
    has_unknown = any(isinstance(each, torch.SymInt) for each in sizes)
    return has_unknown and all(isinstance(shape[0], int) and shape[0] == shapes[0][0] for shape in shapes)


def batched(named: Mapping[str, Any]) -> torch.Tensor:
    """What `GeneralizedRCNNTransform.batch_images` gives, of its arguments by name.

    Returns:
        [images, channels, height, width], of the dtype of the images: each with zeros below and on its right.
    """
    images, divisor = named["images"], int(named["size_divisible"])
    height, width = (_padded([each.shape[axis] for each in images], divisor) for axis in (1, 2))
    padded = [torch.nn.functional.pad(each, (0, width - each.shape[2], 0, height - each.shape[1])) for each in images]
    return torch.stack(padded)


def _padded(sizes: Sequence[Any], divisor: int) -> Any:
    """The smallest multiple of a number that is at least as large as each of some sizes."""
    largest = torch.stack([torch.scalar_tensor(each, dtype=torch.int64) for each in sizes]).max()
    count = ((largest + (divisor - 1)) // divisor).item()
    torch._check(count >= 1)
    for each in sizes:
        torch._check(divisor * count >= each)
    return divisor * count


def images_of_sizes(owner: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments of `GeneralizedRCNNTransform.batch_images`: images of several sizes, of one, and one alone."""
    transform = owner(64, 128, [0.0], [1.0])
    for sizes in (((40, 64), (64, 33), (1, 1)), ((32, 96), (32, 96)), ((31, 65),)):
        yield (transform, [1.0 + torch.arange(3.0 * h * w).reshape(3, h, w) for h, w in sizes], 32), {}
