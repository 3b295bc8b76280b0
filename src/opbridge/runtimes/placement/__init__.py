"""Which nodes of a model CUDA runs, and which the CPU, with the copies between them: asked of onnxruntime-gpu.

elf             what a shared library takes from others
stand_in        libraries in the place of CUDA's, on a machine without a GPU
asking          a process with them
worker          that process: loads the model, and says where its nodes run; lists the kernels
placement       a model -> where its nodes run, with the lines of the model's code

In: an ONNX file, or its content. Out: `Placement`.
May import: runtimes.onnxruntime, kernels, onnx, base.
"""
