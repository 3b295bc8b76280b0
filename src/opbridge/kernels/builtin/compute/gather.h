// Numbers at places known only when a kernel runs, a vector at a time: the processor's own instructions, which compilers do not choose by
// themselves, and loops elsewhere.
#pragma once

#include <cstdint>
#include <type_traits>

#include "simd.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // how vectors are returned: everything here is inlined
#endif

namespace opbridge::compute {

// As many int32_t as a vector of A has numbers.
template <class A, int Bytes>
using PlacesOf = VectorOf<int32_t, Bytes / static_cast<int>(sizeof(A)) * 4>;

// values[i] = from[places[i]], and 0 where places[i] is negative.
template <int Bytes, class T, class A>
OPBRIDGE_INLINE void gather(const T* from, const PlacesOf<A, Bytes>& places, VectorOf<A, Bytes>& values) {
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
    if constexpr (Bytes == 64 && std::is_same_v<T, float> && std::is_same_v<A, float>) {
        const PlacesOf<A, Bytes> outside = places < 0;
        const uint16_t mask = static_cast<uint16_t>(~__builtin_ia32_cvtd2mask512(outside));
        const VectorOf<A, Bytes> zeros = {};
        values = __builtin_ia32_gathersiv16sf(zeros, from, places, static_cast<short>(mask), 4);
        return;
    } else if constexpr (Bytes == 64 && std::is_same_v<T, double> && std::is_same_v<A, double>) {
        const PlacesOf<A, Bytes> outside = places < 0;
        const uint8_t mask = static_cast<uint8_t>(~__builtin_ia32_cvtd2mask256(outside));
        const VectorOf<A, Bytes> zeros = {};
        values = __builtin_ia32_gathersiv8df(zeros, from, places, static_cast<char>(mask), 8);
        return;
    } else if constexpr (Bytes == 32 && std::is_same_v<T, float> && std::is_same_v<A, float>) {
        const PlacesOf<A, Bytes> inside = places >= 0;
        VectorOf<A, Bytes> mask;
        __builtin_memcpy(&mask, &inside, sizeof mask);
        const VectorOf<A, Bytes> zeros = {};
        values = __builtin_ia32_gathersiv8sf(zeros, from, places, mask, 4);
        return;
    }
#endif
    constexpr int lanes = Bytes / static_cast<int>(sizeof(A));
    int32_t index[lanes];
    A numbers[lanes];
    store(places, index);
    for (int i = 0; i < lanes; ++i) numbers[i] = index[i] < 0 ? A(0) : static_cast<A>(from[index[i]]);
    load(values, numbers);
}

}  // namespace opbridge::compute

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
