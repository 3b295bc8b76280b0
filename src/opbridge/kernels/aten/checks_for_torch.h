// The checks as operators of torch's, for those who make calls in PyTorch that a node would make.
#pragma once

#include <string>

#include <opbridge/platform.h>

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// Defines opbridge_checks::name.overload, with the arguments of an operator of aten's that a check may read, a tensor for a Scalar; it
// returns nothing, and throws where the check does. Whether the operator has a check.
bool define_check(const std::string& schema);

}  // namespace aten
}  // namespace opbridge
