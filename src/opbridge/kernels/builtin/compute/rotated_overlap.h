// Overlap of rotated boxes (centre x, centre y, width, height, angle in radians), as mmcv's box_iou_rotated defines it: a positive angle
// turns clockwise as seen on a screen, where y grows downwards, or the other way with clockwise = false. The overlap is the area of the
// intersection over that of the union (iou) or over that of the first box (iof), and 0 where a box has an area below 1e-14.
//
// In the frame of one box the other is a polygon, and the intersection's area is the integral along the polygon's edges of
// clamp(y, -h/2, h/2) dx, for x in [-w/2, w/2]: a sum over four edges, continuous in all of its arguments and without a branch.
#pragma once

#include <opbridge/types.h>

#include "both.h"

namespace opbridge::compute {

constexpr int64_t rotated_fields = 8;

// Boxes as arrays of numbers: centre, half an edge along the width and one along the height, area. `poison` is 0, or not a number where
// one of the box's numbers is infinite or not a number.
template <class A>
struct RotatedBoxes {
    const A *x, *y, *wx, *wy, *hx, *hy, *area, *poison;
};

template <class A>
RotatedBoxes<A> rotated_boxes_at(const A* fields, int64_t stride) {
    return {fields,
            fields + stride,
            fields + 2 * stride,
            fields + 3 * stride,
            fields + 4 * stride,
            fields + 5 * stride,
            fields + 6 * stride,
            fields + 7 * stride};
}

template <class T, class A>
void prepare_rotated_box(const T* box, bool clockwise, A* fields, int64_t stride) {
    const A x = static_cast<A>(box[0]), y = static_cast<A>(box[1]), w = static_cast<A>(box[2]), h = static_cast<A>(box[3]);
    const double angle = clockwise ? static_cast<double>(box[4]) : -static_cast<double>(box[4]);
    const A cosine = static_cast<A>(both::cos(angle)), sine = static_cast<A>(both::sin(angle));
    const A values[rotated_fields] = {
        x, y, cosine * w / 2, sine * w / 2, -sine * h / 2, cosine * h / 2, w * h, (x - x) + (y - y) + (w - w) + (h - h) + (sine - sine)};
    for (int64_t f = 0; f < rotated_fields; ++f) fields[f * stride] = values[f];
}

// One box, in whose frame others are seen.
template <class A>
struct RotatedFrame {
    A x, y, cosine, sine, half_width, half_height, area, poison;

    RotatedFrame() = default;

    template <class T>
    RotatedFrame(const T* box, bool clockwise) {
        A fields[rotated_fields];
        prepare_rotated_box(box, clockwise, fields, 1);
        const double angle = clockwise ? static_cast<double>(box[4]) : -static_cast<double>(box[4]);
        x = fields[0];
        y = fields[1];
        cosine = static_cast<A>(both::cos(angle));
        sine = static_cast<A>(both::sin(angle));
        half_width = both::abs(static_cast<A>(box[2])) / 2;
        half_height = both::abs(static_cast<A>(box[3])) / 2;
        area = fields[6];
        poison = fields[7];
    }
};

namespace rotated_boxes_detail {

template <class A>
OPBRIDGE_INLINE A clamp(A x, A bound) {
    x = x < bound ? x : bound;
    return x > -bound ? x : -bound;
}

template <class A>
OPBRIDGE_INLINE A unit(A x) {
    x = x < A(1) ? x : A(1);
    return x > A(0) ? x : A(0);
}

// The integral of clamp(y, -height, height) dx along the part of an edge from (x0, y0) to (x1, y1) where |x| <= width.
template <class A>
OPBRIDGE_INLINE A along_edge(A x0, A y0, A x1, A y1, A width, A height) {
    const A dx = x1 - x0, dy = y1 - y0;
    const A left = clamp(x0, width), right = clamp(x1, width);
    // Where the edge is almost upright its part is almost nothing, whatever y is.
    const A slope = dy / (dx == A(0) ? A(1) : dx);
    const A low = both::min(y0, y1), high = both::max(y0, y1);
    A ya = y0 + (left - x0) * slope, yb = y0 + (right - x0) * slope;
    ya = both::max(low, both::min(high, ya));
    yb = both::max(low, both::min(high, yb));
    // Between the shares t0 and t1 of the part y is inside; before and after it is clamped.
    const A rise = yb - ya;
    const A safe = rise == A(0) ? A(1) : rise;
    const A at_low = unit((-height - ya) / safe), at_high = unit((height - ya) / safe);
    const A t0 = both::min(at_low, at_high), t1 = both::max(at_low, at_high);
    const A ca = clamp(ya, height), cb = clamp(yb, height);
    return (right - left) * (ca * (t0 + t1) + cb * (2 - t0 - t1)) / 2;
}

}  // namespace rotated_boxes_detail

// The overlap of `frame`, as the first box, with box i of `boxes`: iou with a union_share of 1, iof with 0. (A choice between them would
// keep the loop from being vectorised.)
template <class A>
OPBRIDGE_INLINE A rotated_overlap(const RotatedBoxes<A>& boxes, int64_t i, const RotatedFrame<A>& frame, A union_share) {
    using rotated_boxes_detail::along_edge;
    const A dx = boxes.x[i] - frame.x, dy = boxes.y[i] - frame.y;
    const A x = dx * frame.cosine + dy * frame.sine, y = dy * frame.cosine - dx * frame.sine;
    const A wx = boxes.wx[i] * frame.cosine + boxes.wy[i] * frame.sine, wy = boxes.wy[i] * frame.cosine - boxes.wx[i] * frame.sine;
    const A hx = boxes.hx[i] * frame.cosine + boxes.hy[i] * frame.sine, hy = boxes.hy[i] * frame.cosine - boxes.hx[i] * frame.sine;
    const A xs[4] = {x - wx - hx, x + wx - hx, x + wx + hx, x - wx + hx};
    const A ys[4] = {y - wy - hy, y + wy - hy, y + wy + hy, y - wy + hy};
    const A width = frame.half_width, height = frame.half_height;
    const A integral = along_edge(xs[0], ys[0], xs[1], ys[1], width, height) + along_edge(xs[1], ys[1], xs[2], ys[2], width, height) +
                       along_edge(xs[2], ys[2], xs[3], ys[3], width, height) + along_edge(xs[3], ys[3], xs[0], ys[0], width, height);
    const A first = frame.area, second = boxes.area[i];
    const A smaller = both::min(first, second);
    const A shared = both::min(integral < A(0) ? -integral : integral, smaller);
    const A base = first + (second - shared) * union_share;
    const A ratio = shared / (base == A(0) ? A(1) : base);
    const A overlap = smaller < A(1e-14) ? A(0) : ratio;
    return overlap + (boxes.poison[i] + frame.poison);
}

}  // namespace opbridge::compute
