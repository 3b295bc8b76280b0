"""The type of a captured graph, and questions about it: its operators, their promoted dtypes, their decompositions.

In: an FX graph, or one node of it.
Out: answers; no graph is changed.
May import: base.

| module | |
| --- | --- |
| captured_graph | the graph that a capture gives, with its inputs, outputs and weights |
| node_sources | the line and the module that a node comes from |
| open_lists | lists of as many tensors as inputs decide, among what a model returns |
| operators | the operators that a graph calls, by name |
| function_calls | calls of torch.autograd.Function that stay one operator |
| control_flow | the subgraphs of higher-order operators |
| decompose | the decomposition of one operator |
| promotion | implicit type promotion |
| precision | the coarsest dtype that a value depends on |
| values | properties of values, fake or real |
| written_results | what an operator that writes to its arguments gives |
"""
