"""What CPython does not document: the instructions of functions, and what the stack of a running one holds.

In: code objects and frames.
Out: their instructions in one form for all releases, the variables and lists that the stack of a frame holds.
May import: torch_private, errors.

Checked on CPython 3.11, 3.12 and 3.13.

| module | |
| --- | --- |
| instructions | the instructions of a function, and what the stack holds before each |
| stacks | the values on the stack of a frame that runs |
"""
