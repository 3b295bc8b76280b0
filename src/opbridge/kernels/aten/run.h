// One call of a node.
#pragma once

#include "core_scheduler.h"
#include "node.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// Runs the node's operator on the context's inputs. Inputs are not copied, unless the operator writes to them; outputs are copied once,
// into memory that ONNX Runtime has for them. Throws std::exception where the call fails.
void run(const Node& node, const CoreScheduler& cores, const OrtApi* api, OrtKernelContext* context);

}  // namespace aten
}  // namespace opbridge
