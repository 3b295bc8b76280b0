// What Python asks a library: which operators it has, to define them in libtorch, and the shapes of outputs while a model is captured.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "guarded.h"
#include "operator.h"
#include "symbols.h"
#include "torch.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// One argument as Python gives it; the fields of a Tensor, of a list's tensors, or of an attribute.
struct CallArgument {
    int32_t given;
    int32_t type;
    int64_t count;        // dimensions, items or bytes
    const Dim* dims;      // sizes, an int, or the ints of a list
    const double* numbers;
    const char* text;
    const CallArgument* items;
};

// The outputs, one after the other.
struct Inferred {
    int64_t outputs;
    const int32_t* types;
    const int64_t* ranks;
    const Dim* dims;
};

inline std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) result += c;
    }
    return result + "\"";
}

inline std::string description() {
    std::string text = "[";
    for (const Operator* op = Operator::first(); op; op = op->next) {
        text += std::string(text.size() > 1 ? ", " : "") + "{\"schema\": " + quoted(op->schema.text) +
                ", \"domain\": " + quoted(op->schema.domain) + ", \"op_type\": " + quoted(op->schema.op_type()) +
                ", \"problem\": " + quoted(op->problem) + ", \"cuda\": " + (op->has_launch() ? "true" : "false") + "}";
    }
    return text + "]";
}

inline const Operator& operator_at(int32_t index) {
    const Operator* op = Operator::first();
    while (op && index-- > 0) op = op->next;
    if (!op) throw std::out_of_range("there is no operator of that number");
    return *op;
}

class Inference {
  public:
    void run(int32_t index, const CallArgument* given, const Symbols* symbols) {
        const Operator& op = operator_at(index);
        std::vector<Attribute> attributes(op.schema.arguments.size());
        Call call;
        call.arguments.resize(op.schema.arguments.size());
        for (size_t i = 0; i < call.arguments.size(); ++i) {
            const ArgumentSchema& declared = op.schema.arguments[i];
            Argument& argument = call.arguments[i];
            argument.given = given[i].given != 0;
            argument.attribute = &attributes[i];
            if (!argument.given) continue;
            if (declared.kind == Kind::tensor) argument.tensor = tensor(given[i]);
            else if (declared.kind == Kind::tensors)
                for (int64_t j = 0; j < given[i].count; ++j) argument.tensors.push_back(tensor(given[i].items[j]));
            else attributes[i] = attribute(given[i], declared.kind, symbols);
        }
        const Instance& kernel = op.choose(call);
        const Shapes shapes = op.shapes(call);
        each_output(kernel, shapes.size(),
                    [&](size_t, const Parameter& parameter) { types_.push_back(static_cast<int32_t>(parameter.type)); });
        for (size_t i = 0; i < shapes.size(); ++i) {
            ranks_.push_back(shapes[i].rank());
            dims_.insert(dims_.end(), shapes[i].begin(), shapes[i].end());
        }
    }

    Inferred result() const { return {static_cast<int64_t>(types_.size()), types_.data(), ranks_.data(), dims_.data()}; }

  private:
    static Tensor tensor(const CallArgument& given) {
        static const Dim none;
        Tensor tensor;
        tensor.type = static_cast<Type>(given.type);
        tensor.rank = given.count;
        tensor.dims = given.count ? given.dims : &none;
        return tensor;
    }

    static Attribute attribute(const CallArgument& given, Kind kind, const Symbols* symbols) {
        Attribute value;
        value.given = true;
        switch (kind) {
            case Kind::integer:
            case Kind::boolean: value.integer = given.dims[0]; break;
            case Kind::number: value.number = given.numbers[0]; break;
            case Kind::text: value.text.assign(given.text, static_cast<size_t>(given.count)); break;
            case Kind::integers:
                value.dims.assign(given.dims, given.dims + given.count);
                // A shape function that takes plain numbers fixes them, as int() does in Python.
                (void)symbols;
                break;
            default: value.numbers.assign(given.numbers, given.numbers + given.count);
        }
        return value;
    }

    std::vector<int32_t> types_;
    std::vector<int64_t> ranks_;
    std::vector<Dim> dims_;
};

}  // namespace detail
}  // namespace opbridge

extern "C" {

// The operators, as JSON.
OPBRIDGE_ENTRY const char* opbridge_describe() {
    static const std::string text = opbridge::detail::description();
    return text.c_str();
}

// The operators, for another library that was built with the same header; null for one of another header.
OPBRIDGE_ENTRY const void* opbridge_shown(int64_t layout) {
    static const opbridge::detail::Shown shown{opbridge::detail::Operator::first(), [] { return &opbridge::detail::symbols(); }};
    return layout == opbridge::detail::shown_layout ? &shown : nullptr;
}

OPBRIDGE_ENTRY const char* opbridge_last_error() { return opbridge::detail::last_error().c_str(); }

// Defines the operators in the libtorch at a path, which is loaded. Zero where it succeeds.
OPBRIDGE_ENTRY int32_t opbridge_register_torch(const char* libtorch) {
    return opbridge::detail::reported([&] {
        opbridge::torch::load(libtorch);
        try {
            opbridge::torch::register_operators();
        } catch (...) {
            opbridge::torch::unregister_operators();
            throw;
        }
    });
}

OPBRIDGE_ENTRY void opbridge_unregister_torch() { opbridge::torch::unregister_operators(); }

// The types and shapes of the outputs of an operator, by its number; valid until the next call on this thread. 1: an error, 2: the
// answer of `symbols` has ended it.
OPBRIDGE_ENTRY int32_t opbridge_infer(int32_t index, const opbridge::detail::CallArgument* given, const opbridge::detail::Symbols* symbols,
                                      opbridge::detail::Inferred* result) {
    using namespace opbridge::detail;
    thread_local Inference inference;
    inference = Inference();
    opbridge::detail::symbols() = symbols;
    computed_dim_count() = 0;
    bool undecided = false;
    const int32_t failure = reported([&] {
        try {
            inference.run(index, given, symbols);
            *result = inference.result();
        } catch (const Undecided&) {
            undecided = true;  // whoever is asked about symbols knows why
        }
    });
    opbridge::detail::symbols() = nullptr;
    return undecided ? 2 : failure;
}
}
