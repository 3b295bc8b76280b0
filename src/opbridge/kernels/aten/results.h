// The results of a call, written to a node's outputs.
#pragma once

#include <vector>

#include "node.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// Writes results into memory that ONNX Runtime has for them, and deletes all of them, also where it throws std::runtime_error because one
// does not fit the node.
void write_results(const Node& node, const OrtApi* api, OrtKernelContext* context, const std::vector<StableValue>& values);

}  // namespace aten
}  // namespace opbridge
