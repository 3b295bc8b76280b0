// The arithmetic of sizes.
#pragma once

#include <limits>
#include <stdexcept>
#include <string>

#include "../shape.h"
#include "symbols.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

OPBRIDGE_ADAPTER Dim computed() {
    Dim result;
    result.symbol = --computed_dim_count();
    return result;
}

OPBRIDGE_ADAPTER void throw_no_such_axis(int64_t axis, int64_t rank) {
    throw std::out_of_range("axis " + std::to_string(axis) + " of a tensor with " + std::to_string(rank) + " dimensions");
}

[[noreturn]] inline void too_large() { throw std::overflow_error("a size computed from the arguments exceeds 64 bits"); }

inline int64_t add(int64_t a, int64_t b) {
    if (b > 0 ? a > std::numeric_limits<int64_t>::max() - b : a < std::numeric_limits<int64_t>::min() - b) too_large();
    return a + b;
}

inline int64_t subtract(int64_t a, int64_t b) {
    if (b < 0 ? a > std::numeric_limits<int64_t>::max() + b : a < std::numeric_limits<int64_t>::min() + b) too_large();
    return a - b;
}

inline int64_t multiply(int64_t a, int64_t b) {
    constexpr int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
    if (a == 0 || b == 0) return 0;
    const bool fits = a > 0 ? (b > 0 ? a <= most / b : b >= least / a) : (b > 0 ? a >= least / b : b >= most / a);
    if (!fits) too_large();
    return a * b;
}

inline int64_t divide(int64_t a, int64_t b) {
    if (b == 0) throw std::invalid_argument("a size is divided by zero");
    if (b == -1) return subtract(0, a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

OPBRIDGE_ADAPTER Dim apply(Operation operation, const Dim& left, const Dim& right) {
    if (left.symbol == 0 && right.symbol == 0) {
        const int64_t a = left.known, b = right.known;
        switch (operation) {
            case Operation::add: return add(a, b);
            case Operation::subtract: return subtract(a, b);
            case Operation::multiply: return multiply(a, b);
            case Operation::divide: return divide(a, b);
            case Operation::modulo: return subtract(a, multiply(divide(a, b), b));
            case Operation::minimum: return a < b ? a : b;
            case Operation::maximum: return a < b ? b : a;
            case Operation::equal: return a == b ? 1 : 0;
            case Operation::less: return a < b ? 1 : 0;
            case Operation::number: return a;
        }
    }
    if (operation == Operation::equal && left.symbol == right.symbol) return 1;
    if (left.symbol < 0 || right.symbol < 0) {
        throw std::logic_error("the shape function computes with a size that only the kernel can compute (Dim::computed())");
    }
    Dim result;
    if (symbols() == nullptr) throw Undecided{};
    if (symbols()->apply(symbols()->self, static_cast<int32_t>(operation), &left, &right, &result) != 0) throw Undecided{};
    return result;
}

}  // namespace detail

OPBRIDGE_ADAPTER std::string to_string(const Shape& shape) {
    std::string text = "(";
    for (int64_t axis = 0; axis < shape.rank(); ++axis) {
        const Dim& dim = shape[axis];
        text += (axis ? ", " : "") + (dim.is_known() ? std::to_string(dim.known) : std::string("?"));
    }
    return text + ")";
}

}  // namespace opbridge
