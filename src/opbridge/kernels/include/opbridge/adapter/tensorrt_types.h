// The element types of an operator's kernels, as far as TensorRT's plug-ins have them.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "nodes.h"
#include "operator.h"
#include "tensorrt_api.h"
#include "tensorrt_run.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace tensorrt {

using namespace detail;

// The types of one kernel's tensors: of each input that a node has, and of each of its outputs.
struct KernelTypes {
    std::vector<Type> inputs, outputs;

    KernelTypes(const Operator& op, const Instance& kernel, const InputLayout& layout, size_t given, size_t returned) : inputs(given) {
        std::vector<Type> arguments;
        for (size_t i = 0; i < kernel.count; ++i) {
            const Parameter& parameter = kernel.parameters[i];
            if (!is_output(parameter.kind) && parameter.kind != Kind::context) arguments.push_back(parameter.type);
        }
        layout.each(op.schema, given, [&](size_t index, size_t input, size_t length) {
            for (size_t i = input; i < input + length && i < given; ++i) inputs[i] = arguments.at(index);
        });
        each_output(kernel, returned, [&](size_t, const Parameter& parameter) { outputs.push_back(parameter.type); });
    }

    bool takes(const std::vector<Type>& given) const {
        for (size_t i = 0; i < given.size() && i < inputs.size(); ++i) {
            if (given[i] != inputs[i]) return false;
        }
        return true;
    }

    bool are_in_tensorrt() const {
        DataType type;
        for (Type each : inputs) {
            if (!to_tensorrt(each, type)) return false;
        }
        for (Type each : outputs) {
            if (!to_tensorrt(each, type)) return false;
        }
        return true;
    }
};

inline std::string to_text(const std::vector<Type>& types) {
    std::string text;
    for (Type each : types) text += (text.empty() ? "" : ", ") + std::string(opbridge::name_of(each));
    return "(" + text + ")";
}

// The types of the kernel that is called for inputs of some types: the first one that takes them, as `Operator::choose` has it.
inline KernelTypes chosen_types(const Operator& op, const InputLayout& layout, const std::vector<Type>& given, size_t returned) {
    std::string known;
    for (const Instance& each : op.instances) {
        const KernelTypes types(op, each, layout, given.size(), returned);
        if (!types.takes(given)) {
            if (each.launch && types.are_in_tensorrt()) known += (known.empty() ? "" : ", ") + to_text(types.inputs);
            continue;
        }
        if (!each.launch) throw std::invalid_argument("there is no kernel for CUDA devices that takes " + to_text(given));
        if (!types.are_in_tensorrt()) {
            throw std::invalid_argument("the kernel for " + to_text(given) + " returns " + to_text(types.outputs) +
                                        ", and TensorRT's plug-ins have no such type");
        }
        return types;
    }
    throw std::invalid_argument("no kernel supports " + to_text(given) + "; there are kernels for " + (known.empty() ? "none" : known));
}

}  // namespace tensorrt
}  // namespace opbridge
