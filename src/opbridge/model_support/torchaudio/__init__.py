"""What is known of torchaudio.

In: nothing; torchaudio's modules are looked up where they are loaded.
Out: `support`, which the entry point names: the segments of an Emformer, for any number of them (`segments`).
May import: the modules of `opbridge.model_support`, base.
"""
