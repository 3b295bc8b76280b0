// Non-maximum suppression that says who suppressed whom, as mmcv's nms_match: boxes (x1, y1, x2, y2) in groups, each a kept box and those
// that overlap it by at least the threshold and no kept box of a higher score before it.
#pragma once

#include <cstdint>
#include <vector>

#include <opbridge/types.h>

#include "simd.h"
#include "sizes.h"
#include "suppression.h"

namespace opbridge::compute {

struct NmsMatchArguments {
    int64_t batch, classes, boxes;
    float iou_threshold, score_threshold;
};

// The arguments for boxes with scores (boxes, 5); throws where they have another shape.
inline NmsMatchArguments nms_match_arguments(Shape dets, double iou_threshold) {
    const char* axes = "(boxes, 5): x1, y1, x2, y2, score";
    require_rank(dets, 2, "dets", axes);
    require_shape(dets, {dets[0], 5}, "dets", axes);
    return {1, 1, dets[0], static_cast<float>(iou_threshold), 0};
}

// The arguments for boxes (batch, boxes, 4) and scores (batch, classes, boxes).
inline NmsMatchArguments nms_match_batched_arguments(Shape boxes, Shape scores, double iou_threshold, double score_threshold) {
    require_rank(boxes, 3, "boxes", "(batch, boxes, 4)");
    require_shape(boxes, {boxes[0], boxes[1], 4}, "boxes", "(batch, boxes, 4)");
    require_rank(scores, 3, "scores", "(batch, classes, boxes)");
    require_shape(scores, {boxes[0], scores[1], boxes[1]}, "scores", "(batch, classes, boxes)");
    return {boxes[0], scores[1], boxes[1], static_cast<float>(iou_threshold), static_cast<float>(score_threshold)};
}

// Groups one after the other: `boxes` of them, `sizes` of which belong together.
struct Matches {
    std::vector<int64_t> boxes, sizes;
};

namespace nms_match_detail {

// The kept boxes of a block, for `suppress`.
template <class T>
class Overlaps {
  public:
    using A = accumulate_t<T>;
    static constexpr int64_t grain = 256;

    // Box i is at boxes[i * stride]. `least` is added to every union.
    Overlaps(const T* boxes, int64_t stride, float threshold, double least)
        : boxes_(boxes), stride_(stride), threshold_(static_cast<A>(threshold)), least_(static_cast<A>(least)) {}

    void clear() { count_ = 0; }

    OPBRIDGE_INLINE void add(int64_t box) {
        for (int64_t f = 0; f < 4; ++f) kept_[f][count_] = static_cast<A>(boxes_[box * stride_ + f]);
        ++count_;
    }

    template <int Bytes>
    OPBRIDGE_INLINE int64_t first(int64_t box) const {
        const T* at = boxes_ + box * stride_;
        const A x1 = static_cast<A>(at[0]), y1 = static_cast<A>(at[1]), x2 = static_cast<A>(at[2]), y2 = static_cast<A>(at[3]);
        const A area = (x2 - x1) * (y2 - y1);
        for (int64_t begin = 0; begin < count_; begin += suppression_step) {
            int32_t over[suppression_step];
            int32_t any = 0;
            for (int64_t k = 0; k < suppression_step; ++k) {
                const A left = kept_[0][begin + k], top = kept_[1][begin + k], right = kept_[2][begin + k], low = kept_[3][begin + k];
                const A width = std::max(A(0), std::min(right, x2) - std::max(left, x1));
                const A height = std::max(A(0), std::min(low, y2) - std::max(top, y1));
                const A shared = width * height;
                over[k] = shared / ((right - left) * (low - top) + area - shared + least_) >= threshold_ ? 1 : 0;
                any |= over[k];
            }
            if (any == 0) continue;
            for (int64_t k = begin; k < std::min(begin + suppression_step, count_); ++k) {
                if (over[k - begin] != 0) return k;
            }
        }
        return -1;
    }

  private:
    const T* boxes_;
    int64_t stride_;
    A threshold_, least_;
    alignas(64) A kept_[4][suppression_block] = {};
    int64_t count_ = 0;
};

}  // namespace nms_match_detail

// The groups of boxes in an order, where each is suppressed by another or kept.
inline Matches grouped(const std::vector<int64_t>& order, const std::vector<int64_t>& suppressor) {
    std::vector<int64_t> group(order.size());  // of each box, numbered by the score of its kept box
    Matches result;
    for (int64_t box : order) {
        const size_t by = static_cast<size_t>(suppressor[static_cast<size_t>(box)]);
        if (static_cast<int64_t>(by) == box) {
            group[by] = static_cast<int64_t>(result.sizes.size());
            result.sizes.push_back(0);
        }
        ++result.sizes[static_cast<size_t>(group[by])];
    }
    std::vector<int64_t> next(result.sizes.size());
    for (size_t g = 1; g < next.size(); ++g) next[g] = next[g - 1] + result.sizes[g - 1];
    result.boxes.resize(order.size());
    for (int64_t box : order) {  // a kept box comes before those that it suppresses
        const int64_t of = group[static_cast<size_t>(suppressor[static_cast<size_t>(box)])];
        result.boxes[static_cast<size_t>(next[static_cast<size_t>(of)]++)] = box;
    }
    return result;
}

template <class T, class Parallel>
Matches nms_match(const NmsMatchArguments& args, const T* dets, Parallel&& parallel) {
    std::vector<T> scores(static_cast<size_t>(args.boxes));
    for (int64_t i = 0; i < args.boxes; ++i) scores[static_cast<size_t>(i)] = dets[i * 5 + 4];
    nms_match_detail::Overlaps<T> overlaps(dets, 5, args.iou_threshold, 0);
    const std::vector<int64_t> order = by_falling_score(scores.data(), args.boxes);
    return grouped(order, suppress(order, overlaps, parallel));
}

// What is added to the unions of nms_match_batched, so that boxes without area overlap nothing.
constexpr double least_union = 1e-10;

// Rows (batch, class, kept box, suppressed box) where the kept box's score is above the threshold, one after the other: mmdeploy's
// NMSMatch. match(batch, class) gives the groups.
template <class T, class Match>
std::vector<int64_t> nms_match_rows(const NmsMatchArguments& args, const T* scores, Match&& match) {
    using A = accumulate_t<T>;
    std::vector<int64_t> rows;
    for (int64_t b = 0; b < args.batch; ++b) {
        for (int64_t c = 0; c < args.classes; ++c) {
            const T* of_class = scores + (b * args.classes + c) * args.boxes;
            const Matches matches = match(b, c);
            const int64_t* group = matches.boxes.data();
            for (int64_t size : matches.sizes) {
                if (static_cast<A>(of_class[group[0]]) > static_cast<A>(args.score_threshold)) {
                    for (int64_t k = 1; k < size; ++k) rows.insert(rows.end(), {b, c, group[0], group[k]});
                }
                group += size;
            }
        }
    }
    return rows;
}

template <class T, class Parallel>
std::vector<int64_t> nms_match_batched(const NmsMatchArguments& args, const T* boxes, const T* scores, Parallel&& parallel) {
    return nms_match_rows(args, scores, [&](int64_t b, int64_t c) {
        nms_match_detail::Overlaps<T> overlaps(boxes + b * args.boxes * 4, 4, args.iou_threshold, least_union);
        const std::vector<int64_t> order = by_falling_score(scores + (b * args.classes + c) * args.boxes, args.boxes);
        return grouped(order, suppress(order, overlaps, parallel));
    });
}

}  // namespace opbridge::compute
