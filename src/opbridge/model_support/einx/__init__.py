"""What is known of einx.

In: nothing; einx's modules are looked up where they are loaded.
Out: `support`, which the entry point names: einx's operations on tensors of symbolic sizes (`symbolic_sizes`).
May import: the modules of `opbridge.model_support`, base.
"""
