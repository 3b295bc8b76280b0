// What the arguments of an operator have to keep to, for operators of PyTorch's that trust them.
#pragma once

#include "allowed.h"
#include "checked_call.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// Throws std::invalid_argument for a call that is not to be made, with what does not fit.
using Check = void (*)(const CheckedCall& call);

// The check of an operator; null where it needs none.
Check check_of(const FunctionSchema& schema);

}  // namespace aten
}  // namespace opbridge
