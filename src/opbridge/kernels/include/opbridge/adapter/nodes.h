// What ONNX Runtime's and OpenVINO's adapters share: what a node says.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "operator.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// The attribute that a node without it has.
inline Attribute with_default(Attribute value, const ArgumentSchema& declared) {
    if (value.given) return value;
    if (declared.has_default) return declared.default_value;
    if (!declared.optional)
        throw std::invalid_argument("the node has no attribute '" + declared.name + "' of the type " + name_of(declared.kind));
    return value;
}

// How a node's inputs belong to the schema's arguments. The tensors of a list stand one after the other; the attribute with the list's
// name says how many there are, and the last list takes what is there where it is missing.
struct InputLayout {
    static constexpr int64_t most = 1 << 20;  // so that no sum of lengths overflows
    std::vector<int64_t> lengths;             // by argument; -1: what is left

    template <class Count>
    static InputLayout read(const Schema& schema, Count&& count) {
        InputLayout layout;
        size_t unknown = 0;
        for (const ArgumentSchema& declared : schema.arguments) {
            int64_t length = 1;
            if (declared.kind == Kind::tensors && !count(declared.name.c_str(), &length)) {
                length = -1;
                ++unknown;
            } else if (length < 0 || length > most) {
                throw std::invalid_argument("the node declares an invalid length of the list '" + declared.name +
                                            "': " + std::to_string(length) + " tensors");
            }
            layout.lengths.push_back(length);
        }
        if (unknown > 1) throw std::invalid_argument("the node does not declare the lengths of its lists");
        return layout;
    }

    // Calls body(argument, first input, number of inputs).
    template <class Body>
    void each(const Schema& schema, size_t given, Body&& body) const {
        int64_t fixed = 0;
        for (size_t i = 0; i < lengths.size(); ++i) fixed += is_tensor(schema.arguments[i].kind) && lengths[i] > 0 ? lengths[i] : 0;
        size_t input = 0;
        for (size_t i = 0; i < lengths.size(); ++i) {
            if (!is_tensor(schema.arguments[i].kind)) continue;
            const int64_t rest = static_cast<int64_t>(given) - fixed;
            const size_t length = static_cast<size_t>(lengths[i] >= 0 ? lengths[i] : rest > 0 ? rest : 0);
            if (schema.arguments[i].kind == Kind::tensors && input + length > given) {
                throw std::invalid_argument("the list '" + schema.arguments[i].name + "' has " + std::to_string(length) +
                                            " tensors, but the node has too few inputs");
            }
            body(i, input, length);
            input += length;
        }
        if (input < given)
            throw std::invalid_argument("the node has " + std::to_string(given) + " inputs, which do not match the schema " + schema.text);
    }
};

}  // namespace detail
}  // namespace opbridge
