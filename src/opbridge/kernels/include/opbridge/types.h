// Half and BFloat16: 16-bit floating-point numbers, converted exactly to float and rounded to nearest even from it.
//
// Arithmetic uses float: they convert to float implicitly, and from a number explicitly or by assignment.
#pragma once

#include "device/traits.h"

#ifndef __CUDACC_RTC__
#include <cstring>
#endif

namespace opbridge {

namespace detail {

#ifdef __CUDACC_RTC__
inline float float_of_bits(uint32_t bits) { return __uint_as_float(bits); }
inline uint32_t bits_of_float(float value) { return __float_as_uint(value); }
#else
inline float float_of_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
#endif

// A double as the float that rounds to the same sixteen-bit number: towards zero, with the lowest bit set where anything was lost
// (round to odd), so that rounding twice gives what rounding once would.
inline float round_to_odd(double value) {
    const float nearest = static_cast<float>(value);
    const double back = nearest;
    if (back == value || value != value) return nearest;
    uint32_t bits = bits_of_float(nearest);
    if ((bits & 0x7fffffffu) == 0x7f800000u) return nearest;  // beyond all floats: infinite in sixteen bits too
    const bool away = value < 0 ? back < value : back > value;
    if (away) --bits;
    return float_of_bits(bits | 1u);
}

}  // namespace detail

// IEEE 754 binary16.
struct Half {
    uint16_t bits;

    Half() = default;
    explicit Half(float value) : bits(from_float(value)) {}
    explicit Half(double value) : bits(from_float(detail::round_to_odd(value))) {}
    template <class N, detail::enable_if_t<detail::is_integral_v<N>, int> = 0>
    explicit Half(N value) : Half(static_cast<double>(value)) {}  // an integer that no double holds is infinite here
    static Half from_bits(uint16_t bits) {
        Half result;
        result.bits = bits;
        return result;
    }

    template <class N, detail::enable_if_t<detail::is_arithmetic_v<N>, int> = 0>
    Half& operator=(N value) {
        return *this = Half(value);
    }

    operator float() const {
#ifdef __CUDACC_RTC__
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
#else
        const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
        const uint32_t rest = static_cast<uint32_t>(bits & 0x7fffu) << 13;
        if (rest >= 0x0f800000u) return detail::float_of_bits(sign | (rest + 0x70000000u));  // infinite or not a number
        // The exponent of a float is 112 more; multiplying by 2^112 normalises the subnormal numbers as well.
        return detail::float_of_bits(sign | detail::bits_of_float(detail::float_of_bits(rest) * 0x1p112f));
#endif
    }

    static uint16_t from_float(float value) {
#ifdef __CUDACC_RTC__
        uint16_t found;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(found) : "f"(value));
        return found;
#else
        const uint32_t all = detail::bits_of_float(value);
        const uint16_t sign = static_cast<uint16_t>((all >> 16) & 0x8000u);
        const uint32_t rest = all & 0x7fffffffu;
        if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
        if (rest >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 2^16 or more
        if (rest < 0x38800000u) {  // below 2^-14: subnormal, in steps of 2^-24, to which adding one half rounds
            const float shifted = detail::float_of_bits(rest) + 0.5f;
            return static_cast<uint16_t>(sign | (detail::bits_of_float(shifted) - 0x3f000000u));
        }
        const uint32_t odd = (rest >> 13) & 1u;
        return static_cast<uint16_t>(sign | ((rest + 0xfffu + odd - 0x38000000u) >> 13));
#endif
    }
};

// The upper half of a float.
struct BFloat16 {
    uint16_t bits;

    BFloat16() = default;
    explicit BFloat16(float value) : bits(from_float(value)) {}
    explicit BFloat16(double value) : bits(from_float(detail::round_to_odd(value))) {}
    template <class N, detail::enable_if_t<detail::is_integral_v<N>, int> = 0>
    explicit BFloat16(N value) : BFloat16(static_cast<double>(value)) {}
    static BFloat16 from_bits(uint16_t bits) {
        BFloat16 result;
        result.bits = bits;
        return result;
    }

    template <class N, detail::enable_if_t<detail::is_arithmetic_v<N>, int> = 0>
    BFloat16& operator=(N value) {
        return *this = BFloat16(value);
    }

    operator float() const { return detail::float_of_bits(static_cast<uint32_t>(bits) << 16); }

    static uint16_t from_float(float value) {
        const uint32_t all = detail::bits_of_float(value);
        if ((all & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((all >> 16) | 0x40u);
        return static_cast<uint16_t>((all + 0x7fffu + ((all >> 16) & 1u)) >> 16);
    }
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2);

template <class T>
inline constexpr bool is_reduced_v = detail::is_same_v<T, Half> || detail::is_same_v<T, BFloat16>;

template <class T>
inline constexpr bool is_floating_v = is_reduced_v<T> || detail::is_floating_point_v<T>;

// The type for sums of T.
template <class T>
using accumulate_t = detail::conditional_t<is_reduced_v<T>, float, detail::conditional_t<detail::is_floating_point_v<T>, T, int64_t>>;

}  // namespace opbridge
