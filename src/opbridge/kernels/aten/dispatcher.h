// What libtorch's stable C interface does not tell of an operator, and does not pass to it.
//
// The C interface passes no `Scalar`, no complex number and no results of several types. Every operator is also known to libtorch's
// interpreter, which calls it through a std::function<void(Stack&)>, whatever its types: that is `Operator::run`. It is reached through
// exported C++ functions and two facts about classes that headers tell and no symbol does:
//     c10::OperatorHandle         begins with a pointer to the dispatcher's c10::impl::OperatorEntry
//     torch::jit::Operator        begins with an OperatorHandle, followed by that std::function, for an operator of the dispatcher
// Both are checked when an operator is looked up, so that another layout is an error there, and not a crash. They were run on
// libtorch 2.13.0 and 2.15.0, Linux x86-64.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <opbridge/platform.h>

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

// A c10::IValue of the interpreter's stack, which only libtorch looks into.
struct IValue {
    uint64_t words[2];
};
using Stack = std::vector<IValue>;
using Run = std::function<void(Stack&)>;

// An operator of the dispatcher.
struct Operator {
    std::string schema;        // as torch prints it
    const Run* run = nullptr;  // null where this libtorch is laid out in another way
};

// Finds the functions of libtorch's C++ interface that this needs, in the libtorch that is loaded.
void connect_dispatcher();

// Throws std::invalid_argument where libtorch has no operator of that name.
Operator find_operator(const std::string& name, const std::string& overload);

// Destroys what is left on a stack.
void clear(Stack& stack);

}  // namespace aten
}  // namespace opbridge
