// Non-maximum suppression of rotated boxes on CUDA devices.
#include "device/box_iou_rotated.h"
#include "device/rotated_boxes.h"
#include "device/suppress.h"

namespace opbridge::device {

// blockIdx.x: 64 boxes; blockIdx.y: the word, 64 boxes of higher scores.
template <class T>
__global__ void __launch_bounds__(word_bits)
    compare_rotated_boxes(const T* boxes, const accumulate_t<T>* fields, const int64_t* labels, const int64_t* order, int64_t count,
                          bool clockwise, float threshold, unsigned long long* words) {
    using A = accumulate_t<T>;
    if (blockIdx.y > blockIdx.x) return;
    __shared__ A of_word[compute::rotated_fields * word_bits];
    __shared__ int64_t labels_of_word[word_bits];
    const int64_t first = static_cast<int64_t>(blockIdx.y) * word_bits, r = static_cast<int64_t>(blockIdx.x) * word_bits + threadIdx.x;
    if (first + threadIdx.x < count) {
        const int64_t box = order[first + threadIdx.x];
        for (int f = 0; f < compute::rotated_fields; ++f) of_word[f * word_bits + threadIdx.x] = fields[f * count + box];
        labels_of_word[threadIdx.x] = labels ? labels[box] : 0;
    }
    __syncthreads();
    if (r >= count) return;
    const int64_t box = order[r], label = labels ? labels[box] : 0;
    const compute::RotatedFrame<A> frame(boxes + box * 5, clockwise);
    const auto others = compute::rotated_boxes_at<A>(of_word, word_bits);
    words[blockIdx.y * count + r] = word_of(first, r, [&](int k) {
        return labels_of_word[k] == label && compute::rotated_overlap(others, k, frame, A(1)) > static_cast<A>(threshold);
    });
}

}  // namespace opbridge::device
