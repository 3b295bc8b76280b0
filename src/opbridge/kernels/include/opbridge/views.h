// The arguments of a kernel: tensors as views of their memory, in row-major order, and the context of the call.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/view.h"
#include "dispatch.h"
#include "platform.h"
#include "shape.h"
#include "types.h"

namespace opbridge OPBRIDGE_HIDDEN {

// Element types, with ONNX's numbers.
enum class Type : int32_t {
    any = 0,
    float32 = 1,
    uint8 = 2,
    int8 = 3,
    uint16 = 4,
    int16 = 5,
    int32 = 6,
    int64 = 7,
    boolean = 9,
    float16 = 10,
    float64 = 11,
    uint32 = 12,
    uint64 = 13,
    bfloat16 = 16,
};

OPBRIDGE_ADAPTER const char* name_of(Type type);
OPBRIDGE_ADAPTER size_t size_of(Type type);

template <class T>
constexpr Type type_of() {
    if constexpr (std::is_same_v<T, float>) return Type::float32;
    else if constexpr (std::is_same_v<T, double>) return Type::float64;
    else if constexpr (std::is_same_v<T, Half>) return Type::float16;
    else if constexpr (std::is_same_v<T, BFloat16>) return Type::bfloat16;
    else if constexpr (std::is_same_v<T, bool>) return Type::boolean;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 1) return std::is_signed_v<T> ? Type::int8 : Type::uint8;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 2) return std::is_signed_v<T> ? Type::int16 : Type::uint16;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) return std::is_signed_v<T> ? Type::int32 : Type::uint32;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) return std::is_signed_v<T> ? Type::int64 : Type::uint64;
    else return Type::any;
}

// Lists of element types, for which a kernel template is instantiated.
template <class... T>
struct types {};
using floating = types<float, double, Half, BFloat16>;
using integral = types<int64_t, int32_t, int16_t, int8_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using numeric = types<float, double, Half, BFloat16, int64_t, int32_t, int16_t, int8_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using every = types<float, double, Half, BFloat16, int64_t, int32_t, int16_t, int8_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>;

namespace detail {

// A tensor as its owner stores it.
struct Tensor {
    Type type = Type::any;
    int64_t rank = 0;
    const int64_t* sizes = nullptr;
    void* data = nullptr;
    int64_t count = 0;
    const Dim* dims = nullptr;  // instead of `sizes`, while a model is captured
};

// The services of a runtime for a kernel.
class Runtime {
  public:
    virtual void* allocate_output(int index, Type type, const int64_t* sizes, int64_t rank) = 0;
    virtual void* allocate_scratch(size_t bytes) = 0;  // aligned to 64 bytes, freed at the end of the call
    virtual void run(int64_t pieces, void (*piece)(void*, int64_t), void* data) = 0;
    virtual int64_t threads() = 0;
    virtual void* stream() { return nullptr; }
    virtual int64_t cuda_device() { return -1; }  // the number of the GPU that has the tensors; -1: they are on the CPU

  protected:
    ~Runtime() = default;
};

OPBRIDGE_ADAPTER void* allocate_scratch(Runtime& runtime, int64_t count, size_t size);

// One output of a call.
struct Result {
    Runtime* runtime = nullptr;
    int index = 0;
    Type type = Type::any;
    int rank = any_rank;            // declared by the kernel
    Shape expected;                 // returned by the shape function; sizes may be unknown
    std::vector<int64_t> sizes;
    int64_t count = 0;
    void* data = nullptr;
    bool allocated = false;

    void allocate();
    void allocate(const int64_t* begin, const int64_t* end);  // sizes from the kernel, which must match `expected`
    std::string name() const;
    Shape shape() const;
};

[[noreturn]] OPBRIDGE_ADAPTER void throw_wrong_number_of_indices(size_t indices, int64_t rank);

// The base of inputs and outputs. `Rank` is the number of dimensions, or any_rank if it is known only at run time.
template <class T, int Rank>
class HostView {
  public:
    int64_t rank() const { return rank_; }
    const int64_t* sizes() const { return sizes_; }

    // The number of elements.
    int64_t size() const { return count_; }
    bool empty() const { return count_ == 0; }

    // The size along an axis; -1 is the last one.
    int64_t size(int64_t axis) const {
        const int64_t found = axis < 0 ? axis + rank_ : axis;
        if (found < 0 || found >= rank_) throw_no_such_axis(axis, rank_);
        return sizes_[found];
    }

    Shape shape() const { return Shape(sizes_, rank_); }
    T* data() const { return data_; }
    T* begin() const { return data_; }
    T* end() const { return data_ + count_; }

    // The element at a position in memory.
    T& operator[](int64_t index) const {
        check_bounds(index, count_);
        return data_[index];
    }

    // The element with one index for each axis: x(i, j). A wrong number of indices does not compile if the rank is
    // declared, and throws std::logic_error otherwise; this check may prevent a loop from being vectorized.
    template <class... Index>
    T& operator()(Index... index) const {
        constexpr size_t count = sizeof...(Index);
        static_assert(Rank == any_rank || count == static_cast<size_t>(Rank),
                      "x(i, j, ...) takes one index for each dimension of the tensor, as Input<T, rank> and Output<T, rank> declare them");
        if constexpr (Rank == any_rank) {
            if (rank_ != static_cast<int64_t>(count)) throw_wrong_number_of_indices(count, rank_);
        }
        const int64_t indices[count + 1] = {static_cast<int64_t>(index)...};
        int64_t place = 0;
        for (size_t axis = 0; axis < count; ++axis) {
            check_bounds(indices[axis], sizes_[axis]);
            place = place * sizes_[axis] + indices[axis];
        }
        return data_[place];
    }

  protected:
    HostView(T* data, const int64_t* sizes, int64_t rank, int64_t count) : data_(data), sizes_(sizes), rank_(rank), count_(count) {}

    T* data_;
    const int64_t* sizes_;
    int64_t rank_;
    int64_t count_;
};

}  // namespace detail

// An input tensor. With a rank, as in Input<float, 4>, tensors of another rank are an error before the kernel runs.
template <class T, int Rank = any_rank>
class Input : public detail::HostView<const T, Rank> {
  public:
    explicit Input(const detail::Tensor& tensor)
        : detail::HostView<const T, Rank>(static_cast<const T*>(tensor.data), tensor.sizes, tensor.rank, tensor.count) {}
};

// An input tensor of a kernel for CUDA devices whose elements are on the host, where the kernel reads them: sizes, scales. PyTorch takes a
// tensor on either device there, and waits for what is on the stream to copy it; ONNX Runtime computes it on the CPU where it can.
template <class T, int Rank = any_rank>
class HostInput : public Input<T, Rank> {
  public:
    using Input<T, Rank>::Input;
};

// The tensors of an argument `Tensor[]`.
template <class T, int Rank = any_rank>
class Inputs {
  public:
    Inputs(const detail::Tensor* tensors, size_t count) {
        views_.reserve(count);
        for (size_t i = 0; i < count; ++i) views_.emplace_back(tensors[i]);
    }
    int64_t size() const { return static_cast<int64_t>(views_.size()); }
    const Input<T, Rank>& operator[](int64_t index) const {
        if (index < 0 || index >= size()) detail::throw_out_of_bounds(index, size());
        return views_[static_cast<size_t>(index)];
    }
    const Input<T, Rank>* begin() const { return views_.data(); }
    const Input<T, Rank>* end() const { return views_.data() + views_.size(); }

  private:
    std::vector<Input<T, Rank>> views_;
};

// An output tensor. Its memory is allocated before the kernel runs, unless the shape function returns a computed size: the kernel then
// calls `allocate` with the sizes before it writes.
template <class T, int Rank = any_rank>
class Output : public detail::HostView<T, Rank> {
  public:
    explicit Output(detail::Result& result)
        : detail::HostView<T, Rank>(static_cast<T*>(result.data), result.sizes.data(), static_cast<int64_t>(result.sizes.size()),
                                    result.count),
          result_(&result) {}

    void allocate(std::initializer_list<int64_t> sizes) { allocate(sizes.begin(), sizes.end()); }
    void allocate(const std::vector<int64_t>& sizes) { allocate(sizes.data(), sizes.data() + sizes.size()); }

  private:
    void allocate(const int64_t* begin, const int64_t* end) {
        result_->allocate(begin, end);
        this->data_ = static_cast<T*>(result_->data);
        this->sizes_ = result_->sizes.data();
        this->rank_ = static_cast<int64_t>(result_->sizes.size());
        this->count_ = result_->count;
    }

    detail::Result* result_;
};

// The tensors of a result `Tensor[]`, as many as the shape function gives shapes for.
template <class T, int Rank = any_rank>
class Outputs {
  public:
    Outputs(detail::Result* results, size_t count) {
        views_.reserve(count);
        for (size_t i = 0; i < count; ++i) views_.emplace_back(results[i]);
    }
    int64_t size() const { return static_cast<int64_t>(views_.size()); }
    Output<T, Rank>& operator[](int64_t index) {
        if (index < 0 || index >= size()) detail::throw_out_of_bounds(index, size());
        return views_[static_cast<size_t>(index)];
    }
    Output<T, Rank>* begin() { return views_.data(); }
    Output<T, Rank>* end() { return views_.data() + views_.size(); }

  private:
    std::vector<Output<T, Rank>> views_;
};

// The context of a call: a parameter `Context& context`, at any position.
class Context {
  public:
    explicit Context(detail::Runtime& runtime) : runtime_(runtime) {}
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    // Memory for `count` elements until the kernel returns, aligned to 64 bytes and uninitialized.
    template <class T>
    T* scratch(int64_t count) {
        static_assert(std::is_trivially_destructible_v<T>);
        return static_cast<T*>(detail::allocate_scratch(runtime_, count, sizeof(T)));
    }

    // Calls body(begin, end) over [0, count) in pieces of at least `grain`, on the threads of the runtime; body(begin, end,
    // piece) also gets the number of the piece, below `pieces(count, grain)`, for example for separate scratch memory. An exception from a
    // piece is rethrown here after all pieces have ended.
    template <class Body>
    void parallel_for(int64_t count, int64_t grain, Body&& body) {
        const int64_t pieces = this->pieces(count, grain);
        if (pieces <= 0) return;
        if (pieces == 1) return detail::run_kernel([&] { call(body, 0, count, 0); });
        Work<std::remove_reference_t<Body>> work{&body, count, pieces};
        runtime_.run(pieces, &Work<std::remove_reference_t<Body>>::run, &work);
        if (work.thrown) std::rethrow_exception(work.thrown);
    }

    // The number of pieces of `parallel_for`.
    int64_t pieces(int64_t count, int64_t grain) {
        if (count <= 0) return 0;
        grain = grain < 1 ? 1 : grain;
        const int64_t most = count / grain < 1 ? 1 : count / grain;
        const int64_t useful = most > 1 ? 4 * runtime_.threads() : 1;
        return most < useful ? most : useful;
    }

    // The maximum number of threads of a `parallel_for`.
    int64_t threads() { return runtime_.threads(); }

    // The stream of the tensors' device; null on the CPU.
    void* stream() { return runtime_.stream(); }

    // The number of the CUDA device that has the tensors; -1: they are on the CPU.
    int64_t cuda_device() { return runtime_.cuda_device(); }

  private:
    template <class Body>
    static void call(Body& body, int64_t begin, int64_t end, int64_t piece) {
        if constexpr (std::is_invocable_v<Body&, int64_t, int64_t, int64_t>) body(begin, end, piece);
        else (void)piece, body(begin, end);
    }

    template <class Body>
    struct Work {
        Body* body;
        int64_t count, pieces;
        std::atomic_flag failed = ATOMIC_FLAG_INIT;
        std::exception_ptr thrown;

        // No exception may propagate through the runtime's threads.
        static void run(void* data, int64_t piece) {
            Work& work = *static_cast<Work*>(data);
            try {
                const int64_t share = work.count / work.pieces, rest = work.count % work.pieces;
                const int64_t begin = piece * share + (piece < rest ? piece : rest);
                const int64_t end = begin + share + (piece < rest ? 1 : 0);
                detail::run_kernel([&] { call(*work.body, begin, end, piece); });
            } catch (...) {
                if (!work.failed.test_and_set()) work.thrown = std::current_exception();
            }
        }

        Work(Body* body, int64_t count, int64_t pieces) : body(body), count(count), pieces(pieces) {}
    };

    detail::Runtime& runtime_;
};

}  // namespace opbridge
