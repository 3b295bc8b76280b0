// The kinds of arguments, and the values of arguments that are not tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform.h"
#include "shape.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

enum class Kind : int32_t { tensor, tensors, integer, number, boolean, text, integers, numbers, output, context, outputs };

inline bool is_tensor(Kind kind) { return kind == Kind::tensor || kind == Kind::tensors; }
constexpr bool is_output(Kind kind) { return kind == Kind::output || kind == Kind::outputs; }

// The value of an argument that is not a tensor: an attribute of an ONNX node.
struct Attribute {
    bool given = false;
    Dim integer;  // a bool too
    double number = 0;
    std::string text;
    std::vector<int64_t> integers;
    std::vector<double> numbers;
    std::vector<Dim> dims;  // `integers` while a model is captured
};

}  // namespace detail
}  // namespace opbridge
