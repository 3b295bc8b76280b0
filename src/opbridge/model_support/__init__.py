"""What is known of packages that models use and that opbridge does not need: one folder for each package.

In: models, and values of such packages among their inputs.
Out: replacements of the packages' functions while a model is captured; their caches as containers of tensors.
May import: base.

| module | |
| --- | --- |
| fingerprints | what tells the source of a function from others |
| model_modules | the modules of Python that a model's classes come from |
| transformers/, einx/ | the packages |
"""
