// Vectors whose width is chosen when the program runs, so that one library is fast on every processor.
//
// A computation is a struct with a member `template <int Bytes> void run() const`, marked OPBRIDGE_INLINE like all that it calls.
// `at_full_width(computation)` calls `run<64>` on a processor with AVX-512, `run<32>` with AVX2 and FMA, and `run<16>` anywhere else;
// being inlined into a function for that processor, it is compiled for it (see opbridge/dispatch.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <opbridge/dispatch.h>

#if defined(__GNUC__)
#define OPBRIDGE_INLINE inline __attribute__((always_inline))
#define OPBRIDGE_RESTRICT __restrict__
#else
#define OPBRIDGE_INLINE inline
#define OPBRIDGE_RESTRICT
#endif

// Keeps a function out of those that are compiled for a wider processor, which would fuse its multiplications and additions: where a
// rounding decides on something, such as how many samples there are, it has to be everyone's.
#if defined(__GNUC__)
#define OPBRIDGE_UNFUSED __attribute__((noinline))
#else
#define OPBRIDGE_UNFUSED
#endif

// Unrolls the loop that follows, so that an array of vectors that it indexes lives in registers.
#if defined(__clang__)
#define OPBRIDGE_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define OPBRIDGE_UNROLL _Pragma("GCC unroll 16")
#else
#define OPBRIDGE_UNROLL
#endif

namespace opbridge::compute {

#if defined(__GNUC__)
// `type` is a vector of Bytes / sizeof(T) numbers with the operators of its numbers.
template <class T, int Bytes>
struct Vector {
    typedef T type __attribute__((vector_size(Bytes)));
};
#else
// What the compilers without vector types get: an array, whose loops they may vectorise.
template <class T, int Bytes>
struct Vector {
    struct type {
        T lanes[Bytes / sizeof(T)];
        type operator+(const type& other) const {
            return each(other, [](T a, T b) { return a + b; });
        }
        type operator*(const type& other) const {
            return each(other, [](T a, T b) { return a * b; });
        }
        type operator*(T factor) const {
            return each(*this, [factor](T a, T) { return a * factor; });
        }
        type& operator+=(const type& other) { return *this = *this + other; }

        template <class Function>
        type each(const type& other, Function function) const {
            type result;
            for (size_t i = 0; i < Bytes / sizeof(T); ++i) result.lanes[i] = function(lanes[i], other.lanes[i]);
            return result;
        }
    };
};
#endif

template <class T, int Bytes>
using VectorOf = typename Vector<T, Bytes>::type;

// Vectors go by reference: how they are passed by value depends on the processor compiled for.
template <class V, class T>
OPBRIDGE_INLINE void load(V& vector, const T* from) {
    std::memcpy(&vector, from, sizeof(V));
}

template <class V, class T>
OPBRIDGE_INLINE void store(const V& vector, T* to) {
    std::memcpy(to, &vector, sizeof(V));
}

using detail::vector_bytes;

template <class Computation>
struct RunAtWidth {
    const Computation& computation;

    template <int Bytes>
    OPBRIDGE_INLINE void operator()(detail::VectorBytes<Bytes>) const {
        computation.template run<Bytes>();
    }
};

template <class Computation>
void at_full_width(const Computation& computation) {
    detail::dispatch<detail::Versions>(RunAtWidth<Computation>{computation});
}

}  // namespace opbridge::compute
