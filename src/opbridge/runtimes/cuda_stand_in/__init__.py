"""Libraries in the place of CUDA's, for a process of onnxruntime-gpu that loads models or lists its kernels.

elf             what a shared library takes from others
libraries       the libraries, and the environment of a process that finds them
stand_in.cpp    what they do

May import: kernels, base.
"""
