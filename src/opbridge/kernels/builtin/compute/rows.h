// Rows of numbers on their way into and out of a computation: converted, padded with zeros, in memory aligned for vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

#include "simd.h"
#include "sizes.h"

namespace opbridge::compute {

// Memory for `count` numbers, aligned to a cache line; what is in it at first is not said.
template <class T>
class Buffer {
  public:
    explicit Buffer(int64_t count) : data_(static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), std::align_val_t(64)))) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { ::operator delete(data_, std::align_val_t(64)); }

    T* data() const { return data_; }
    operator T*() const { return data_; }

  private:
    T* data_;
};

template <class From, class To>
OPBRIDGE_INLINE void convert(const From* OPBRIDGE_RESTRICT from, To* OPBRIDGE_RESTRICT to, int64_t count) {
    if constexpr (std::is_same_v<From, To>) {
        if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(To));
    } else {
        for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
    }
}

template <class T>
OPBRIDGE_INLINE void fill(T* to, int64_t count, T value) {
    for (int64_t i = 0; i < count; ++i) to[i] = value;
}

// `count` numbers of a row of `size`, beginning at `start`, which may lie outside of it; zeros where the row has none.
template <class From, class To>
OPBRIDGE_INLINE void window(const From* row, int64_t size, int64_t start, int64_t count, To* to) {
    const int64_t begin = std::clamp(-start, int64_t{0}, count);
    const int64_t end = std::clamp(size - start, begin, count);
    fill(to, begin, To(0));
    if (end > begin) convert(row + start + begin, to + begin, end - begin);
    fill(to + end, count - end, To(0));
}

}  // namespace opbridge::compute
