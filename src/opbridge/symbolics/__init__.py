"""Symbolic functions, the older form of translations, on opbridge's translator.

| module | |
| --- | --- |
| registered | which there are: torch's registry and `@opbridge.symbolic` (whose name is why this package has another) |
| graph | one call of a symbolic function, on a graph of its own |
| copying | that graph's nodes become the model's |
| schemas | what ONNX's operators take, by which those nodes are checked |
| calling | what is built for one operator, or for one call of a torch.autograd.Function |
| functions | classes of torch.autograd.Function that stay one operator in the capture |
| shapes | the shapes of what they return |
| equivalents | operators that a trace has under another name |

And the way back, for torch's own exporters:

| module | |
| --- | --- |
| registering | opbridge's translations in torch's registry, for a time |
| bridging, arguments, emitting, carrying | a translation as a symbolic function |
"""
