"""What CPython does not document: the instructions of functions, and what the stack of a running one holds.

In: code objects and frames.
Out: instructions, loops and comprehensions in one form for all releases; variables and lists that a stack holds.
May import: nothing.

Checked on CPython 3.11, 3.12 and 3.13. On a release that `stacks` does not name, comprehensions are no loops of a file.

| module | |
| --- | --- |
| instructions | the instructions of a function, and what the stack holds before each |
| comprehensions | comprehensions, in the function that runs them |
| loops | the loops of a function, and where their iterations begin |
| stacks | the values on the stack of a frame that runs |
| short_circuits | truth values that `and` and `or` ask for, and that do not matter |
| tracing | the function that Python calls for each frame that begins |
"""
