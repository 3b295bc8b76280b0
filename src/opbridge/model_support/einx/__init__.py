"""What is known of einx.

In: nothing; einx's modules are looked up where they are loaded.
Out: a context in which einx's operations keep symbolic sizes.
May import: the modules of `model_support`, base.
"""
