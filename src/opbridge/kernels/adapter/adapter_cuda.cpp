// The part of libraries with kernels for CUDA devices: their launches; see adapter.cpp.
#define OPBRIDGE_SEPARATE_ADAPTER
#include <opbridge/adapter/device_launch.h>
#include <opbridge/adapter/element.h>
