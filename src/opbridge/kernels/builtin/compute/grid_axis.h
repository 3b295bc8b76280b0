// Where a point of grid_sample's grid falls along one axis of an image: see grid_points.h.
#pragma once

#include "both.h"

namespace opbridge::compute {

enum class Interpolation : int64_t { linear = 0, nearest = 1, cubic = 2 };
enum class Padding : int64_t { zeros = 0, border = 1, reflection = 2 };

namespace grid_sample_detail {

constexpr int32_t none = -(int32_t{1} << 29);  // where there is no pixel: negative, whatever two others are added to it

// A coordinate between the first and the last pixel. Which of them "not a number" becomes differs between torch's kernels.
template <int Dims, class A>
OPBRIDGE_INLINE A clip(A x, A last) {
    if constexpr (Dims == 2) {
        x = x > A(0) ? x : A(0);
    } else {
        x = x < A(0) ? A(0) : x;
    }
    return x < last ? x : last;
}

// Sampling along one axis. Choices that all points share are numbers here: a choice in a loop would keep it from being vectorised.
template <class A>
struct AxisOf {
    A last;            // the last pixel
    A scale, offset;   // a coordinate g is pixel (g + 1) * scale - offset
    A low, period;     // reflection: mirrors at low and low + period / 2
    A per_period;
    int32_t stride;    // from one pixel to the next

    AxisOf(int64_t size, int64_t stride, bool align_corners)
        : last(at_most(size - 1)),
          scale(static_cast<A>(align_corners ? size - 1 : size) / 2),
          offset(align_corners ? A(0) : A(0.5)),
          low(-offset),
          period(2 * both::max(A(1), static_cast<A>(align_corners ? size - 1 : size))),  // clipping makes up for a period of 0
          per_period(1 / period),
          stride(static_cast<int32_t>(stride)) {}

    template <int Dims, Padding How>
    OPBRIDGE_INLINE A padded(A x) const {
        if constexpr (How == Padding::border) return clip<Dims>(x, last);
        if constexpr (How == Padding::reflection) return clip<Dims>(reflected(x), last);
        return x;
    }

    // Mirrored at the edges (the centres of the edge pixels where corners are aligned) until it lies between them: a wave of triangles.
    OPBRIDGE_INLINE A reflected(A x) const {
        const A distance = both::abs(x - low);
        const A up = distance - both::floor(distance * per_period) * period;
        const A down = period - up;
        return low + (up < down ? up : down);
    }

    // Where the pixel begins, or `none`. Only padding with zeros leaves coordinates outside.
    template <Padding How>
    OPBRIDGE_INLINE int32_t place(A x) const {
        return How == Padding::zeros ? inside(x) : static_cast<int32_t>(x) * stride;
    }

    // The same for a pixel and the one behind it.
    template <Padding How>
    OPBRIDGE_INLINE void places(A low, int32_t& first, int32_t& second) const {
        first = place<How>(low);
        if constexpr (How == Padding::zeros) second = inside(low + 1);
        else second = low < last ? first + stride : none;
    }

  private:
    // The nearest number that is not above: from 2^24 on a float may be.
    static A at_most(int64_t value) {
        const A found = static_cast<A>(value);
        return static_cast<int64_t>(found) > value ? both::nextafter(found, A(0)) : found;
    }

    OPBRIDGE_INLINE int32_t inside(A x) const {
        const A above = x >= A(0) ? x : A(-1);
        const int32_t index = static_cast<int32_t>(above <= last ? above : A(-1));
        return index < 0 ? none : index * stride;
    }
};

template <Interpolation Mode>
constexpr int axis_taps = Mode == Interpolation::nearest  ? 1
                          : Mode == Interpolation::linear ? 2
                                                          : 4;

}  // namespace grid_sample_detail
}  // namespace opbridge::compute
