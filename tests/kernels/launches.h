// What the two sides of launches share.
#pragma once

#ifdef OPBRIDGE_ON_DEVICE
#include <opbridge/device.h>
#else
#include <opbridge/kernel.h>
#endif

struct Range {
    float low, high;
};

// A function of an element at an index that nobody has checked.
template <class T>
void pick(int64_t i, opbridge::View<const T> x, opbridge::View<const int64_t> index, opbridge::View<T> y) {
    y[i] = x[index[i]];
}
