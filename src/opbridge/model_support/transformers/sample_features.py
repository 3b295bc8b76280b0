"""The features of the images of each sample, as Idefics2 and those like it list them, without a loop over samples.

`get_image_features` splits the features of all images to those of each sample, and flattens each. The same follows from
flattening all of them, and splitting the rows: a list of parts of one tensor, which needs no loop in a capture.

Checked on transformers 5.24.
"""

from __future__ import annotations

from opbridge.model_support.transformers.changed_statements import with_statements

__all__ = ["split_in_rows"]

_FEATURES = """\
image_outputs.pooler_output = [\
f.reshape(-1, f.shape[-1]) for f in image_features.split(num_real_images_per_batch.tolist())]"""

_ROWS = """\
image_outputs.pooler_output = list(
    image_features.flatten(0, 1).split((num_real_images_per_batch * image_features.shape[1]).tolist())
)"""

split_in_rows = with_statements({_FEATURES: _ROWS})
"""The code of `get_image_features` that splits the rows of all images; None where it does not split and flatten."""
