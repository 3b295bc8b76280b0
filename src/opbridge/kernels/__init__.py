"""Kernels: a C++ file becomes a library that PyTorch and ONNX Runtime both load.

In: C++ files, or libraries that were built from them.
Out: operators of PyTorch, their ONNX nodes, and the libraries that a session needs.
May import: translations, nodes, onnx, graph, base.

| folder | |
| --- | --- |
| include | the header that kernels are written with |
| adapter | what connects the kernels of a library with PyTorch, with ONNX Runtime and with TensorRT |
| builtin | the kernels that come with opbridge, and their gradients |
| aten | the kernel that calls libtorch, for the route `aten` |
| openvino | kernels as custom operations of OpenVINO |
| tensorrt | kernels as plug-ins of TensorRT |
| triton | Triton kernels that a model launches, and the libraries with their code |
"""
