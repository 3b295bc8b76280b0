"""The capture of a module by running it once on tensors without values.

In: a module, its inputs, and which of their dimensions are dynamic.
Out: a CapturedGraph.
May import: dynamic_shapes, and what the capture stands on.

| module | |
| --- | --- |
| trace | the run, from the inputs to the graph |
| traced_call | the model and its inputs that are traced |
| branch_questions | what the model asks about data and sizes, where other code answers |
| control_flow_operators | a model of merged paths, with its `cond` and `while_loop` |
| recorder, recording | the graph of one function while that runs, and what other modules need of it |
| recording_modes | the modes by which torch calls it, before autograd or after it |
| tracked_tensors, kinds_of_operators | the tensors that it knows, and the operators that it treats alike |
| known_values, operator_questions | the values that it knows, and what operators ask about data |
| fakes, weights | tensors without values, and their place in the module |
| weight_nodes | the parameters, buffers and constants in the graph |
| shape_functions, shapes_of_parts | the shapes of what frequent composite operators give |
| attention_shapes | the shape of what attention gives |
| plain_operands | what is seen of operands without a question about their sizes |
| quantized_tensors, quantized_operators | torch's quantised tensors as tensors of integers |
| constants | values that depend on weights alone |
| origins | source lines and module paths |
| python_functions, builtin_functions | `torch.tensor`, `len` and the like, which would fix sizes |
| indices, functions_of_numbers | of these, indexing, and functions that take numbers |
| refused_sizes, empty_lists | errors that PyTorch raises for the sizes of tensors, and for lists without elements |
| ends_of_parts | the ends of slices that may count from the end |
| parts_between_data | the lengths of slices between numbers that data decide |
| long_sizes | sizes that are computed with too many operations |
| comparing_functions | `torch.equal` and the like, which give a bool of Python |
| idle_questions | questions whose answers a model does not use |
| tensors_as_numbers | integer tensors without dimensions, where numbers are taken |
| integer_tables | the integers of a tensor that are known, row by row |
| inferred_sizes | the size that `reshape` and `view` infer beside sizes that data decide |
| contiguous_copies | `contiguous`, which asks sizes whether a tensor is in order already |
| seeded_draws | random numbers after the model has set the seed |
| number_calls, sized_sequences | `int(n)`, `range(n)` and the like in a model, lists of a symbolic length |
| derived_sequences | `reversed`, `zip` and `enumerate` of such lists |
| repeated_lists | `[value] * n` |
| iterating_functions, iterating | `in`, `functools.reduce`, `filter` and functions of `itertools`, of such lists |
| symbolic_loops, loop_spans | loops that ask before each iteration, and where they run |
| made_once | what they make once |
| list_syntax, generator_syntax | the lists and comprehensions of a model's functions, in their syntax trees |
| comprehensions, filling | what a comprehension makes, from a generator |
| counting_loops | loops that fill a list up to a size, as loops over a range |
| filled_by_index | loops that fill a list by index, as loops that append to it |
| modifiable_sequences | what modifies such a list |
| followed_lists, append_only_lists | the lists that loops may fill in one execution, and one of them |
| list_rows | elements of lists that hold several values: tuples, lists, dicts and objects |
| changed_rows | loops that change such elements of a list that they go over |
| loop_summaries | what executions have shown of loops and of such lists |
| loop_filled_lists | what is known of a list that loops have filled |
| tensor_sequences, taking_sequences | such lists of rows or parts of a tensor, and where Python and torch take them |
| padded_parts | `pad_sequence` of such a list of parts of a tensor |
| sized_factories | windows, frequencies and the like of a symbolic size |
| sizes_of_data | constant sizes that are read from data, as in the other paths of a model |
| scaled_images | `interpolate` by factors that only a run tells |
| returned_lists | lists of a symbolic length that a model returns |
| autocasting | the casts of autocast, as operators |
| subgraphs, free_values | the bodies of higher-order operators, and what they take from around them |
| rewriting | the graph without writes, by torch's functionalisation |
| out_of_place, writing_back | the same, made of the graph's nodes; what a write to a view makes of its tensor |
"""

from opbridge.capture.tracer.number_calls import FollowingCalls
from opbridge.capture.tracer.rewriting import rewritten
from opbridge.capture.tracer.trace import trace

__all__ = ["FollowingCalls", "rewritten", "trace"]
