// From the type of a function to how it is called: which parameters are inputs, attributes, outputs and the context, and where their
// values come from.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "attribute.h"
#include "dispatch.h"
#include "platform.h"
#include "views.h"

namespace opbridge OPBRIDGE_HIDDEN {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

namespace detail {

// One argument of a call.
struct Argument {
    bool given = false;
    Tensor tensor;
    std::vector<Tensor> tensors;
    const Attribute* attribute = nullptr;
};

// One call.
struct Call {
    std::vector<Argument> arguments;
    std::vector<Result> results;
    Context* context = nullptr;
};

struct Parameter {
    Kind kind;
    bool optional;
    Type type;
    int rank;
    bool on_host = false;  // a tensor whose elements the host reads, also where the others are on a CUDA device
};

[[noreturn]] OPBRIDGE_ADAPTER void throw_number_out_of_range(int64_t value);

template <class N>
N narrow(const Dim& dim) {
    const int64_t value = dim.value();
    if (value < static_cast<int64_t>(std::numeric_limits<N>::min()) ||
        (sizeof(N) < 8 && value > static_cast<int64_t>(std::numeric_limits<N>::max()))) {
        throw_number_out_of_range(value);
    }
    return static_cast<N>(value);
}

// How a parameter of type P of a kernel is declared, and its value.
template <class P>
struct ParameterTraits {
    static_assert(
        std::is_integral_v<P> || std::is_floating_point_v<P>,
        "a kernel's parameters are Input<T>, std::optional<Input<T>>, Inputs<T>, Output<T>, Outputs<T>, Context&, int64_t, double, bool, "
        "std::string, Ints, Floats, and std::optional of these");
    static constexpr Parameter parameter{std::is_same_v<P, bool> ? Kind::boolean
                                         : std::is_integral_v<P> ? Kind::integer
                                                                 : Kind::number,
                                         false, Type::any, any_rank};
    static P from(const Argument& argument) {
        if constexpr (std::is_same_v<P, bool>) return argument.attribute->integer.known != 0;
        else if constexpr (std::is_integral_v<P>) return narrow<P>(argument.attribute->integer);
        else return static_cast<P>(argument.attribute->number);
    }
};

template <class T, int Rank>
struct ParameterTraits<Input<T, Rank>> {
    static constexpr Parameter parameter{Kind::tensor, false, type_of<T>(), Rank};
    static Input<T, Rank> from(const Argument& argument) { return Input<T, Rank>(argument.tensor); }
};

template <class T, int Rank>
struct ParameterTraits<HostInput<T, Rank>> {
    static constexpr Parameter parameter{Kind::tensor, false, type_of<T>(), Rank, true};
    static HostInput<T, Rank> from(const Argument& argument) { return HostInput<T, Rank>(argument.tensor); }
};

template <class T, int Rank>
struct ParameterTraits<Inputs<T, Rank>> {
    static constexpr Parameter parameter{Kind::tensors, false, type_of<T>(), Rank};
    static Inputs<T, Rank> from(const Argument& argument) { return Inputs<T, Rank>(argument.tensors.data(), argument.tensors.size()); }
};

template <class T, int Rank>
struct ParameterTraits<Output<T, Rank>> {
    static constexpr Parameter parameter{Kind::output, false, type_of<T>(), Rank};
};

template <class T, int Rank>
struct ParameterTraits<Outputs<T, Rank>> {
    static constexpr Parameter parameter{Kind::outputs, false, type_of<T>(), Rank};
};

template <>
struct ParameterTraits<Context> {
    static constexpr Parameter parameter{Kind::context, false, Type::any, any_rank};
};

template <>
struct ParameterTraits<std::string> {
    static constexpr Parameter parameter{Kind::text, false, Type::any, any_rank};
    static const std::string& from(const Argument& argument) { return argument.attribute->text; }
};

template <>
struct ParameterTraits<std::string_view> : ParameterTraits<std::string> {};

template <>
struct ParameterTraits<Ints> {
    static constexpr Parameter parameter{Kind::integers, false, Type::any, any_rank};
    static const Ints& from(const Argument& argument) { return argument.attribute->integers; }
};

template <>
struct ParameterTraits<Floats> {
    static constexpr Parameter parameter{Kind::numbers, false, Type::any, any_rank};
    static const Floats& from(const Argument& argument) { return argument.attribute->numbers; }
};

// The parameters of shape functions.

inline Shape shape_of(const Tensor& tensor) { return tensor.dims ? Shape(tensor.dims, tensor.rank) : Shape(tensor.sizes, tensor.rank); }

template <>
struct ParameterTraits<Shape> {
    static constexpr Parameter parameter{Kind::tensor, false, Type::any, any_rank};
    static Shape from(const Argument& argument) { return shape_of(argument.tensor); }
};

template <>
struct ParameterTraits<std::vector<Shape>> {
    static constexpr Parameter parameter{Kind::tensors, false, Type::any, any_rank};
    static std::vector<Shape> from(const Argument& argument) {
        std::vector<Shape> shapes;
        for (const Tensor& tensor : argument.tensors) shapes.push_back(shape_of(tensor));
        return shapes;
    }
};

template <>
struct ParameterTraits<Dim> {
    static constexpr Parameter parameter{Kind::integer, false, Type::any, any_rank};
    static Dim from(const Argument& argument) { return argument.attribute->integer; }
};

template <>
struct ParameterTraits<std::vector<Dim>> {
    static constexpr Parameter parameter{Kind::integers, false, Type::any, any_rank};
    static std::vector<Dim> from(const Argument& argument) {
        const Attribute& attribute = *argument.attribute;
        return attribute.dims.empty() ? std::vector<Dim>(attribute.integers.begin(), attribute.integers.end()) : attribute.dims;
    }
};

template <class P>
struct ParameterTraits<std::optional<P>> {
    static constexpr Parameter parameter{ParameterTraits<P>::parameter.kind, true, ParameterTraits<P>::parameter.type,
                                         ParameterTraits<P>::parameter.rank, ParameterTraits<P>::parameter.on_host};
    static std::optional<P> from(const Argument& argument) {
        return argument.given ? std::optional<P>(ParameterTraits<P>::from(argument)) : std::nullopt;
    }
};

// A function with parameters P...: their declarations, and a call.
template <class R, class... P>
struct Signature {
    static constexpr size_t count = sizeof...(P);
    static constexpr Parameter parameters[count + 1] = {ParameterTraits<Unqualified<P>>::parameter...,
                                                        {Kind::context, false, Type::any, any_rank}};

    // The number of schema arguments, or outputs, before a parameter.
    static constexpr size_t place(size_t index) {
        size_t before = 0;
        const bool output = is_output(parameters[index].kind);
        for (size_t i = 0; i < index; ++i) {
            if (parameters[i].kind != Kind::context && is_output(parameters[i].kind) == output) ++before;
        }
        return before;
    }

    template <size_t index, class Q>
    static decltype(auto) argument_value(Call& call) {
        constexpr Kind kind = ParameterTraits<Q>::parameter.kind;
        if constexpr (kind == Kind::context) return static_cast<Context&>(*call.context);
        else if constexpr (kind == Kind::output) return Q(call.results[place(index)]);
        else if constexpr (kind == Kind::outputs) return Q(call.results.data() + place(index), call.results.size() - place(index));
        else return ParameterTraits<Q>::from(static_cast<const Argument&>(call.arguments[place(index)]));
    }

    template <R (*function)(P...), size_t... index>
    static void run_each(Call& call, std::index_sequence<index...>) {
        run_kernel([&] { function(argument_value<index, Unqualified<P>>(call)...); });
    }

    template <R (*function)(P...)>
    static void run(Call& call) {
        run_each<function>(call, std::index_sequence_for<P...>());
    }

    // The same for a function that only launches kernels: it has no version for each processor.
    template <R (*function)(P...), size_t... index>
    static void run_once_each(Call& call, std::index_sequence<index...>) {
        function(argument_value<index, Unqualified<P>>(call)...);
    }

    template <R (*function)(P...)>
    static void run_once(Call& call) {
        run_once_each<function>(call, std::index_sequence_for<P...>());
    }

    template <R (*function)(P...), size_t... index>
    static Shapes shapes_each(Call& call, std::index_sequence<index...>) {
        return Shapes(function(argument_value<index, Unqualified<P>>(call)...));
    }

    template <R (*function)(P...)>
    static Shapes shapes(Call& call) {
        return shapes_each<function>(call, std::index_sequence_for<P...>());
    }
};

template <class R, class... P>
Signature<R, P...> signature_of(R (*)(P...));

struct DeviceFunction;

// A kernel for one choice of element types, and what launches it on a CUDA device, if it has a function for one. `device` is that of an
// element.
struct Instance {
    const Parameter* parameters;
    size_t count;
    void (*run)(Call&);
    void (*launch)(Call&) = nullptr;
    const DeviceFunction* device = nullptr;
    const Parameter* device_parameters = nullptr;
    size_t device_count = 0;
};

// A kernel for the CPU, and one for CUDA devices.
template <auto cpu, auto cuda>
struct CpuCuda {
    static constexpr Instance instance() {
        using OnCpu = decltype(signature_of(cpu));
        using OnCuda = decltype(signature_of(cuda));
        return {OnCpu::parameters,  OnCpu::count, &OnCpu::template run<cpu>, &OnCuda::template run_once<cuda>, nullptr,
                OnCuda::parameters, OnCuda::count};
    }
};

template <class Function>
inline constexpr bool is_cpu_cuda = false;
template <auto cpu, auto cuda>
inline constexpr bool is_cpu_cuda<CpuCuda<cpu, cuda>> = true;

template <auto function>
constexpr Instance instance() {
    using Given = std::remove_cv_t<std::remove_pointer_t<decltype(function)>>;
    if constexpr (is_cpu_cuda<Given>) {
        return Given::instance();
    } else {
        using Found = decltype(signature_of(function));
        return {Found::parameters, Found::count, &Found::template run<function>, nullptr, nullptr, nullptr, 0};
    }
}

template <auto cpu, auto cuda>
inline constexpr CpuCuda<cpu, cuda> cpu_cuda_instance{};

// A shape function.
struct ShapeFunction {
    const Parameter* parameters;
    size_t count;
    Shapes (*run)(Call&);
};

template <auto function>
constexpr ShapeFunction shape_function() {
    using Found = decltype(signature_of(function));
    return {Found::parameters, Found::count, &Found::template shapes<function>};
}

}  // namespace detail

// A kernel for OPBRIDGE_KERNELS: a function for the CPU, and one for CUDA devices, which launches kernels (launch.h).
template <auto cpu, auto cuda>
inline constexpr const detail::CpuCuda<cpu, cuda>* cpu_cuda = &detail::cpu_cuda_instance<cpu, cuda>;

}  // namespace opbridge
