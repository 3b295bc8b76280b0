// Dim, Shape, Shapes: the types of shape functions.
//
// A Dim is a number when an operator runs. During a capture it may represent a size that is not known yet; the same arithmetic
// then builds an expression, and a comparison becomes a condition of the capture, as in Python. Divisions round down; a result that
// exceeds int64_t throws.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "platform.h"

namespace opbridge OPBRIDGE_HIDDEN {

struct Dim;

namespace detail {

enum class Operation : int32_t { add, subtract, multiply, divide, modulo, minimum, maximum, equal, less, number };

OPBRIDGE_ADAPTER Dim apply(Operation operation, const Dim& left, const Dim& right);
OPBRIDGE_ADAPTER Dim computed();
[[noreturn]] OPBRIDGE_ADAPTER void throw_no_such_axis(int64_t axis, int64_t rank);

}  // namespace detail

struct Dim {
    int64_t known = 0;    // its value, where `symbol` is 0
    int64_t symbol = 0;   // positive: a size that is not known yet; negative: a size that only the kernel can compute

    Dim() = default;
    template <class N, std::enable_if_t<std::is_integral_v<N>, int> = 0>
    Dim(N value) : known(static_cast<int64_t>(value)) {}

    // A size that only the kernel can compute, such as the number of selected boxes. Copies of one such Dim are the same size.
    static Dim computed();

    bool is_known() const { return symbol == 0; }
    bool is_computed() const { return symbol < 0; }

    // The number; a capture is then valid for this size alone.
    int64_t value() const { return is_known() ? known : detail::apply(detail::Operation::number, *this, 0).known; }

    Dim& operator+=(const Dim& other) { return *this = detail::apply(detail::Operation::add, *this, other); }
    Dim& operator-=(const Dim& other) { return *this = detail::apply(detail::Operation::subtract, *this, other); }
    Dim& operator*=(const Dim& other) { return *this = detail::apply(detail::Operation::multiply, *this, other); }
    Dim& operator/=(const Dim& other) { return *this = detail::apply(detail::Operation::divide, *this, other); }

    friend Dim operator+(const Dim& a, const Dim& b) { return detail::apply(detail::Operation::add, a, b); }
    friend Dim operator-(const Dim& a, const Dim& b) { return detail::apply(detail::Operation::subtract, a, b); }
    friend Dim operator*(const Dim& a, const Dim& b) { return detail::apply(detail::Operation::multiply, a, b); }
    friend Dim operator/(const Dim& a, const Dim& b) { return detail::apply(detail::Operation::divide, a, b); }
    friend Dim operator%(const Dim& a, const Dim& b) { return detail::apply(detail::Operation::modulo, a, b); }
    friend Dim operator-(const Dim& a) { return Dim(0) - a; }
    friend Dim min(const Dim& a, const Dim& b) { return detail::apply(detail::Operation::minimum, a, b); }
    friend Dim max(const Dim& a, const Dim& b) { return detail::apply(detail::Operation::maximum, a, b); }
    friend bool operator==(const Dim& a, const Dim& b) { return detail::apply(detail::Operation::equal, a, b).known != 0; }
    friend bool operator<(const Dim& a, const Dim& b) { return detail::apply(detail::Operation::less, a, b).known != 0; }
    friend bool operator!=(const Dim& a, const Dim& b) { return !(a == b); }
    friend bool operator>(const Dim& a, const Dim& b) { return b < a; }
    friend bool operator<=(const Dim& a, const Dim& b) { return !(b < a); }
    friend bool operator>=(const Dim& a, const Dim& b) { return !(a < b); }
};

inline Dim Dim::computed() { return detail::computed(); }

// The sizes of a tensor.
class Shape {
  public:
    Shape() = default;
    Shape(std::initializer_list<Dim> dims) : Shape(dims.begin(), static_cast<int64_t>(dims.size())) {}
    explicit Shape(const std::vector<Dim>& dims) : Shape(dims.data(), static_cast<int64_t>(dims.size())) {}

    template <class Size>
    Shape(const Size* sizes, int64_t rank) {
        for (int64_t axis = 0; axis < rank; ++axis) push_back(sizes[axis]);
    }

    int64_t rank() const { return rank_; }

    // The size along an axis; -1 is the last one.
    const Dim& operator[](int64_t axis) const { return begin()[index_of(axis)]; }
    Dim& operator[](int64_t axis) { return const_cast<Dim&>(begin()[index_of(axis)]); }

    void push_back(const Dim& dim) {
        if (rank_ == inline_capacity) heap_dims_.assign(inline_dims_, inline_dims_ + inline_capacity);
        if (rank_ < inline_capacity) inline_dims_[rank_] = dim;
        else heap_dims_.push_back(dim);
        ++rank_;
    }

    const Dim* begin() const { return rank_ <= inline_capacity ? inline_dims_ : heap_dims_.data(); }
    const Dim* end() const { return begin() + rank_; }

    friend bool operator==(const Shape& a, const Shape& b) {
        if (a.rank() != b.rank()) return false;
        for (int64_t axis = 0; axis < a.rank(); ++axis) {
            if (a[axis] != b[axis]) return false;
        }
        return true;
    }
    friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

  private:
    size_t index_of(int64_t axis) const {
        const int64_t found = axis < 0 ? axis + rank() : axis;
        if (found < 0 || found >= rank()) detail::throw_no_such_axis(axis, rank());
        return static_cast<size_t>(found);
    }

    // A heap allocation would dominate the time of a call of a small operator.
    static constexpr int64_t inline_capacity = 6;
    int64_t rank_ = 0;
    Dim inline_dims_[inline_capacity];
    std::vector<Dim> heap_dims_;  // all of them, if there are more
};

// The shapes of an operator's outputs, in order; a single shape for one output.
class Shapes {
  public:
    Shapes(std::initializer_list<Shape> shapes) : shapes_(shapes) {}
    Shapes(const Shape& shape) : shapes_{shape} {}
    explicit Shapes(std::vector<Shape> shapes) : shapes_(std::move(shapes)) {}

    size_t size() const { return shapes_.size(); }
    const Shape& operator[](size_t output) const { return shapes_[output]; }

  private:
    std::vector<Shape> shapes_;
};

OPBRIDGE_ADAPTER std::string to_string(const Shape& shape);

// Throws if a condition on the arguments is false: `require(k > 0, "k must be positive")`.
inline void require(bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
}

}  // namespace opbridge
