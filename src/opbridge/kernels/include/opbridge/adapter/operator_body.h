// Operators: found to agree with their schemas, and called.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "operator.h"
#include "schema_reader.h"
#include "shape.h"
#include "views.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

OPBRIDGE_ADAPTER void throw_number_out_of_range(int64_t value) {
    throw std::out_of_range("the number " + std::to_string(value) + " is out of range for the kernel's parameter");
}

inline void check_output(const Operator& op, const Parameter& parameter, size_t output, const std::string& what) {
    const bool is_list = op.schema.returns_list && output + 1 == op.schema.returns;
    if (output >= op.schema.returns || is_list == (parameter.kind == Kind::outputs)) return;
    throw std::invalid_argument(op.error_message(what + "'s output " + std::to_string(output) + " is " +
                                                 (is_list ? "an Output<T>, but the schema returns Tensor[]: declare it as Outputs<T>."
                                                          : "an Outputs<T>, but the schema returns Tensor: declare it as Output<T>.")));
}

inline void check_parameters(const Operator& op, const Parameter* parameters, size_t count, const std::string& what, bool is_kernel) {
    const Schema& schema = op.schema;
    size_t argument = 0, outputs = 0;
    for (size_t i = 0; i < count; ++i) {
        const Parameter& parameter = parameters[i];
        if (parameter.kind == Kind::context && is_kernel) continue;
        if (is_output(parameter.kind) && is_kernel) {
            check_output(op, parameter, outputs++, what);
            continue;
        }
        if (argument == schema.arguments.size()) {
            throw std::invalid_argument(op.error_message(what + " has more parameters than the schema has arguments: " + schema.text));
        }
        const ArgumentSchema& declared = schema.arguments[argument++];
        if (parameter.kind != declared.kind || parameter.optional != declared.optional) {
            throw std::invalid_argument(op.error_message(what + "'s parameter for '" + declared.name + "' is " + name_of(parameter.kind) +
                                                         (parameter.optional ? "?" : "") + ", but the schema declares " +
                                                         name_of(declared.kind) + (declared.optional ? "?" : "") + "."));
        }
    }
    if (argument != schema.arguments.size()) {
        throw std::invalid_argument(op.error_message(what + " has no parameter for '" + schema.arguments[argument].name + "'."));
    }
    if (is_kernel && outputs != schema.returns) {
        throw std::invalid_argument(op.error_message(what + " has " + std::to_string(outputs) + " outputs, but the schema returns " +
                                                     std::to_string(schema.returns) + (schema.returns_list ? " results." : " tensors.")));
    }
}

// A kernel for CUDA devices has the types of the one for the CPU, by which both are chosen.
inline void check_types(const Operator& op, const Instance& instance) {
    const auto types = [](const Parameter* parameters, size_t count) {
        std::string text;
        for (size_t i = 0; i < count; ++i) {
            const Kind kind = parameters[i].kind;
            if (is_tensor(kind)) text += std::string(text.empty() ? "" : ", ") + opbridge::name_of(parameters[i].type);
        }
        for (size_t i = 0; i < count; ++i) {
            if (is_output(parameters[i].kind)) text += std::string(" -> ") + opbridge::name_of(parameters[i].type);
        }
        return text;
    };
    const std::string cpu = types(instance.parameters, instance.count), cuda = types(instance.device_parameters, instance.device_count);
    if (cpu == cuda) return;
    throw std::invalid_argument(op.error_message("the kernel for the CPU has the types " + cpu + ", and the one for CUDA devices " + cuda +
                                                 ". Give both the same."));
}

inline void check(const Operator& op) {
    const Schema& schema = op.schema;
    for (const Instance& each : op.instances) {
        check_parameters(op, each.parameters, each.count, "the kernel", true);
        if (each.launch) {
            const char* what = each.device ? "the function of an element" : "the function for CUDA devices";
            check_parameters(op, each.device_parameters, each.device_count, what, true);
            check_types(op, each);
        }
    }
    check_parameters(op, op.shape.parameters, op.shape.count, "the shape function", false);
    bool has_tensor = false, in_list = false;
    for (const ArgumentSchema& declared : schema.arguments) {
        has_tensor = has_tensor || is_tensor(declared.kind);
        if (in_list && declared.kind == Kind::tensor && declared.optional) {
            throw std::invalid_argument(
                op.error_message("put the optional tensor '" + declared.name +
                                 "' before the list of tensors: ONNX does not support empty inputs after a variadic input."));
        }
        in_list = in_list || declared.kind == Kind::tensors;
    }
    if (!has_tensor) throw std::invalid_argument(op.error_message("the schema has no tensor argument, which determines the device."));
    if (schema.returns == 0) throw std::invalid_argument(op.error_message("the schema returns nothing."));
}

template <class Body>
void each_argument(const Instance& kernel, Body&& body) {
    size_t argument = 0;
    for (size_t i = 0; i < kernel.count; ++i) {
        const Kind kind = kernel.parameters[i].kind;
        if (!is_output(kind) && kind != Kind::context) body(argument++, kernel.parameters[i]);
    }
}

inline bool fits(const Instance& kernel, const Call& call) {
    bool fitting = true;
    each_argument(kernel, [&](size_t index, const Parameter& parameter) {
        const Argument& argument = call.arguments[index];
        if (parameter.kind == Kind::tensor) fitting = fitting && (!argument.given || argument.tensor.type == parameter.type);
        for (const Tensor& each : argument.tensors) fitting = fitting && each.type == parameter.type;
    });
    return fitting;
}

inline void check_ranks(const Schema& schema, const Instance& kernel, const Call& call) {
    each_argument(kernel, [&](size_t index, const Parameter& parameter) {
        const Argument& argument = call.arguments[index];
        const auto check = [&](const Tensor& tensor) {
            if (parameter.rank == any_rank || tensor.rank == parameter.rank) return;
            throw std::invalid_argument("'" + schema.arguments[index].name + "' has " + std::to_string(tensor.rank) +
                                        " dimensions, but the kernel expects " + std::to_string(parameter.rank) + ": " +
                                        to_string(shape_of(tensor)));
        };
        if (parameter.kind == Kind::tensor && argument.given) check(argument.tensor);
        for (const Tensor& each : argument.tensors) check(each);
    });
}

inline std::string describe_types(const Schema& schema, const Instance& kernel) {
    std::string text;
    each_argument(kernel, [&](size_t index, const Parameter& parameter) {
        if (!is_tensor(parameter.kind)) return;
        text += (text.empty() ? "" : ", ") + schema.arguments[index].name + ": " + opbridge::name_of(parameter.type);
        text += parameter.kind == Kind::tensors ? "[]" : "";
    });
    return text;
}

inline std::string describe_types(const Schema& schema, const Call& call) {
    std::string text;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
        const Argument& argument = call.arguments[i];
        if (!is_tensor(schema.arguments[i].kind)) continue;
        text += (text.empty() ? "" : ", ") + schema.arguments[i].name + ": ";
        if (schema.arguments[i].kind == Kind::tensor) text += argument.given ? opbridge::name_of(argument.tensor.type) : "None";
        else {
            text += "[";
            for (size_t j = 0; j < argument.tensors.size(); ++j) {
                text += (j ? ", " : "") + std::string(opbridge::name_of(argument.tensors[j].type));
            }
            text += "]";
        }
    }
    return text;
}

OPBRIDGE_ADAPTER Operator::Operator(const char* text, ShapeFunction shape, const Instance* first_instance, size_t count,
                                    TorchEntries entries)
    : instances(first_instance, first_instance + count), shape(shape), torch_entries(entries) {
    schema.text = text;
    try {
        schema = read_schema(text);
        check(*this);
        for (const Instance& each : instances) {
            if (!each.launch) continue;
            const Instance on_cuda{each.device_parameters, each.device_count, nullptr};
            each_argument(on_cuda, [&](size_t index, const Parameter& parameter) {
                on_host.resize(schema.arguments.size());
                if (parameter.on_host) on_host[index] = true;
            });
        }
    } catch (const std::exception& error) {
        problem = error.what();
    }
    Operator** place = &first();
    while (*place) place = &(*place)->next;
    *place = this;
}

OPBRIDGE_ADAPTER Operator*& Operator::first() {
    static Operator* head = nullptr;
    return head;
}

OPBRIDGE_ADAPTER std::string Operator::error_message(const std::string& message) const { return schema.operator_name() + ": " + message; }

OPBRIDGE_ADAPTER const Instance& Operator::choose(const Call& call) const {
    for (const Instance& each : instances) {
        if (fits(each, call)) {
            check_ranks(schema, each, call);
            return each;
        }
    }
    std::string known;
    for (const Instance& each : instances) known += (known.empty() ? "(" : ", (") + describe_types(schema, each) + ")";
    throw std::invalid_argument("no kernel supports (" + describe_types(schema, call) + "); there are kernels for " + known);
}

OPBRIDGE_ADAPTER Shapes Operator::shapes(Call& call) const {
    Shapes found = shape.run(call);
    const size_t single = schema.single_returns();
    if (schema.returns_list ? found.size() >= single : found.size() == single) return found;
    throw std::logic_error("the shape function returns " + std::to_string(found.size()) + " shapes for " + std::to_string(single) +
                           " outputs" + (schema.returns_list ? " and those of the list" : ""));
}

OPBRIDGE_ADAPTER void Operator::run(Call& call, Runtime& runtime) const {
    const Instance& kernel = choose(call);
    const Shapes shapes = this->shapes(call);
    call.results.resize(shapes.size());
    each_output(kernel, shapes.size(), [&](size_t index, const Parameter& parameter) {
        Result& result = call.results[index];
        result.runtime = &runtime;
        result.index = static_cast<int>(index);
        result.type = parameter.type;
        result.rank = parameter.rank;
        const Shape& expected = shapes[index];
        bool known = true;
        for (const Dim& dim : expected) known = known && dim.is_known();
        if (known) {
            for (const Dim& dim : expected) result.sizes.push_back(dim.known);
            result.allocate();
        } else {
            result.expected = expected;
        }
    });
    Context context(runtime);
    call.context = &context;
    if (runtime.cuda_device() < 0) {
        kernel.run(call);
    } else if (kernel.launch) {
        // Views of a function of an element have the rank of what they are broadcast to.
        if (!kernel.device) check_ranks(schema, {kernel.device_parameters, kernel.device_count, nullptr}, call);
        kernel.launch(call);
    } else {
        throw std::invalid_argument("there is no kernel for CUDA devices. Move the tensors to the CPU");
    }
    for (const Result& result : call.results) {
        if (!result.allocated) throw std::logic_error("the kernel has not called allocate() for " + result.name());
    }
}

// Never destroyed: whoever has registered it may call it until the process ends.
OPBRIDGE_ADAPTER Operator* register_operator(const char* schema, ShapeFunction shape, const Instance* instances, size_t count,
                                             TorchEntries entries) {
    return new Operator(schema, shape, instances, count, entries);
}

}  // namespace detail
}  // namespace opbridge
