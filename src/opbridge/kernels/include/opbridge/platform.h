// What differs between compilers: visibility, and functions compiled once for each generation of a processor.
#pragma once

// Everything but the entry points stays inside the library, so that two libraries in one process share nothing.
#if defined(__GNUC__)
#define OPBRIDGE_HIDDEN __attribute__((visibility("hidden")))
#define OPBRIDGE_ENTRY __attribute__((visibility("default"), weak, used))
#else
#define OPBRIDGE_HIDDEN
#define OPBRIDGE_ENTRY __declspec(dllexport) inline
#endif

// Marks the functions of the adapters, which stand between kernels and runtimes and depend on no kernel: `opbridge build` compiles them
// once, as adapter.cpp, and defines OPBRIDGE_SEPARATE_ADAPTER; a file that is compiled by itself contains them.
#ifdef OPBRIDGE_SEPARATE_ADAPTER
#define OPBRIDGE_ADAPTER
#else
#define OPBRIDGE_ADAPTER inline
#endif

// A kernel, with all that it calls inlined, is compiled for the oldest x86-64, for AVX2 with FMA, and for AVX-512; the library takes the
// one that fits the processor that it runs on. A kernel that chooses by itself defines OPBRIDGE_ONE_VERSION before it includes this.
#if defined(__GNUC__) && defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(OPBRIDGE_ONE_VERSION)
#define OPBRIDGE_VERSIONS 1
#define OPBRIDGE_FOR_AVX2 __attribute__((target("avx2,fma,f16c"), flatten))
#define OPBRIDGE_FOR_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"), flatten))
#endif

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

#ifdef OPBRIDGE_VERSIONS
// 0: any x86-64, 1: AVX2 and FMA, 2: AVX-512 as well.
inline int processor() {
    static const int found = [] {
        __builtin_cpu_init();
        if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return 0;
        const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
        return wide ? 2 : 1;
    }();
    return found;
}

template <class Body>
void run_anywhere(const Body& body) {
    body();
}

template <class Body>
OPBRIDGE_FOR_AVX2 void run_with_avx2(const Body& body) {
    body();
}

template <class Body>
OPBRIDGE_FOR_AVX512 void run_with_avx512(const Body& body) {
    body();
}

// Calls `body` in the version for this processor.
template <class Body>
void in_best_version(const Body& body) {
    switch (processor()) {
        case 2: return run_with_avx512(body);
        case 1: return run_with_avx2(body);
        default: return run_anywhere(body);
    }
}
#else
template <class Body>
void in_best_version(const Body& body) {
    body();
}
#endif

}  // namespace detail
}  // namespace opbridge
