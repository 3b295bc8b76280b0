// math: the functions of <cmath> that the CPU and a GPU both have, for float, double, the 16-bit types (in float) and integers (in double).
#pragma once

#include "../types.h"

#ifdef __CUDACC_RTC__
#define OPBRIDGE_OF_LIBRARY(name) ::name
#else
#include <cmath>
#define OPBRIDGE_OF_LIBRARY(name) std::name
#endif

namespace opbridge::math {

// The type that a function of T computes in.
template <class T>
using real_t = detail::conditional_t<is_reduced_v<T>, float, detail::conditional_t<detail::is_integral_v<T>, double, T>>;

#define OPBRIDGE_FUNCTION_OF_ONE(name)                               \
    template <class T>                                               \
    inline real_t<T> name(T x) {                                     \
        return OPBRIDGE_OF_LIBRARY(name)(static_cast<real_t<T>>(x)); \
    }
#define OPBRIDGE_FUNCTION_OF_TWO(name)                                                          \
    template <class T>                                                                          \
    inline real_t<T> name(T x, T y) {                                                           \
        return OPBRIDGE_OF_LIBRARY(name)(static_cast<real_t<T>>(x), static_cast<real_t<T>>(y)); \
    }

OPBRIDGE_FUNCTION_OF_ONE(sqrt)
OPBRIDGE_FUNCTION_OF_ONE(cbrt)
OPBRIDGE_FUNCTION_OF_ONE(exp)
OPBRIDGE_FUNCTION_OF_ONE(exp2)
OPBRIDGE_FUNCTION_OF_ONE(expm1)
OPBRIDGE_FUNCTION_OF_ONE(log)
OPBRIDGE_FUNCTION_OF_ONE(log2)
OPBRIDGE_FUNCTION_OF_ONE(log10)
OPBRIDGE_FUNCTION_OF_ONE(log1p)
OPBRIDGE_FUNCTION_OF_ONE(sin)
OPBRIDGE_FUNCTION_OF_ONE(cos)
OPBRIDGE_FUNCTION_OF_ONE(tan)
OPBRIDGE_FUNCTION_OF_ONE(asin)
OPBRIDGE_FUNCTION_OF_ONE(acos)
OPBRIDGE_FUNCTION_OF_ONE(atan)
OPBRIDGE_FUNCTION_OF_ONE(sinh)
OPBRIDGE_FUNCTION_OF_ONE(cosh)
OPBRIDGE_FUNCTION_OF_ONE(tanh)
OPBRIDGE_FUNCTION_OF_ONE(asinh)
OPBRIDGE_FUNCTION_OF_ONE(acosh)
OPBRIDGE_FUNCTION_OF_ONE(atanh)
OPBRIDGE_FUNCTION_OF_ONE(erf)
OPBRIDGE_FUNCTION_OF_ONE(erfc)
OPBRIDGE_FUNCTION_OF_ONE(lgamma)
OPBRIDGE_FUNCTION_OF_ONE(tgamma)
OPBRIDGE_FUNCTION_OF_ONE(floor)
OPBRIDGE_FUNCTION_OF_ONE(ceil)
OPBRIDGE_FUNCTION_OF_ONE(trunc)
OPBRIDGE_FUNCTION_OF_ONE(round)  // halves away from zero
OPBRIDGE_FUNCTION_OF_ONE(rint)  // halves to even, as torch.round
OPBRIDGE_FUNCTION_OF_TWO(pow)
OPBRIDGE_FUNCTION_OF_TWO(atan2)
OPBRIDGE_FUNCTION_OF_TWO(fmod)
OPBRIDGE_FUNCTION_OF_TWO(hypot)
OPBRIDGE_FUNCTION_OF_TWO(copysign)

template <class T>
inline real_t<T> fma(T x, T y, T z) {
    return OPBRIDGE_OF_LIBRARY(fma)(static_cast<real_t<T>>(x), static_cast<real_t<T>>(y), static_cast<real_t<T>>(z));
}

#undef OPBRIDGE_FUNCTION_OF_ONE
#undef OPBRIDGE_FUNCTION_OF_TWO
#undef OPBRIDGE_OF_LIBRARY

// Of numbers of one type; not a number where one of them is none.
template <class T>
inline T min(T x, T y) {
    return y < x || y != y ? y : x;
}

template <class T>
inline T max(T x, T y) {
    return x < y || y != y ? y : x;
}

template <class T>
inline T clamp(T x, T low, T high) {
    return min(max(x, low), high);
}

template <class T>
inline T abs(T x) {
    return x < T(0) ? T(-x) : x == T(0) ? T(0) : x;
}

template <class T>
inline bool isnan(T x) {
    return x != x;
}

template <class T>
inline bool isinf(T x) {
    return x == x && x - x != x - x;
}

template <class T>
inline bool isfinite(T x) {
    return x - x == x - x;
}

}  // namespace opbridge::math
