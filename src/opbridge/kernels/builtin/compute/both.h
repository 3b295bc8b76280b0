// What formulas are written with that the CPU and a GPU share: `both::min` and others are std's on the CPU.
#pragma once

#include <opbridge/device/math.h>

#ifndef OPBRIDGE_ON_DEVICE

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd.h"

#else

#define OPBRIDGE_INLINE inline
#ifdef __CUDACC_RTC__
#define OPBRIDGE_UNROLL _Pragma("unroll")
#else
#define OPBRIDGE_UNROLL
#endif

#endif

namespace opbridge::compute::both {

#ifndef OPBRIDGE_ON_DEVICE

using std::abs;
using std::ceil;
using std::cos;
using std::floor;
using std::isfinite;
using std::max;
using std::min;
using std::nearbyint;
using std::nextafter;
using std::sin;

#else

template <class A>
A min(A a, A b) {
    return b < a ? b : a;
}
template <class A>
A max(A a, A b) {
    return a < b ? b : a;
}
template <class A>
A abs(A a) {
    return math::abs(a);
}
template <class A>
A ceil(A a) {
    return math::ceil(a);
}
template <class A>
A floor(A a) {
    return math::floor(a);
}
template <class A>
A nearbyint(A a) {
    return math::rint(a);
}
template <class A>
A cos(A a) {
    return math::cos(a);
}
template <class A>
A sin(A a) {
    return math::sin(a);
}
template <class A>
bool isfinite(A a) {
    return math::isfinite(a);
}
inline float nextafter(float a, float towards) { return ::nextafterf(a, towards); }
inline double nextafter(double a, double towards) { return ::nextafter(a, towards); }

#endif

}  // namespace opbridge::compute::both
