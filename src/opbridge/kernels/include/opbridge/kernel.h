// The header for kernel files. A kernel is a function of typed tensors and attributes, in the order of its schema, and of its outputs:
//
//     #include <opbridge/kernel.h>
//     using namespace opbridge;
//
//     template <class T>
//     void my_add(Input<T> a, Input<T> b, double alpha, Output<T> out) {
//         for (int64_t i = 0; i < out.size(); ++i) out[i] = a[i] + T(alpha) * b[i];
//     }
//
//     Shape my_add_shape(Shape a, Shape b, double alpha) {
//         require(a == b, "a and b must have the same shape");
//         return a;
//     }
//
//     OPBRIDGE_KERNEL("mylib::my_add(Tensor a, Tensor b, *, float alpha=2.0) -> Tensor", my_add, my_add_shape, floating)
//
// | schema   | kernel                   | shape function      |     | schema  | kernel                | shape function        |
// | -------- | ------------------------ | ------------------- | --- | ------- | --------------------- | --------------------- |
// | Tensor   | Input<T>, Input<T, rank> | Shape               |     | float   | double                | double                |
// | Tensor?  | std::optional<Input<T>>  | std::optional<Shape>|     | float[] | Floats                | Floats                |
// | Tensor[] | Inputs<T>                | std::vector<Shape>  |     | bool    | bool                  | bool                  |
// | int      | int64_t                  | Dim, int64_t        |     | str     | std::string           | std::string           |
// | int[]    | Ints                     | std::vector<Dim>    |     | int?    | std::optional<int64_t>| std::optional<Dim>    |
// | returns  | Output<T>, in order      |                     |     |         | Context&, anywhere    |                       |
// | Tensor[] | Outputs<T>, the last one | in Shapes           |     |         |                       |                       |
//
// Tensors are row-major. Element types are float, double, Half, BFloat16, the integers of <cstdint>, and bool. An exception from a kernel
// or a shape function becomes an error in Python or a status in ONNX Runtime, with its message.
//
// element.h: kernels that are one function of an element, for the CPU and for CUDA devices. launch.h: kernels in CUDA's language.
#pragma once

#ifdef OPBRIDGE_ON_DEVICE

#include "device.h"
#include "device/host_names.h"

#define OPBRIDGE_KERNEL(...) static_assert(true, "")
#define OPBRIDGE_KERNELS(...) static_assert(true, "")
#define OPBRIDGE_ELEMENT_KERNEL(...) static_assert(true, "")
#define OPBRIDGE_CPU_CUDA_KERNEL(...) static_assert(true, "")

#else

#include "element.h"
#include "launch.h"
#include "platform.h"
#include "shape.h"
#include "signature.h"
#include "types.h"
#include "views.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

struct Operator;
using TorchEntry = void (*)(uint64_t* stack, uint64_t arguments, uint64_t results);  // what libtorch's stable interface calls

// With tensors on the CPU, and with tensors on a CUDA device.
struct TorchEntries {
    TorchEntry cpu, cuda;
};

OPBRIDGE_ADAPTER Operator* register_operator(const char* schema, ShapeFunction shape, const Instance* instances, size_t count,
                                             TorchEntries entries);
OPBRIDGE_ADAPTER void enter_from_torch(const Operator& op, uint64_t* stack, bool on_cuda);

template <class Family, class List>
struct InstancesOfTypes;

template <class Family, class... T>
struct InstancesOfTypes<Family, types<T...>> {
    static constexpr Instance list[] = {Family::template instance_for<T>()...};
};

template <auto... function>
struct InstanceList {
    static constexpr Instance list[] = {instance<function>()...};
};

// One operator of the library, with separate entry points for libtorch, which does not pass the operator to a common one.
template <class Tag>
struct Registration {
    inline static Operator* op = nullptr;
    static void enter(uint64_t* stack, uint64_t, uint64_t) { enter_from_torch(*op, stack, false); }
    static void enter_on_cuda(uint64_t* stack, uint64_t, uint64_t) { enter_from_torch(*op, stack, true); }

    template <size_t count>
    Registration(const char* schema, ShapeFunction shape, const Instance (&instances)[count]) {
        op = register_operator(schema, shape, instances, count, {&enter, &enter_on_cuda});
    }
};

}  // namespace detail
}  // namespace opbridge

#ifndef OPBRIDGE_SEPARATE_ADAPTER
#include "adapter/adapter.h"
#endif

#define OPBRIDGE_JOIN_(a, b) a##b
#define OPBRIDGE_JOIN(a, b) OPBRIDGE_JOIN_(a, b)

// OPBRIDGE_KERNEL(schema, template, shape, types): one kernel for each element type in a list: floating, integral, numeric, every, or
// types<float, int64_t>.
#define OPBRIDGE_KERNEL(schema, kernel, shape, ...) OPBRIDGE_KERNEL_TYPED_(__COUNTER__, schema, kernel, shape, __VA_ARGS__)
#define OPBRIDGE_KERNEL_TYPED_(number, ...) OPBRIDGE_KERNEL_TYPED(number, __VA_ARGS__)
#define OPBRIDGE_KERNEL_TYPED(number, schema, kernel, shape, ...)                                                          \
    namespace {                                                                                                            \
    struct OPBRIDGE_JOIN(OpbridgeFamily, number) {                                                                         \
        template <class T>                                                                                                 \
        static constexpr opbridge::detail::Instance instance_for() {                                                       \
            return opbridge::detail::instance<&kernel<T>>();                                                               \
        }                                                                                                                  \
    };                                                                                                                     \
    const opbridge::detail::Registration<OPBRIDGE_JOIN(OpbridgeFamily, number)> OPBRIDGE_JOIN(opbridge_operator_, number){ \
        schema, opbridge::detail::shape_function<&shape>(),                                                                \
        opbridge::detail::InstancesOfTypes<OPBRIDGE_JOIN(OpbridgeFamily, number), __VA_ARGS__>::list};                     \
    }                                                                                                                      \
    static_assert(true, "")

// OPBRIDGE_KERNELS(schema, shape, functions...): functions, or instances of a template (`select<float, int32_t>`); the first one that
// matches the types of the inputs is called. cpu_cuda<function, function> is one for the CPU, and one for CUDA devices.
#define OPBRIDGE_KERNELS(schema, shape, ...) OPBRIDGE_KERNELS_LISTED_(__COUNTER__, schema, shape, __VA_ARGS__)
#define OPBRIDGE_KERNELS_LISTED_(number, ...) OPBRIDGE_KERNELS_LISTED(number, __VA_ARGS__)
#define OPBRIDGE_KERNELS_LISTED(number, schema, shape, ...)                                                                \
    namespace {                                                                                                            \
    struct OPBRIDGE_JOIN(OpbridgeFamily, number) {};                                                                       \
    const opbridge::detail::Registration<OPBRIDGE_JOIN(OpbridgeFamily, number)> OPBRIDGE_JOIN(opbridge_operator_, number){ \
        schema, opbridge::detail::shape_function<&shape>(), opbridge::detail::InstanceList<__VA_ARGS__>::list};            \
    }                                                                                                                      \
    static_assert(true, "")

#endif
