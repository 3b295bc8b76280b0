"""The only modules that use what transformers does not document: the layers of its caches, and its configurations.

In: caches, models and configurations of transformers.
Out: their tensors and what each of them is; caches made of such tensors.
May import: the modules of `opbridge.model_support`, base.

transformers is imported only where the user's own objects come from it. Each module names the releases that it was
checked on.

| module | |
| --- | --- |
| audio_padding | the padding of EnCodec's convolutions, from sizes in the place of tensors |
| audio_windows | where windows of audio begin and end, for all recordings at once |
| caches | caches as containers of tensors |
| cache_layers | the layers of a cache, and the classes for them that a release has |
| changed_statements | functions with other statements in the place of some of theirs |
| causal_models | the inputs that a model for text generation takes |
| export_branches | what transformers does otherwise in an export, for want of an operator |
| functions | functions that decide, or go over images one by one, with what is computed in their place |
| image_lists | functions that list what each image of a batch has, and the code that makes the lists at once |
| indicator_embeddings | the embeddings of Ovis2's indicators, without a question whether a text has them |
| model_outputs | the outputs of its models as containers of tensors |
| masks | attention masks while a model is captured, as outside of an export |
| rotary_canvases | the positions that MiniCPM-V computes, of images on canvases |
| rotary_functions | the functions that compute rotary positions run by run, with what computes all at once |
| rotary_inputs, comparison_inputs, image_list_inputs | on which functions and what replaces them are compared |
| rotary_omni | what those of the Omni models compute |
| rotary_positions | what the others compute, for a whole batch at once |
| rotary_rows | the tokens of a batch without its padding |
| rotary_spans | the positions of images, videos and audio between tokens of their own |
| support | all of it, as the entry point says |
| targets | where transformers defines its models |
| rotary_targets | what that of GLM-Image computes |
| packed_attention | the attention within the images of a packed sequence, for all of them at once |
| packed_images | what the encoder of Pixtral and the mergers of its patches compute, for images of all sizes |
| sample_features, stacked_tiles | the features of each sample, and the tiles of images, without such loops |
| same_padding | what those that pad for convolutions compute, without a question about a size |
| vision_functions | what the functions for indices of patches compute, from their arguments |
| vision_grids | the indices of patches that some compute, for all grids at once |
| triangular_loops | loops that invert a triangular matrix row by row, as one operator in a capture |
| tiled_images | what those for images that are cut to tiles compute, from their arguments |
| image_resolutions, image_packing | the resolutions that these are cut to, and their features put together again |
"""
