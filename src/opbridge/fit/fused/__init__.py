"""Fused forms: groups of nodes that a runtime has one fast kernel for, written as the one node of that kernel.

In: a model in the form of its target, with shapes.
Out: the same model, and how many nodes of each form it has.
May import: onnx, runtimes, base, errors.

| module | |
| --- | --- |
| fusing | all forms, in their order, where they are asked for |
| norms | RMS normalization, with the sum before it |
| attention | attention of a decoder with its cache, as GroupQueryAttention |
| rotary | rotary position embeddings, and the table of their angles |
| packing | several products of one input as one |
| masks | what a mask is proved to hide |
| elements | the element of a value as an expression of its indices, which proofs are made of |
| patterns | what matchers share |
"""
