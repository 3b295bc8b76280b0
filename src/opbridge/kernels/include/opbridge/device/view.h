// View<T, rank>: a tensor, as the functions of an element take it; the same on the CPU and on a GPU.
#pragma once

#include "fault.h"
#include "traits.h"

#ifndef OPBRIDGE_ON_DEVICE
#include "../platform.h"
#endif

// On a GPU, a loop over the axes of a view is unrolled where their number is declared; unrolled by default, it is many times as much code.
#ifdef __CUDACC_RTC__
#define OPBRIDGE_UNROLL_DECLARED _Pragma("unroll (Rank < 0 ? 1 : Rank == 0 ? 1 : Rank)")
#else
#define OPBRIDGE_UNROLL_DECLARED
#endif

namespace opbridge {

constexpr int any_rank = -1;

// The largest number of dimensions of a View whose rank is not declared.
constexpr int largest_view_rank = 8;

namespace detail {

#if defined(OPBRIDGE_ON_DEVICE) && defined(OPBRIDGE_CHECK_BOUNDS)
#define OPBRIDGE_INDEX(index, size) \
    if (detail::is_outside(index, size)) return detail::nowhere<T>()
#elif defined(OPBRIDGE_ON_DEVICE)
#define OPBRIDGE_INDEX(index, size)
#else
#define OPBRIDGE_INDEX(index, size) detail::check_bounds(index, size)
[[noreturn]] OPBRIDGE_ADAPTER void throw_out_of_bounds(int64_t index, int64_t size);

// -DOPBRIDGE_CHECK_BOUNDS, which `opbridge build -g` sets: an element outside of a tensor throws.
inline void check_bounds([[maybe_unused]] int64_t index, [[maybe_unused]] int64_t size) {
#ifdef OPBRIDGE_CHECK_BOUNDS
    if (index < 0 || index >= size) throw_out_of_bounds(index, size);
#endif
}
#endif

}  // namespace detail

// One index for each axis of a tensor.
template <int Rank>
struct Index {
    int64_t axes[Rank < 0 ? largest_view_rank : Rank == 0 ? 1 : Rank];

    int64_t operator[](int64_t axis) const { return axes[axis]; }
    int64_t& operator[](int64_t axis) { return axes[axis]; }
};

namespace detail {

// A tensor as a launch passes it: where its elements are, and what View knows of it.
template <class T, int Rank>
struct ViewArgument {
    static constexpr int capacity = Rank < 0 ? largest_view_rank : Rank == 0 ? 1 : Rank;

    T* data = nullptr;
    int64_t rank = 0;
    int64_t count = 0;
    int64_t sizes[capacity] = {};
    int64_t steps[capacity] = {};  // from one element to the next along an axis; zero along one that is broadcast
    bool is_broadcast = false;

    ViewArgument() = default;

    // A tensor of at most `capacity` dimensions in row-major order.
    ViewArgument(T* data, const int64_t* given, int64_t rank) : data(data), rank(rank), count(1) {
        for (int64_t axis = rank; axis-- > 0;) {
            sizes[axis] = given[axis];
            steps[axis] = count;
            count *= given[axis];
        }
    }

    // This tensor, broadcast to a shape that it fits, of at most `capacity` dimensions.
    void broadcast_to(const int64_t* to, int64_t to_rank) {
        const ViewArgument given = *this;
        rank = to_rank;
        count = 1;
        for (int64_t axis = 0; axis < to_rank; ++axis) {
            const int64_t own = axis - (to_rank - given.rank);
            sizes[axis] = to[axis];
            steps[axis] = own < 0 || given.sizes[own] == 1 ? 0 : given.steps[own];
            count *= to[axis];
        }
        is_broadcast = count != given.count;
    }
};

}  // namespace detail

// A tensor in row-major order, or one that is broadcast to another shape; `T` is const for an input.
template <class T, int Rank = any_rank>
class View {
  public:
    View() = default;
    View(const detail::ViewArgument<T, Rank>& argument, bool is_broadcast)
        : data_(argument.data), argument_(&argument), is_broadcast_(is_broadcast) {}

    int64_t rank() const { return Rank < 0 ? argument_->rank : Rank; }

    // The number of elements.
    int64_t size() const { return argument_->count; }
    bool empty() const { return size() == 0; }

    // The size along an axis; -1 is the last one.
    int64_t size(int64_t axis) const { return argument_->sizes[axis < 0 ? axis + rank() : axis]; }

    T* data() const { return data_; }

    // Whether elements are read again and again, so that data() has fewer than size().
    bool is_broadcast() const {
        if constexpr (detail::is_const_v<T>) return is_broadcast_;
        else return false;  // an output
    }

    // The element of a number, in row-major order.
    T& operator[](int64_t number) const {
        OPBRIDGE_INDEX(number, size());
        return data_[is_broadcast() ? place_of(number) : number];
    }

    // The element with one index for each axis: x(i, j).
    template <class... I>
    T& operator()(I... indices) const {
        constexpr int count = sizeof...(I);
        static_assert(Rank == any_rank ? count <= largest_view_rank : count == Rank,
                      "x(i, j, ...) takes one index for each dimension of the tensor, as View<T, rank> declares them");
        const int64_t each[count + 1] = {static_cast<int64_t>(indices)...};
        int64_t place = 0;
        if (is_broadcast()) {
            for (int axis = 0; axis < count; ++axis) place += each[axis] * argument_->steps[axis];
        } else {
            for (int axis = 0; axis < count; ++axis) {
                OPBRIDGE_INDEX(each[axis], argument_->sizes[axis]);
                place = place * argument_->sizes[axis] + each[axis];
            }
        }
        return data_[place];
    }

    // The index along each axis of the element of a number: `const auto at = y.index(i);`, and then at[0], at[1].
    Index<Rank> index(int64_t number) const {
        Index<Rank> found{};
        if (size() <= 0x7fffffff) divide(static_cast<uint32_t>(number), found);  // a division of 64 bits takes several times as long
        else divide(static_cast<uint64_t>(number), found);
        return found;
    }

  private:
    template <class N>
    void divide(N number, Index<Rank>& found) const {
        OPBRIDGE_UNROLL_DECLARED
        for (int64_t axis = rank() - 1; axis > 0; --axis) {
            const N size = static_cast<N>(argument_->sizes[axis]);
            const N rest = number / size;
            found[axis] = static_cast<int64_t>(number - rest * size);
            number = rest;
        }
        if (rank() > 0) found[0] = static_cast<int64_t>(number);
    }

    int64_t place_of(int64_t number) const {
        return size() <= 0x7fffffff ? place_of_number(static_cast<uint32_t>(number)) : place_of_number(static_cast<uint64_t>(number));
    }

    template <class N>
    int64_t place_of_number(N number) const {
        int64_t place = 0;
        OPBRIDGE_UNROLL_DECLARED
        for (int64_t axis = rank() - 1; axis >= 0; --axis) {
            const N size = static_cast<N>(argument_->sizes[axis]);
            const N rest = number / size;
            place += static_cast<int64_t>(number - rest * size) * argument_->steps[axis];
            number = rest;
        }
        return place;
    }

    T* data_ = nullptr;
    const detail::ViewArgument<T, Rank>* argument_ = nullptr;
    bool is_broadcast_ = false;
};

// A tensor's elements as a __global__ function takes them: as a pointer, with indices that a debug build checks.
template <class T>
class Array {
  public:
    Array() = default;
    Array(T* data, int64_t size) : data_(data), size_(size) {}
    template <class Tensor>
    Array(const Tensor& tensor) : data_(tensor.data()), size_(tensor.size()) {}

    int64_t size() const { return size_; }
    T* data() const { return data_; }
    explicit operator bool() const { return data_ != nullptr; }

    T& operator[](int64_t index) const {
        OPBRIDGE_INDEX(index, size_);
        return data_[index];
    }

  private:
    T* data_ = nullptr;
    int64_t size_ = 0;
};

#undef OPBRIDGE_INDEX

// An argument that may be left out: `if (bias) sum += (*bias)[c];`.
template <class T>
class Optional {
  public:
    Optional() = default;
    Optional(const T& value) : value_(value), given_(true) {}

    explicit operator bool() const { return given_; }
    const T& operator*() const { return value_; }
    const T* operator->() const { return &value_; }

  private:
    T value_{};
    bool given_ = false;
};

namespace detail {

// Values of several types, laid out in the same way by the compilers of the CPU and of the GPU.
template <class... P>
struct Pack {};

template <class First, class... Rest>
struct Pack<First, Rest...> {
    First first;
    Pack<Rest...> rest;
};

// How a launch passes a parameter, and the parameter that the function is then given. With `plain`, no tensor is broadcast, which the
// compiler then knows.
template <class P>
struct Passed {
    using Type = P;
    template <bool plain>
    static const P& given(const P& value) {
        return value;
    }
};

template <class T, int Rank>
struct Passed<View<T, Rank>> {
    using Type = ViewArgument<T, Rank>;
    template <bool plain>
    static View<T, Rank> given(const Type& value) {
        return View<T, Rank>(value, !plain && value.is_broadcast);
    }
};

template <class T, int Rank>
struct Passed<Optional<View<T, Rank>>> {
    using Type = Optional<ViewArgument<T, Rank>>;
    template <bool plain>
    static Optional<View<T, Rank>> given(const Type& value) {
        return value ? Optional<View<T, Rank>>(Passed<View<T, Rank>>::template given<plain>(*value)) : Optional<View<T, Rank>>();
    }
};

template <class P>
using Unqualified = remove_cv_t<remove_reference_t<P>>;

// A function of an element: void function(int64_t number, P... values).
template <class Function>
struct ElementArguments;

template <class... P>
struct ElementArguments<void (*)(int64_t, P...)> {
    int64_t count;
    Pack<typename Passed<Unqualified<P>>::Type...> values;

    // function(number, values...)
    template <auto function, bool plain>
    void apply(int64_t number) const {
        apply_to<function, plain, P...>(number, values);
    }

  private:
    template <auto function, bool plain, class... Left, class... Read>
    static void apply_to(int64_t number, const Pack<>&, const Read&... read) {
        function(number, read...);
    }

    template <auto function, bool plain, class Next, class... Left, class First, class... Rest, class... Read>
    static void apply_to(int64_t number, const Pack<First, Rest...>& left, const Read&... read) {
        apply_to<function, plain, Left...>(number, left.rest, read..., Passed<Unqualified<Next>>::template given<plain>(left.first));
    }
};

}  // namespace detail
}  // namespace opbridge
