"""What CPython does not document: the instructions of functions, and what they put on the stack.

In: code objects and frames.
Out: instructions and loops in one form for all releases; functions that are compiled again.
May import: nothing.

Checked on CPython 3.11, 3.12 and 3.13.

| module | |
| --- | --- |
| instructions | the instructions of a function, and what the stack holds before each |
| comprehensions | comprehensions that run as Python compiles them |
| loops | the loops of a function, and where their iterations begin |
| frames | the variables of a frame that runs |
| attributes | what an object holds, in its dictionary and in slots |
| syntax | functions that are compiled again from a changed syntax tree |
| lookups | the list, dict or set in which an instruction looks something up |
| short_circuits | truth values that `and` and `or` ask for, and that do not matter |
| tracing | the function that Python calls for each frame that begins |
"""
