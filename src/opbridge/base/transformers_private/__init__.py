"""The only modules that use what transformers does not document: the layers of its caches, and its configurations.

In: caches, models and configurations of transformers.
Out: their tensors and what each of them is; caches made of such tensors.
May import: base.

transformers is imported only where the user's own objects come from it. Checked on transformers 5.23.

| module | |
| --- | --- |
| caches | caches as containers of tensors |
| causal_models | the inputs that a model for text generation takes |
"""
