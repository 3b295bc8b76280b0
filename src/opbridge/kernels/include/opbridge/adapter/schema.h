// An operator's schema, in PyTorch's language: "mylib::my_add.overload(Tensor a, Tensor? b, *, float alpha=2.0) -> (Tensor, Tensor)".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../attribute.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

OPBRIDGE_ADAPTER const char* name_of(Kind kind);

struct ArgumentSchema {
    std::string name;
    Kind kind = Kind::tensor;
    bool optional = false;     // "Tensor?", "int?"
    bool has_default = false;
    Attribute default_value;
};

struct Schema {
    std::string text, domain, name, overload;
    std::vector<ArgumentSchema> arguments;
    size_t returns = 0;
    bool returns_list = false;  // whether the last one is a list of tensors

    // How many outputs there are before such a list.
    size_t single_returns() const { return returns - (returns_list ? 1 : 0); }

    std::string operator_name() const { return domain + "::" + name + (overload.empty() ? "" : "." + overload); }
    // What the ONNX node is called in the domain.
    std::string op_type() const { return name + (overload.empty() ? "" : "." + overload); }
};

}  // namespace detail
}  // namespace opbridge
