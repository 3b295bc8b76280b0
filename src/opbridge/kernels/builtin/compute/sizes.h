// Shape and attributes that come from outside, checked before anything is computed from them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>

namespace opbridge::compute {

// The sizes of a tensor, read where its owner keeps them.
struct Shape {
    const int64_t* sizes;
    int64_t rank;

    int64_t operator[](int64_t axis) const { return sizes[axis]; }
    const int64_t* begin() const { return sizes; }
    const int64_t* end() const { return sizes + rank; }
};

// The sizes that a shape function is given, where all of them are known.
class KnownSizes {
  public:
    template <class Given>
    bool set(const Given& given) {
        if (given.rank() > largest_rank) return false;
        rank_ = 0;
        for (const auto& dim : given) {
            if (!dim.is_known()) return false;
            sizes_[rank_++] = dim.known;
        }
        return true;
    }
    Shape shape() const { return {sizes_, rank_}; }

  private:
    static constexpr int64_t largest_rank = 8;
    int64_t sizes_[largest_rank];
    int64_t rank_ = 0;
};

inline std::string text(const int64_t* begin, const int64_t* end) {
    std::string result = "(";
    for (const int64_t* size = begin; size != end; ++size) {
        if (size != begin) result += ", ";
        result += std::to_string(*size);
    }
    return result + ")";
}

[[noreturn]] inline void refuse(const std::string& words) { throw std::invalid_argument(words); }

// The product of sizes; throws where one is negative or the product of those that are not zero leaves int64_t, so that the product of
// any subset of them fits too.
inline int64_t product(const int64_t* begin, const int64_t* end, const char* what) {
    int64_t result = 1;
    bool empty = false;
    for (const int64_t* size = begin; size != end; ++size) {
        if (*size < 0) refuse(std::string(what) + " has a negative size: " + text(begin, end));
        if (*size == 0) {
            empty = true;
        } else if (result > std::numeric_limits<int64_t>::max() / 8 / *size) {  // 8: a size in bytes fits as well
            refuse(std::string(what) + " exceeds the maximum memory size: " + text(begin, end));
        } else {
            result *= *size;
        }
    }
    return empty ? 0 : result;
}

inline int64_t product(std::initializer_list<int64_t> sizes, const char* what) { return product(sizes.begin(), sizes.end(), what); }

inline void require_rank(Shape shape, int64_t rank, const char* what, const char* axes) {
    if (shape.rank != rank) {
        refuse(std::string(what) + " must be " + axes + ", but has " + std::to_string(shape.rank) +
               " dimensions: " + text(shape.begin(), shape.end()));
    }
    product(shape.begin(), shape.end(), what);
}

inline void require_shape(Shape shape, std::initializer_list<int64_t> expected, const char* what, const char* axes) {
    require_rank(shape, static_cast<int64_t>(expected.size()), what, axes);
    for (int64_t axis = 0; axis < shape.rank; ++axis) {
        if (shape[axis] != expected.begin()[axis]) {
            refuse(std::string(what) + " must be " + axes + " = " + text(expected.begin(), expected.end()) + ", but is " +
                   text(shape.begin(), shape.end()));
        }
    }
}

// An attribute between bounds. What is multiplied with sizes stays below 2^31, so that no such product leaves int64_t.
inline void require_between(int64_t value, int64_t low, int64_t high, const char* what) {
    if (value < low || value > high) {
        refuse(std::string(what) + " must be between " + std::to_string(low) + " and " + std::to_string(high) + ", but is " +
               std::to_string(value));
    }
}

constexpr int64_t largest_attribute = (int64_t{1} << 31) - 1;

// How many of equal items are worth a thread: such as take a few microseconds.
inline int64_t grain_for(int64_t operations_each) {
    constexpr int64_t worth = 1 << 16;
    return operations_each >= worth ? 1 : worth / (operations_each < 1 ? 1 : operations_each);
}

inline int64_t ceil_divide(int64_t count, int64_t size) { return count / size + (count % size != 0); }
inline int64_t round_up(int64_t count, int64_t size) { return ceil_divide(count, size) * size; }

}  // namespace opbridge::compute
