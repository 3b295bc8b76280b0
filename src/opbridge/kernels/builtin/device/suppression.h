// Non-maximum suppression on CUDA devices: compute/suppression.h says which box suppresses which.
//
// Boxes are ranked by their scores, all pairs are compared, 64 boxes of higher scores to a word of bits, and one block goes through the
// words in order.
#pragma once

#include <opbridge/types.h>

#include "sizes.h"

namespace opbridge::device {

constexpr int word_bits = 64;  // boxes of a word

// order[r] is the box with the r-th largest score, equal ones in their order; what is no number comes first.
template <class T>
__global__ void rank_scores(const T* scores, int64_t stride, int64_t count, int64_t* order);

// words[w * count + r]: a bit for each of the boxes 64 * w to 64 * w + 63 by falling score that overlaps box r, a later one, by enough.
template <class T>
__global__ void compare_rotated_boxes(const T* boxes, const accumulate_t<T>* fields, const int64_t* labels, const int64_t* order,
                                      int64_t count, bool clockwise, float threshold, unsigned long long* words);
template <class T>
__global__ void compare_boxes(const T* boxes, int64_t stride, const int64_t* order, int64_t count, float threshold, double least,
                              unsigned long long* words);

// suppressor[i]: the box that suppressed box i, or i for a kept one. `by` has room for as many.
template <int threads>
__global__ void suppress_boxes(const unsigned long long* words, const int64_t* order, int64_t count, int64_t* by, int64_t* suppressor);

#ifndef OPBRIDGE_ON_DEVICE

// The order of boxes and who suppressed each, on the host: what compute/suppression.h gives.
struct Suppressed {
    std::vector<int64_t> order, suppressor;
};

// Suppresses boxes of which there are `count`, again and again.
class OPBRIDGE_HIDDEN Suppression {
  public:
    Suppression(Context& context, int64_t count) : context_(context), count_(count) {
        order_ = context.scratch<int64_t>(3 * count);
        by_ = order_ + 2 * count;
        words_ = context.scratch<unsigned long long>(compute::product({compute::ceil_divide(count, word_bits), count}, "the overlaps"));
    }

    // `compare(grid, block, order, words)` launches the comparison.
    template <class T, class Compare>
    Suppressed run(const T* scores, int64_t stride, Compare&& compare) {
        if (count_ == 0) return {};
        constexpr int64_t threads = 256;
        launch<rank_scores<T>>(context_, blocks_for(count_, threads), threads, 0, scores, stride, count_, order_);
        const int64_t blocks = compute::ceil_divide(count_, word_bits);
        compare(Dim3(blocks, blocks), Dim3(word_bits), order_, words_);
        launch<suppress_boxes<512>>(context_, 1, 512, 0, words_, order_, count_, by_, order_ + count_);
        const std::vector<int64_t> both = copy_to_host(context_, order_, 2 * count_);
        return {{both.begin(), both.begin() + count_}, {both.begin() + count_, both.end()}};
    }

  private:
    Context& context_;
    int64_t count_;
    int64_t* order_;
    int64_t* by_;
    unsigned long long* words_;
};

#endif

}  // namespace opbridge::device
