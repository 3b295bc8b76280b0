"""What is known of torchmetrics.

In: nothing; torchmetrics' modules are looked up where they are loaded.
Out: `support`, which the entry point names: the best point of a curve (`curves`), without a branch for each class.
May import: the modules of `opbridge.model_support`, base.
"""
