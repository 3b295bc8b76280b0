// The part of libraries of Triton kernels; see adapter.cpp.
#define OPBRIDGE_SEPARATE_ADAPTER
#include <opbridge/adapter/triton.h>
