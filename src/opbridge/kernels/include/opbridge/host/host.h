// All that does not depend on the kernels of a library: host.cpp and host_ort.cpp, which `opbridge build` compiles once.
#pragma once

#include "describe.h"
#include "operator_body.h"
#include "ort.h"
