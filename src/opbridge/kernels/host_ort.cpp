// The part of every library that ONNX Runtime calls; see host.cpp.
#define OPBRIDGE_SEPARATE_HOST
#include <opbridge/host/ort.h>
