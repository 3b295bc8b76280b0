// Functions of an element: kernels that are written once for the CPU and for CUDA devices.
//
//     template <class T>
//     void scaled_add(int64_t i, View<const T> a, View<const T> b, double alpha, View<T> out) {
//         out[i] = T(alpha) * a[i] + b[i];
//     }
//
//     OPBRIDGE_ELEMENT_KERNEL("mylib::scaled_add(Tensor a, Tensor b, *, float alpha=2.0) -> Tensor", scaled_add, same_shape, floating);
//
// The function is called once for each element of the first output, with its number in row-major order, in any order and at once.
//
// | schema  | function                          |     | schema | function          |
// | ------- | --------------------------------- | --- | ------ | ----------------- |
// | Tensor  | View<const T>, View<const T, rank>|     | float  | double            |
// | Tensor? | Optional<View<const T>>           |     | float? | Optional<double>  |
// | int     | int64_t                           |     | bool   | bool              |
// | returns | View<T>, in order                 |     |        |                   |
//
// Shape functions are those of other kernels, or
//     same_shape         all tensors have one shape, which is that of the outputs
//     broadcast_shape    tensors are broadcast as in PyTorch; `a[i]` is the element of `a` for element i of the output
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "device.h"
#include "launch.h"
#include "platform.h"
#include "shape.h"
#include "signature.h"

namespace opbridge OPBRIDGE_HIDDEN {

struct SameShape {};
struct BroadcastShape {};
inline constexpr SameShape same_shape;
inline constexpr BroadcastShape broadcast_shape;

namespace detail {

// Calls a function of an element for `count` elements on the device of a call, on its stream. `arguments` is an ElementArguments.
OPBRIDGE_ADAPTER void launch_elements(Context& context, const DeviceFunction& function, int64_t count, const void* arguments);

[[noreturn]] OPBRIDGE_ADAPTER void throw_unsupported_rank(int64_t rank);
[[noreturn]] OPBRIDGE_ADAPTER void throw_shapes_differ(const Call& call, const char* what);

template <class T>
constexpr const char* device_name() {
    constexpr Type type = type_of<T>();
    return type == Type::float32    ? "float"
           : type == Type::float64  ? "double"
           : type == Type::float16  ? "opbridge::Half"
           : type == Type::bfloat16 ? "opbridge::BFloat16"
           : type == Type::boolean  ? "bool"
           : type == Type::int8     ? "int8_t"
           : type == Type::int16    ? "int16_t"
           : type == Type::int32    ? "int32_t"
           : type == Type::int64    ? "int64_t"
           : type == Type::uint8    ? "uint8_t"
           : type == Type::uint16   ? "uint16_t"
           : type == Type::uint32   ? "uint32_t"
                                    : "uint64_t";
}

template <class T, int Rank>
struct ParameterTraits<View<T, Rank>> {
    static constexpr Parameter parameter{is_const_v<T> ? Kind::tensor : Kind::output, false, type_of<remove_cv_t<T>>(), Rank};
};

template <class P>
struct ParameterTraits<Optional<P>> {
    static constexpr Parameter parameter{ParameterTraits<P>::parameter.kind, true, ParameterTraits<P>::parameter.type,
                                         ParameterTraits<P>::parameter.rank};
};

// The sizes that inputs are broadcast to, if they are.
struct BroadcastTo {
    const int64_t* sizes;
    int64_t rank;
};

template <class T, int Rank>
void set_tensor(ViewArgument<T, Rank>& to, void* data, const int64_t* sizes, int64_t rank, const BroadcastTo* whole) {
    const int64_t most = whole && whole->rank > rank ? whole->rank : rank;
    if (most > ViewArgument<T, Rank>::capacity || (Rank != any_rank && most != Rank)) throw_unsupported_rank(most);
    to = ViewArgument<T, Rank>(static_cast<T*>(data), sizes, rank);
    if (whole) to.broadcast_to(whole->sizes, whole->rank);
}

template <class T, int Rank>
void set_value(ViewArgument<T, Rank>& to, const Argument& from, const BroadcastTo* whole) {
    set_tensor(to, from.tensor.data, from.tensor.sizes, from.tensor.rank, whole);
}

template <class P>
void set_value(P& to, const Argument& from, const BroadcastTo*) {
    to = ParameterTraits<P>::from(from);
}

template <class P>
void set_value(Optional<P>& to, const Argument& from, const BroadcastTo* whole) {
    to = Optional<P>();
    if (!from.given) return;
    P value{};
    set_value(value, from, whole);
    to = Optional<P>(value);
}

template <class P>
bool is_broadcast(const P&) {
    return false;
}
template <class T, int Rank>
bool is_broadcast(const ViewArgument<T, Rank>& view) {
    return view.is_broadcast;
}
template <class P>
bool is_broadcast(const Optional<P>& value) {
    return value && is_broadcast(*value);
}
inline bool is_broadcast(const Pack<>&) { return false; }
template <class First, class... Rest>
bool is_broadcast(const Pack<First, Rest...>& values) {
    return is_broadcast(values.first) || is_broadcast(values.rest);
}

template <class Function>
struct ElementSignature {
    static_assert(!std::is_same_v<Function, Function>,
                  "a function of an element is void function(int64_t i, ...), of View<const T>, Optional<View<const T>>, View<T>, int64_t, "
                  "double, bool, and Optional of these");
};

template <class... P>
struct ElementSignature<void (*)(int64_t, P...)> {
    static constexpr size_t count = sizeof...(P);
    static constexpr Parameter parameters[count + 1] = {ParameterTraits<Unqualified<P>>::parameter...,
                                                        {Kind::context, false, Type::any, any_rank}};
    static constexpr size_t outputs = (size_t{0} + ... + (ParameterTraits<Unqualified<P>>::parameter.kind == Kind::output ? 1 : 0));
    static_assert(outputs > 0, "a function of an element has a View<T> that is not const for each output");
    static_assert(
        ((std::is_trivially_copyable_v<Unqualified<P>>) && ...),
        "a function of an element takes View<const T>, Optional<View<const T>>, View<T>, int64_t, double, bool, and Optional of these");

    // The parameters that are no outputs, in order, as a shape function has them.
    struct Inputs {
        Parameter list[count + 1] = {};
        constexpr Inputs() {
            size_t next = 0;
            for (size_t i = 0; i < count; ++i) {
                if (!is_output(parameters[i].kind)) list[next++] = parameters[i];
            }
        }
    };
    static constexpr Inputs inputs{};

    static void fill(Pack<>&, Call&, size_t, size_t, const BroadcastTo*) {}

    template <class First, class... Rest>
    static void fill(Pack<First, Rest...>& values, Call& call, size_t argument, size_t output, const BroadcastTo* whole) {
        if (is_output(parameters[argument + output].kind)) {
            set_output(values.first, call.results[output++]);
        } else {
            set_value(values.first, call.arguments[argument++], whole);
        }
        fill(values.rest, call, argument, output, whole);
    }

  private:
    template <class T, int Rank>
    static void set_output(ViewArgument<T, Rank>& to, const Result& from) {
        set_tensor(to, from.data, from.sizes.data(), static_cast<int64_t>(from.sizes.size()), nullptr);
    }
    template <class Other>
    static void set_output(Other&, const Result&) {}
};

// A kernel that calls a function for each element of its first output.
template <auto function, bool broadcasts, class Named>
struct Element {
    using Signature = ElementSignature<decltype(function)>;
    using Arguments = ElementArguments<decltype(function)>;

    static Arguments arguments(Call& call) {
        const Result& whole = call.results[0];
        if (!whole.allocated)
            throw std::logic_error("the sizes of the outputs of a function of an element must be known to its shape function");
        Arguments found{};
        found.count = whole.count;
        const BroadcastTo to{whole.sizes.data(), static_cast<int64_t>(whole.sizes.size())};
        Signature::fill(found.values, call, 0, 0, broadcasts ? &to : nullptr);
        return found;
    }

    static void run(Call& call) {
        const Arguments given = arguments(call);
        if (broadcasts && is_broadcast(given.values)) run_as<false>(call, given, 1024);
        else run_as<true>(call, given, 4096);
    }

    template <bool plain>
    static void run_as(Call& call, const Arguments& given, int64_t grain) {
        call.context->parallel_for(given.count, grain, [&](int64_t begin, int64_t end) {
            const Arguments own = given;
            for (int64_t i = begin; i < end; ++i) own.template apply<function, plain>(i);
        });
    }

    static void launch(Call& call) {
        const Arguments given = arguments(call);
        launch_elements(*call.context, Named::device, given.count, &given);
    }

    static constexpr Instance instance{Signature::parameters, Signature::count, &run, &launch, &Named::device,
                                       Signature::parameters, Signature::count};

    // With a kernel of its own for the CPU.
    static constexpr Instance beside(const Instance& kernel) {
        return {kernel.parameters, kernel.count, kernel.run, &launch, &Named::device, Signature::parameters, Signature::count};
    }
};

// A function for CUDA devices beside a kernel for the CPU: of an element, or one of the host that launches kernels.
template <class P>
inline constexpr bool is_view = false;
template <class T, int Rank>
inline constexpr bool is_view<View<T, Rank>> = true;

template <class Function>
inline constexpr bool is_element_function = false;
template <class... P>
inline constexpr bool is_element_function<void (*)(int64_t, P...)> = (is_view<Unqualified<P>> || ...);

template <auto cpu, auto cuda, class Named>
constexpr Instance beside() {
    if constexpr (is_element_function<decltype(cuda)>) {
        return Element<cuda, false, Named>::beside(instance<cpu>());
    } else {
        return CpuCuda<cpu, cuda>::instance();
    }
}

inline Shapes repeated(const Shape& shape, size_t count) { return Shapes(std::vector<Shape>(count, shape)); }

// The shapes of the tensors that are given.
inline std::vector<Shape> shapes_of_tensors(const Call& call) {
    std::vector<Shape> found;
    for (const Argument& argument : call.arguments) {
        if (argument.given && (argument.tensor.sizes || argument.tensor.dims || argument.tensor.type != Type::any)) {
            found.push_back(shape_of(argument.tensor));
        }
    }
    return found;
}

template <size_t outputs>
Shapes same_shapes(Call& call) {
    const std::vector<Shape> shapes = shapes_of_tensors(call);
    for (const Shape& each : shapes) {
        if (each != shapes[0]) throw_shapes_differ(call, "the tensors must have the same shape");
    }
    return repeated(shapes.at(0), outputs);
}

OPBRIDGE_ADAPTER Shape broadcast_shapes(const Call& call, const std::vector<Shape>& shapes);

template <size_t outputs>
Shapes broadcast_shapes(Call& call) {
    return repeated(broadcast_shapes(call, shapes_of_tensors(call)), outputs);
}

// The shape function of a kernel whose function of an element has a signature.
template <auto shape, class Signature>
constexpr ShapeFunction element_shape() {
    using Found = std::remove_cv_t<std::remove_pointer_t<decltype(shape)>>;
    constexpr size_t inputs = Signature::count - Signature::outputs;
    if constexpr (std::is_same_v<Found, SameShape>) {
        return {Signature::inputs.list, inputs, &same_shapes<Signature::outputs>};
    } else if constexpr (std::is_same_v<Found, BroadcastShape>) {
        return {Signature::inputs.list, inputs, &broadcast_shapes<Signature::outputs>};
    } else {
        return shape_function<shape>();
    }
}

template <auto shape>
inline constexpr bool is_broadcasting = std::is_same_v<std::remove_cv_t<std::remove_pointer_t<decltype(shape)>>, BroadcastShape>;

template <class Family, class T>
struct DeviceName {
    static constexpr DeviceFunction device{Family::program, Family::function, device_name<T>()};
};

template <class Family, class First, class... T>
constexpr auto first_signature(types<First, T...>) -> typename Family::template Signature<First>;

}  // namespace detail
}  // namespace opbridge

// OPBRIDGE_ELEMENT_KERNEL(schema, function, shape, types): a function of an element for each element type in a list, as OPBRIDGE_KERNEL.
#define OPBRIDGE_ELEMENT_KERNEL(schema, function, shape, ...) OPBRIDGE_ELEMENT_KERNEL_(__COUNTER__, schema, function, shape, __VA_ARGS__)
#define OPBRIDGE_ELEMENT_KERNEL_(number, ...) OPBRIDGE_ELEMENT_KERNEL_TYPED(number, __VA_ARGS__)
#define OPBRIDGE_ELEMENT_KERNEL_TYPED(number, schema, given, shape, ...)                                                        \
    namespace {                                                                                                                 \
    struct OPBRIDGE_JOIN(OpbridgeFamily, number) {                                                                              \
        static constexpr int program = OPBRIDGE_DEVICE_PROGRAM;                                                                 \
        static constexpr const char* function = #given;                                                                         \
        template <class T>                                                                                                      \
        using Signature = opbridge::detail::ElementSignature<decltype(&::given<T>)>;                                            \
        template <class T>                                                                                                      \
        static constexpr opbridge::detail::Instance instance_for() {                                                            \
            return opbridge::detail::Element<&::given<T>, opbridge::detail::is_broadcasting<&shape>,                            \
                                             opbridge::detail::DeviceName<OPBRIDGE_JOIN(OpbridgeFamily, number), T>>::instance; \
        }                                                                                                                       \
    };                                                                                                                          \
    const opbridge::detail::Registration<OPBRIDGE_JOIN(OpbridgeFamily, number)> OPBRIDGE_JOIN(opbridge_operator_, number){      \
        schema,                                                                                                                 \
        opbridge::detail::element_shape<                                                                                        \
            &shape, decltype(opbridge::detail::first_signature<OPBRIDGE_JOIN(OpbridgeFamily, number)>(__VA_ARGS__{}))>(),       \
        opbridge::detail::InstancesOfTypes<OPBRIDGE_JOIN(OpbridgeFamily, number), __VA_ARGS__>::list};                          \
    }                                                                                                                           \
    static_assert(true, "")

// OPBRIDGE_CPU_CUDA_KERNEL(schema, kernel, function, shape, types): a kernel as OPBRIDGE_KERNEL takes it for the CPU, and for CUDA devices
// one that launches kernels (launch.h), or a function of an element; then the shape function says what is wrong with the arguments, as it
// is called before both.
#define OPBRIDGE_CPU_CUDA_KERNEL(schema, kernel, function, shape, ...) \
    OPBRIDGE_CPU_CUDA_KERNEL_(__COUNTER__, schema, kernel, function, shape, __VA_ARGS__)
#define OPBRIDGE_CPU_CUDA_KERNEL_(number, ...) OPBRIDGE_CPU_CUDA_KERNEL_TYPED(number, __VA_ARGS__)
#define OPBRIDGE_CPU_CUDA_KERNEL_TYPED(number, schema, kernel, given, shape, ...)                                          \
    namespace {                                                                                                            \
    struct OPBRIDGE_JOIN(OpbridgeFamily, number) {                                                                         \
        static constexpr int program = OPBRIDGE_DEVICE_PROGRAM;                                                            \
        static constexpr const char* function = #given;                                                                    \
        template <class T>                                                                                                 \
        static constexpr opbridge::detail::Instance instance_for() {                                                       \
            return opbridge::detail::beside<&kernel<T>, &::given<T>,                                                       \
                                            opbridge::detail::DeviceName<OPBRIDGE_JOIN(OpbridgeFamily, number), T>>();     \
        }                                                                                                                  \
    };                                                                                                                     \
    const opbridge::detail::Registration<OPBRIDGE_JOIN(OpbridgeFamily, number)> OPBRIDGE_JOIN(opbridge_operator_, number){ \
        schema, opbridge::detail::shape_function<&shape>(),                                                                \
        opbridge::detail::InstancesOfTypes<OPBRIDGE_JOIN(OpbridgeFamily, number), __VA_ARGS__>::list};                     \
    }                                                                                                                      \
    static_assert(true, "")
