// Sizes that are not known yet.
#pragma once

#include <cstdint>

#include "../shape.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// Whoever knows what symbolic sizes are. Returns nonzero where the computation has to be given up; a comparison gives 0 or 1.
struct Symbols {
    int32_t (*apply)(void* self, int32_t operation, const Dim* left, const Dim* right, Dim* result);
    void* self;
};

inline const Symbols*& symbols() {
    thread_local const Symbols* current = nullptr;
    return current;
}

// Thrown where a symbolic size cannot be computed with; whoever set `symbols` knows why.
struct Undecided {};

inline int64_t& computed_dim_count() {
    thread_local int64_t count = 0;
    return count;
}

}  // namespace detail
}  // namespace opbridge
