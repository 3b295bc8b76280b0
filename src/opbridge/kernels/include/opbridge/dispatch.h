// Functions compiled for several generations of x86-64 processors; the library selects the version for the current processor.
//
// -DOPBRIDGE_VECTOR_BYTES=16 (or 32) excludes the versions with wider vectors.
#pragma once

#include <type_traits>

#include "platform.h"

#ifndef OPBRIDGE_VECTOR_BYTES
#define OPBRIDGE_VECTOR_BYTES 64
#endif

#if defined(__GNUC__) && defined(__x86_64__)
#define OPBRIDGE_HAS_VERSIONS 1
#define OPBRIDGE_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define OPBRIDGE_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define OPBRIDGE_FLATTEN __attribute__((flatten))
#endif

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

template <int bytes>
using VectorBytes = std::integral_constant<int, bytes>;

#ifdef OPBRIDGE_HAS_VERSIONS
// The vector width of this processor in bytes: 64 with AVX-512, 32 with AVX2 and FMA, 16 on any x86-64.
inline int vector_bytes() {
    static const int bytes = [] {
        __builtin_cpu_init();
        const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
        const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl");
        const int widest = avx2 && avx512 ? 64 : avx2 ? 32 : 16;
        return widest < OPBRIDGE_VECTOR_BYTES ? widest : OPBRIDGE_VECTOR_BYTES;
    }();
    return bytes;
}

// The versions of a body that inlines by itself what is to be compiled for the processor.
struct Versions {
    template <class Body>
    OPBRIDGE_TARGET_AVX2 static void avx2(const Body& body) {
        body(VectorBytes<32>());
    }
    template <class Body>
    OPBRIDGE_TARGET_AVX512 static void avx512(const Body& body) {
        body(VectorBytes<64>());
    }
};

// The versions of a body into which everything that it calls is inlined.
struct FlattenedVersions {
    template <class Body>
    OPBRIDGE_TARGET_AVX2 OPBRIDGE_FLATTEN static void avx2(const Body& body) {
        body(VectorBytes<32>());
    }
    template <class Body>
    OPBRIDGE_TARGET_AVX512 OPBRIDGE_FLATTEN static void avx512(const Body& body) {
        body(VectorBytes<64>());
    }
};

// Calls body(VectorBytes<n>) in the version for this processor.
template <class Versions, class Body>
void dispatch(const Body& body) {
    switch (vector_bytes()) {
        case 64: return Versions::avx512(body);
        case 32: return Versions::avx2(body);
        default: return body(VectorBytes<16>());
    }
}
#else
inline int vector_bytes() { return 16; }

struct Versions {};
struct FlattenedVersions {};

template <class Versions, class Body>
void dispatch(const Body& body) {
    body(VectorBytes<16>());
}
#endif

// Calls `body`, a kernel or a part of one, in the version for this processor. A kernel's file that uses `dispatch` itself defines
// OPBRIDGE_ONE_VERSION before it includes this; without optimisation nothing is inlined, and one version is as good as another.
template <class Body>
void run_kernel(const Body& body) {
#if defined(OPBRIDGE_HAS_VERSIONS) && defined(__OPTIMIZE__) && !defined(OPBRIDGE_ONE_VERSION)
    dispatch<FlattenedVersions>([&](auto) { body(); });
#else
    body();
#endif
}

}  // namespace detail
}  // namespace opbridge
