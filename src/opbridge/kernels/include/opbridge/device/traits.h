// What is asked about types, on the CPU from <type_traits>, and on a GPU from here: the device compiler has no standard library.
#pragma once

#ifndef __CUDACC_RTC__
#include <cstdint>
#include <type_traits>

namespace opbridge {
namespace detail {

using std::conditional_t;
using std::enable_if_t;
using std::is_arithmetic_v;
using std::is_const_v;
using std::is_floating_point_v;
using std::is_integral_v;
using std::is_same_v;
using std::is_signed_v;
using std::remove_cv_t;
using std::remove_reference_t;

}  // namespace detail
}  // namespace opbridge

#else

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

namespace opbridge {
namespace detail {

template <bool condition, class A, class B>
struct Conditional {
    using type = A;
};
template <class A, class B>
struct Conditional<false, A, B> {
    using type = B;
};
template <bool condition, class A, class B>
using conditional_t = typename Conditional<condition, A, B>::type;

template <bool condition, class T = void>
struct EnableIf {};
template <class T>
struct EnableIf<true, T> {
    using type = T;
};
template <bool condition, class T = void>
using enable_if_t = typename EnableIf<condition, T>::type;

template <class T>
struct RemoveCv {
    using type = T;
};
template <class T>
struct RemoveCv<const T> {
    using type = T;
};
template <class T>
struct RemoveCv<volatile T> {
    using type = T;
};
template <class T>
struct RemoveCv<const volatile T> {
    using type = T;
};
template <class T>
using remove_cv_t = typename RemoveCv<T>::type;

template <class T>
struct RemoveReference {
    using type = T;
};
template <class T>
struct RemoveReference<T&> {
    using type = T;
};
template <class T>
struct RemoveReference<T&&> {
    using type = T;
};
template <class T>
using remove_reference_t = typename RemoveReference<T>::type;

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;

template <class T>
inline constexpr bool is_const_v = false;
template <class T>
inline constexpr bool is_const_v<const T> = true;

template <class T, class... U>
inline constexpr bool is_one_of_v = (is_same_v<remove_cv_t<T>, U> || ...);

template <class T>
inline constexpr bool is_floating_point_v = is_one_of_v<T, float, double>;
template <class T>
inline constexpr bool is_integral_v = is_one_of_v<T, bool, char, signed char, unsigned char, short, unsigned short, int, unsigned int, long,
                                                  unsigned long, long long, unsigned long long>;
template <class T>
inline constexpr bool is_arithmetic_v = is_floating_point_v<T> || is_integral_v<T>;
template <class T, bool = is_arithmetic_v<T> >
inline constexpr bool is_signed_v = T(-1) < T(0);
template <class T>
inline constexpr bool is_signed_v<T, false> = false;

}  // namespace detail
}  // namespace opbridge
#endif
