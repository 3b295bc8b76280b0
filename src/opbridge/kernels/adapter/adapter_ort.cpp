// The part of every library that ONNX Runtime calls; see adapter.cpp.
#define OPBRIDGE_SEPARATE_ADAPTER
#include <opbridge/adapter/ort.h>
