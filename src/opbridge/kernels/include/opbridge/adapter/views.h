// What views and outputs need of the runtime.
#pragma once

#include <limits>
#include <stdexcept>
#include <string>

#include "../views.h"
#include "shape.h"

namespace opbridge OPBRIDGE_HIDDEN {

OPBRIDGE_ADAPTER const char* name_of(Type type) {
    switch (type) {
        case Type::float32: return "float32";
        case Type::uint8: return "uint8";
        case Type::int8: return "int8";
        case Type::uint16: return "uint16";
        case Type::int16: return "int16";
        case Type::int32: return "int32";
        case Type::int64: return "int64";
        case Type::boolean: return "bool";
        case Type::float16: return "float16";
        case Type::float64: return "float64";
        case Type::uint32: return "uint32";
        case Type::uint64: return "uint64";
        case Type::bfloat16: return "bfloat16";
        default: return "an unsupported element type";
    }
}

OPBRIDGE_ADAPTER size_t size_of(Type type) {
    switch (type) {
        case Type::uint8:
        case Type::int8:
        case Type::boolean: return 1;
        case Type::uint16:
        case Type::int16:
        case Type::float16:
        case Type::bfloat16: return 2;
        case Type::int32:
        case Type::uint32:
        case Type::float32: return 4;
        default: return 8;
    }
}

namespace detail {

OPBRIDGE_ADAPTER void throw_out_of_bounds(int64_t index, int64_t size) {
    throw std::out_of_range("element " + std::to_string(index) + " of a tensor with " + std::to_string(size) + " elements");
}

OPBRIDGE_ADAPTER void throw_wrong_number_of_indices(size_t indices, int64_t rank) {
    throw std::logic_error(std::to_string(indices) + (indices == 1 ? " index" : " indices") + " into a tensor with " +
                           std::to_string(rank) + (rank == 1 ? " dimension" : " dimensions"));
}

OPBRIDGE_ADAPTER void* allocate_scratch(Runtime& runtime, int64_t count, size_t size) {
    if (count < 0 || count > std::numeric_limits<int64_t>::max() / 2 / static_cast<int64_t>(size)) {
        throw std::invalid_argument("scratch memory for " + std::to_string(count) + " elements");
    }
    return count == 0 ? nullptr : runtime.allocate_scratch(static_cast<size_t>(count) * size);
}

OPBRIDGE_ADAPTER std::string Result::name() const { return "output " + std::to_string(index); }

OPBRIDGE_ADAPTER Shape Result::shape() const { return Shape(sizes.data(), static_cast<int64_t>(sizes.size())); }

OPBRIDGE_ADAPTER void Result::allocate() {
    int64_t product = 1;
    bool empty = false;
    for (int64_t size : sizes) {
        if (size < 0) throw std::invalid_argument(name() + " has a negative size: " + to_string(shape()));
        if (size == 0) empty = true;
        else if (product > (std::numeric_limits<int64_t>::max() >> 4) / size) {
            throw std::invalid_argument(name() + " exceeds the maximum memory size: " + to_string(shape()));
        } else product *= size;
    }
    if (rank != any_rank && static_cast<size_t>(rank) != sizes.size()) {
        throw std::logic_error(name() + " is declared with " + std::to_string(rank) + " dimensions, but has " +
                               std::to_string(sizes.size()) + ": " + to_string(shape()));
    }
    count = empty ? 0 : product;
    data = runtime->allocate_output(index, type, sizes.data(), static_cast<int64_t>(sizes.size()));
    allocated = true;
}

OPBRIDGE_ADAPTER void Result::allocate(const int64_t* begin, const int64_t* end) {
    if (allocated) throw std::logic_error(name() + " is already allocated");
    sizes.assign(begin, end);
    bool fits = expected.rank() == static_cast<int64_t>(sizes.size());
    for (size_t axis = 0; fits && axis < sizes.size(); ++axis) {
        const Dim& dim = expected[static_cast<int64_t>(axis)];
        fits = !dim.is_known() || dim.known == sizes[axis];
    }
    if (!fits) {
        throw std::logic_error(name() + " is allocated as " + to_string(shape()) + ", but the shape function returned " +
                               to_string(expected));
    }
    allocate();
}

}  // namespace detail
}  // namespace opbridge
