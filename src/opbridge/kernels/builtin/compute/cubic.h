// Cubic convolution with the coefficient -0.75, which PyTorch's bicubic interpolation has.
#pragma once

#include "both.h"

namespace opbridge::compute {

// The weights of the pixels at -1, 0, 1 and 2 for a place t in [0, 1) beyond pixel 0.
template <class A>
OPBRIDGE_INLINE void cubic_weights(A t, A* weights) {
    constexpr A a = A(-0.75);
    const A rest = 1 - t;
    const A before = t + 1, after = rest + 1;
    weights[0] = ((a * before - 5 * a) * before + 8 * a) * before - 4 * a;
    weights[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    weights[2] = ((a + 2) * rest - (a + 3)) * rest * rest + 1;
    weights[3] = ((a * after - 5 * a) * after + 8 * a) * after - 4 * a;
}

}  // namespace opbridge::compute
