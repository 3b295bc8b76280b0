"""What is known of neuralforecast.

In: nothing; neuralforecast's modules are looked up where they are loaded.
Out: `support`, which the entry point names: the periods of series in TimesNet (`periods`).
May import: the modules of `opbridge.model_support`, base.
"""
