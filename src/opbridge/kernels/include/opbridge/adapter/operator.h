// An operator: its schema, its kernels and its shape function, found to agree; what both runtimes' adapters call.
#pragma once

#include <string>
#include <vector>

#include "../kernel.h"
#include "schema.h"
#include "symbols.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

struct Operator {
    Schema schema;
    std::vector<Instance> instances;
    ShapeFunction shape;
    TorchEntries torch_entries;
    std::vector<bool> on_host;  // of each argument, where its kernels for CUDA devices read one there
    std::string problem;  // why it cannot be used, found when the library is loaded
    Operator* next = nullptr;

    Operator(const char* text, ShapeFunction shape, const Instance* first_instance, size_t count, TorchEntries entries);

    // All operators of the library, in the order of its files.
    static Operator*& first();

    // Whether it has a kernel for CUDA devices.
    bool has_launch() const {
        for (const Instance& each : instances) {
            if (each.launch) return true;
        }
        return false;
    }

    // Whether the host reads an argument's elements, also where the other tensors are on a CUDA device.
    bool reads_on_host(size_t argument) const { return on_host.size() > argument && on_host[argument]; }

    // The kernel for these arguments.
    const Instance& choose(const Call& call) const;

    // Runs a call whose arguments are set; `results` are made here.
    void run(Call& call, Runtime& runtime) const;

    // The shapes of the outputs, one for each that the schema returns.
    Shapes shapes(Call& call) const;

    // An error's message, with the operator that it is about.
    std::string error_message(const std::string& message) const;
};

// Calls body(output, parameter) for each of `count` outputs. The parameter of a list, which is the last one, is that of all that are left.
template <class Body>
void each_output(const Instance& kernel, size_t count, Body&& body) {
    size_t output = 0;
    for (size_t i = 0; i < kernel.count; ++i) {
        const Parameter& parameter = kernel.parameters[i];
        if (!is_output(parameter.kind)) continue;
        const size_t end = parameter.kind == Kind::outputs ? count : output + 1;
        for (; output < end; ++output) body(output, parameter);
    }
}

// What a library shows another one of the process: its operators, and what computes with unknown sizes in its shape functions.
struct Shown {
    const Operator* first;
    const Symbols** (*symbols)();
};

// To be raised when `Shown`, or anything that is reached from it, changes.
constexpr int64_t shown_layout = 4;

}  // namespace detail
}  // namespace opbridge
