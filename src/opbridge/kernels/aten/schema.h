// An operator's schema, read from torch's text.
#pragma once

#include <string>
#include <vector>

namespace opbridge {
namespace aten {

struct Declared {
    std::string type;  // without aliasing and list lengths: "Tensor?[]"
    std::string name;  // "" where a result has none
    bool aliases = false, written = false;
};

struct Schema {
    std::string name, overload;
    std::vector<Declared> arguments, results;

    // Whether the operator writes to an argument.
    bool is_mutable() const;
};

// Throws std::invalid_argument for what is no schema.
Schema parse_schema(const std::string& text);

// "Tensor?" -> "Tensor"; "int[]?" -> "int[]".
std::string without_optional(const std::string& type);

// Whether the type is a list, and of what.
bool is_list(const std::string& type, std::string* item);

}  // namespace aten
}  // namespace opbridge
