"""The first stage: a model and example inputs become a graph of operators, each with its source line.

In: a module, function or ExportedProgram, and its example inputs: a ResolvedCall; and a CaptureConfig.
Out: a Capture, functional.
May import: symbolics, and what it stands on; no later stage.

| module | |
| --- | --- |
| resolved_call | the model and its example inputs, from the forms in which they are given to one |
| config | how it is captured |
| capturing | the capture of such a call, to the Capture |
| strategies/ | the strategies for a capture, in the order in which they are tried |
| session | the model whose capture is under way, and what all its executions share |
| assumptions | what one execution assumes |
| one_capture | one execution of the model, and the graph that it gives |
| captured | that graph with what is known of it, or why there is none |
| retries | an execution, repeated where what it raises says what it should have assumed |
| all_paths | the captures of all paths that data may make a model take, as one |
| all_sizes | captures for all branches of what a model asks about sizes, as one |
| comparing_captures | whether a capture gives what the model gives |
| eager_runs | runs of the model itself: what it returns, or why it fails by itself |
| tracer/ | the direct capture: a run on tensors without values, whose operators are recorded |
| data | the Capture |
| exported_programs | what torch.export gives, as a CapturedGraph |
| fixed_sizes | sizes that a capture fixes, and an example that does not |
| control_flow/ | branches that depend on data: a capture of each execution path, and one graph of all |
| size_branches/ | branches that depend on sizes: a capture for each region of sizes, and one graph of all |
| limits | how many captures these may take |
| zero_one_specialization | a second capture with sizes of 1, where a condition leaves these out |
| model_module | the module to export |
| model_inputs, input_names | the example inputs, and what they are called |
| containers | classes among them, and among the outputs, that hold tensors |
| cache_names, cache_shapes | names and dynamic shapes of the tensors of caches |
| dynamic_shapes, dynamic_axes | the forms of dynamic shapes, converted to one |
| derived_sizes | sizes of dimensions that are computed from those of others |
| parts_of_sizes | inputs of other sizes whose lengths of parts add up to a size |
| size_constraints | names, ranges and conditions of dynamic dimensions after the capture |
| autograd_functions, function_recording, replaced_forwards | calls of torch.autograd.Function as operators |
| opaque_operators, operator_recording, opaque_results | operators of other libraries without fake implementations |
| fake_implementations | operators of torch that read values during a capture, or ask needless questions about sizes |
| convolution_shapes | the shapes of the results of convolutions |
| packed_sequences | the shapes of packed sequences |
| strided_copies | the strides of copies, and of what writes through views become |
| side_effects, model_state | attributes, tensors and random numbers that a run of the model changes |
| python_caches | dicts and cached functions of the model's Python modules, which it changes too |
| training_mode | models in training mode |
| functionalize, refused_writes | in-place operators and views become values; what of them is refused |
| advice, advice_rules | why a capture failed, and what to write instead |
| listing | a listing of the capture, for people |
"""

from __future__ import annotations

from opbridge.capture.capturing import capture, capture_call
from opbridge.capture.data import Capture

__all__ = ["Capture", "capture", "capture_call"]
