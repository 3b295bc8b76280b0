"""The only modules that use private interfaces of torch. Each one names the releases that it was checked on.

In: nodes, operators, values and sizes of torch, and functions to be called by it.
Out: plain Python values; contexts that change what torch does, and restore it at their end.
May import: base.

| module | |
| --- | --- |
| capabilities | what releases of torch do differently, asked of the one that is installed |
| torch_operators | names, schemas, overloads and decompositions of operators |
| torch_failures | what torch's errors in a capture mean |
| torch_library | operators of third-party libraries and their fake implementations |
| torch_overrides | behaviour of torch that is replaced for a time |
| torch_shape_env | the environment of a capture: its symbols, their ranges and guards |
| torch_known_sizes | what is known of those symbols, and can be forgotten |
| torch_program_shapes | the sizes of an exported program: its symbols, their ranges and guards |
| torch_decisions | truth values that data decide, in that environment |
| torch_branch_operators | the operators that a captured graph has for branches and loops |
| torch_sizes | single symbolic sizes: what is known of them, what is asked about them |
| torch_sizes_in_python | symbolic sizes as Python takes them: formatted, multiplied |
| torch_hashed_sizes | symbolic sizes as the keys of dicts and the elements of sets |
| torch_paddings | amounts of padding that are computed from sizes |
| torch_extremes | the least and the greatest of sizes |
| torch_dynamic_shapes | the forms of dynamic shapes |
| torch_tracing | torch.export and torch.fx: tracing, stack traces, log output |
| torch_proxies | the modes that see every operator, and the tracer that torch's operators expect |
| torch_transforms | when a transform of torch.func or a backward pass begins and ends |
| torch_higher_order | how `torch.cond` and its like are called, and where their operands stand |
| torch_functional | functionalisation |
| torch_functionalized | the calls of operators that write to their arguments, in a functionalised program |
| torchscript_graph | values, types and blocks in the graphs of the TorchScript exporter |
| torchscript_registry | torch.onnx's registry of symbolic functions |
| torchscript_export | a whole export by the TorchScript exporter |
| torchscript_running | scripted functions and modules, run operator by operator |
"""
