"""Symbolic functions: the older form of translations, on opbridge's translator and for torch.onnx's own exporter.

In: an operator, its arguments, and a symbolic function; or translations, for torch.onnx.
Out: nodes of the model; or symbolic functions, for torch.onnx.
May import: translations, nodes, onnx, graph, base.

Symbolic functions on opbridge's translator:

| module | |
| --- | --- |
| registered | the registered functions, in torch's registry and by `@opbridge.symbolic` |
| calling | builds one operator, or one call of a torch.autograd.Function |
| graph | one call of a symbolic function, on a TorchScript graph of its own |
| copying, attributes | copies the nodes of that graph into the model |
| schemas | the rules of ONNX's operators, by which those nodes are checked |
| equivalents | operators that have another name in a trace |
| autograd_functions | classes of torch.autograd.Function that stay one operator in the capture |
| shapes | the shapes of their outputs |

Translations as symbolic functions, for torch.onnx's TorchScript exporter:

| module | |
| --- | --- |
| registering | registers translations with torch.onnx, and removes them again |
| bridging, translation_call | a translation as a symbolic function |
| squeezing | squeeze, where the rank depends on a size that is not known |
| arguments | its arguments, by the operator's schema |
| emitting | its nodes, in a TorchScript graph |
| single_nodes | the routes `aten` and `fallthrough` as symbolic functions |
"""
