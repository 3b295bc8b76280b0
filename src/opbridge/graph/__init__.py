"""Questions about a captured graph: its operators, their promoted dtypes, their decompositions, its inputs and outputs.

In: an FX graph, or one node of it.
Out: what was asked; no graph is changed.
May import: base.
"""
