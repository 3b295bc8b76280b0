"""Which nodes of a model CUDA runs, and which the CPU, with the copies between them: asked of onnxruntime-gpu.

asking          a process with libraries in the place of CUDA's, where there is no GPU
worker          that process: loads the model, and says where its nodes run
placement       a model -> where its nodes run, with the lines of the model's code

In: an ONNX file, or its content. Out: `Placement`.
May import: runtimes.onnxruntime, runtimes.cuda_stand_in, kernels, onnx, base.
"""
