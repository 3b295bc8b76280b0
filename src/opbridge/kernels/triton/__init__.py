"""Triton kernels: a launch in a model becomes a node, and the compiled kernel lies in a library of kernels.

In: launches of functions with @triton.jit.
Out: operators of PyTorch, their ONNX nodes, and libraries with machine code and PTX.
May import: what kernels may.

| module | |
| --- | --- |
| launches | a launch with its decorators taken off and its arguments bound |
| specialization | the kernel for the types and constants of a launch |
| written | which tensors a kernel writes to |
| expressions | numbers that are computed of sizes, as text |
| capturing | a launch during a capture |
| eager | a launch in the model itself, on the CPU |
| operators | the operators that launches become |
| standalone | a kernel as a Python file of its own |
| interpreting, interpreter_child | kernels run by Triton's interpreter, in a process of its own |
| library_source, building | the library |
| host | the library's nodes on the CPU |
"""
