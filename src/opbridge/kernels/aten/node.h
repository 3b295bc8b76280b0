// What a node says, read and checked against the operator's schema when a session is made.
#pragma once

#include <string>
#include <vector>

#include "allowed.h"
#include "checks.h"
#include "dispatcher.h"
#include "libtorch.h"
#include "ort.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

using detail::is_list;
using detail::SchemaItem;
using detail::without_optional;

enum class Kind { tensor, complex_tensor, input_int, input_float, input_bool, none, integer, boolean, number, complex, text, code, list };

// An argument, or an item of a list.
struct Value {
    std::string name;         // of the argument; "" for an item
    Kind kind = Kind::none;
    std::string type;         // of the schema, without "?"; for an item the list's type of items
    bool optional = false;    // whether the schema has a "?" there
    bool written = false;     // whether the operator writes to it
    size_t input = 0;         // of the node, for the first five kinds
    StableValue constant = 0;      // integer, boolean, number and code, as the interface passes them
    double real = 0, imaginary = 0;
    std::string text;
    std::vector<Value> items;
};

struct Result {
    Kind kind = Kind::none;
    std::string type;
    bool optional = false;
    bool aliases = false;  // it may share an argument's memory, and be conjugated or negated when it is read
    std::vector<Result> items;
};

struct Node {
    std::string name, overload;
    std::vector<Value> arguments;
    std::vector<Result> results;
    std::vector<int64_t> output_types;
    bool has_complex = false;  // among its tensors
    Check check = nullptr;     // what is to be looked at before each call, where there is something
    const Run* run = nullptr;  // this and what follows: where the C interface does not pass all of its values
    const Run* push_arguments = nullptr;
    const Run* pop_results = nullptr;
    const Run* item = nullptr;  // a number of a tensor with one
};

// Throws std::invalid_argument for a node that is malformed, refused, or was made for another schema.
Node read_node(const Attributes& attributes, size_t inputs, size_t outputs, const Allowed& allowed);

}  // namespace aten
}  // namespace opbridge
