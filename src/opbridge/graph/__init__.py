"""Questions about a captured graph: its operators, their promoted dtypes, their decompositions, its inputs and outputs.

In: an FX graph, or one node of it.
Out: answers; no graph is changed.
May import: base.

| module | |
| --- | --- |
| interface | inputs, outputs, parameters, buffers and constants |
| operators | the operators that a graph calls, by name |
| function_calls | calls of torch.autograd.Function that stay one operator |
| control_flow | the subgraphs of higher-order operators |
| decompose | the decomposition of one operator |
| promotion | implicit type promotion |
| precision | the coarsest dtype that a value depends on |
| values | properties of fake values |
"""
