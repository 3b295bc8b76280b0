// The part of libraries for TensorRT that it calls; see adapter.cpp.
#define OPBRIDGE_SEPARATE_ADAPTER
#include <opbridge/adapter/tensorrt.h>
