// What kernels of one function of an element need beside their launches.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "../element.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

OPBRIDGE_ADAPTER void throw_unsupported_rank(int64_t rank) {
    throw std::invalid_argument("a tensor has " + std::to_string(rank) + " dimensions, which this kernel does not support");
}

OPBRIDGE_ADAPTER void throw_shapes_differ(const Call& call, const char* what) {
    std::string text;
    for (const Shape& each : shapes_of_tensors(call)) text += (text.empty() ? "" : ", ") + to_string(each);
    throw std::invalid_argument(std::string(what) + ": " + text);
}

// As in PyTorch: aligned at the last axis; where sizes differ, one of them is 1.
OPBRIDGE_ADAPTER Shape broadcast_shapes(const Call& call, const std::vector<Shape>& shapes) {
    const auto is_one = [](const Dim& dim) { return dim.is_known() && dim.known == 1; };
    int64_t rank = 0;
    for (const Shape& each : shapes) rank = std::max(rank, each.rank());
    Shape result;
    for (int64_t axis = 0; axis < rank; ++axis) {
        Dim size = 1;
        for (const Shape& each : shapes) {
            const int64_t own = axis - (rank - each.rank());
            if (own < 0 || is_one(each[own])) continue;
            if (is_one(size)) size = each[own];
            else if (size == each[own] || each[own] == Dim(1)) continue;
            else if (size == Dim(1)) size = each[own];
            else throw_shapes_differ(call, "the tensors cannot be broadcast to one shape");
        }
        result.push_back(size);
    }
    return result;
}

}  // namespace detail
}  // namespace opbridge
