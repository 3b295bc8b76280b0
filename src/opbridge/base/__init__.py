"""What every other folder stands on: dtypes, routes, source lines, wording, and torch's private interfaces.

In: nothing of opbridge's.
Out: values and functions without a graph.
May import: errors.
"""
