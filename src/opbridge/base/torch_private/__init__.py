"""The only modules that use private interfaces of torch. Each one names the releases that it was checked on.

In: nodes, operators, values and sizes of torch, and functions to be called by it.
Out: plain Python values; contexts that change what torch does, and restore it at their end.
May import: base.

| module | |
| --- | --- |
| torch_operators | names, schemas, overloads and decompositions of operators |
| torch_library | operators of third-party libraries and their fake implementations |
| torch_overrides | behaviour of torch that is replaced for a time |
| torch_sizes | symbolic sizes, guards, forms of dynamic shapes |
| torch_tracing | torch.export and torch.fx: tracing, stack traces, log output |
| torchscript_graph | values, types and blocks in the graphs of the TorchScript exporter |
| torchscript_registry | torch.onnx's registry of symbolic functions |
| torchscript_export | a whole export by the TorchScript exporter |
"""
