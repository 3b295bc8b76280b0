// All that does not depend on the kernels of a library: adapter.cpp and adapter_ort.cpp, which `opbridge build` compiles once.
#pragma once

#include "describe.h"
#include "device_launch.h"
#include "element.h"
#include "operator_body.h"
#include "ort.h"
