// How values reach an operator: which of libtorch's two interfaces carries a node's values, and the one that carries all of them.
#pragma once

#include <vector>

#include "node.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// A double, as the interface passes it.
StableValue stable_value(double number);

// Sets `run`, `push_arguments`, `pop_results` and `item` where the C interface does not pass all of the node's values.
// Throws std::invalid_argument where neither interface does.
void choose_interface(Node& node, const Operator& op);

// Calls the operator. `values` are the arguments, which it takes over; the results are put in their place.
void call_operator(const Node& node, std::vector<StableValue>& values);

}  // namespace aten
}  // namespace opbridge
