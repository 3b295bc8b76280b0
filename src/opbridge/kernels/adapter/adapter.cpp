// The part of every library that does not depend on its kernels, but for what ONNX Runtime calls. `opbridge build` compiles it once for
// each compiler and set of flags, and links it into what it builds.
#define OPBRIDGE_SEPARATE_ADAPTER
#include <opbridge/adapter/describe.h>
#include <opbridge/adapter/operator_body.h>
