// Non-maximum suppression of boxes of any kind: boxes are taken by falling score; one that overlaps a box taken before by enough is
// suppressed by it, and all others are kept.
//
// Every box is compared with the kept ones until one suppresses it, as in the definition. Boxes are kept in blocks: within a block one
// after the other, then all later boxes are compared with what the block kept, in parallel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <opbridge/types.h>

#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

// Numbers from the largest to the smallest, equal ones in their order; what is no number comes first, as torch.sort has it.
template <class T>
std::vector<int64_t> by_falling_score(const T* scores, int64_t count) {
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [scores](int64_t i, int64_t j) {
        const auto a = static_cast<accumulate_t<T>>(scores[i]), b = static_cast<accumulate_t<T>>(scores[j]);
        return a != a ? b == b : a > b;
    });
    return order;
}

constexpr int64_t suppression_block = 64;
constexpr int64_t suppression_step = 16;  // kept boxes that a box is compared with at once

// Which box suppressed each: suppressor[i] is i for a kept box. `order` names boxes by falling score.
//
// Overlaps is a struct with the kept boxes of a block in it: clear(), add(box), and first(Bytes, box), which gives the position of the
// first of them that suppresses `box`, or -1. Overlaps::grain is how many boxes are worth a thread: there is a parallel loop for each
// block.
template <class Overlaps>
struct SuppressRest {
    const Overlaps& kept;
    const int64_t* kept_boxes;
    const int64_t* order;
    int64_t begin, end;
    int64_t* suppressor;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t box = order[i];
            if (suppressor[box] != box) continue;
            const int64_t by = kept.template first<Bytes>(box);
            if (by >= 0) suppressor[box] = kept_boxes[by];
        }
    }
};

template <class Overlaps>
struct SuppressBlock {
    Overlaps& kept;
    std::vector<int64_t>& kept_boxes;
    const int64_t* order;
    int64_t begin, end;
    int64_t* suppressor;

    template <int Bytes>
    OPBRIDGE_INLINE void run() const {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t box = order[i];
            if (suppressor[box] != box) continue;
            const int64_t by = kept.template first<Bytes>(box);
            if (by >= 0) {
                suppressor[box] = kept_boxes[static_cast<size_t>(by)];
            } else {
                kept.add(box);
                kept_boxes.push_back(box);
            }
        }
    }
};

template <class Overlaps, class Parallel>
std::vector<int64_t> suppress(const std::vector<int64_t>& order, Overlaps& kept, Parallel&& parallel) {
    const int64_t count = static_cast<int64_t>(order.size());
    std::vector<int64_t> suppressor(order.size()), kept_boxes;
    std::iota(suppressor.begin(), suppressor.end(), int64_t{0});
    for (int64_t begin = 0; begin < count;) {
        kept.clear();
        kept_boxes.clear();
        // A block ends where it is full of kept boxes, so that nobody passes over the rest for a few of them.
        int64_t end = begin;
        while (end < count && static_cast<int64_t>(kept_boxes.size()) < suppression_block) {
            const int64_t next = std::min(count, end + suppression_block - static_cast<int64_t>(kept_boxes.size()));
            at_full_width(SuppressBlock<Overlaps>{kept, kept_boxes, order.data(), end, next, suppressor.data()});
            end = next;
        }
        parallel(count - end, Overlaps::grain, [&](int64_t first, int64_t last) {
            at_full_width(SuppressRest<Overlaps>{kept, kept_boxes.data(), order.data(), end + first, end + last, suppressor.data()});
        });
        begin = end;
    }
    return suppressor;
}

// The boxes of an order that are kept.
inline std::vector<int64_t> kept(std::vector<int64_t> order, const std::vector<int64_t>& suppressor) {
    order.erase(std::remove_if(order.begin(), order.end(), [&](int64_t i) { return suppressor[static_cast<size_t>(i)] != i; }),
                order.end());
    return order;
}

}  // namespace opbridge::compute
