// Reads the schema of a kernel, which has some of the types that PyTorch's language has.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "function_schema.h"
#include "schema.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

OPBRIDGE_ADAPTER const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::tensor: return "Tensor";
        case Kind::tensors: return "Tensor[]";
        case Kind::integer: return "int";
        case Kind::number: return "float";
        case Kind::boolean: return "bool";
        case Kind::text: return "str";
        case Kind::integers: return "int[]";
        case Kind::numbers: return "float[]";
        case Kind::output: return "an output";
        case Kind::outputs: return "a list of outputs";
        default: return "a context";
    }
}

// Reads the default value of an argument.
class DefaultReader {
  public:
    DefaultReader(const std::string& text, const SchemaItem& item) : item_(item), next_(text, item.default_at) {}

    Attribute read(Kind kind) {
        Attribute value;
        if (!next_.accept("None")) {
            value.given = true;
            read(kind, value);
        }
        next_.skip_spaces();
        if (next_.at() != item_.default_end) next_.fail("')'");
        return value;
    }

  private:
    void read(Kind kind, Attribute& value) {
        switch (kind) {
            case Kind::integer: value.integer = integer(); break;
            case Kind::number: value.number = number(); break;
            case Kind::boolean:
                value.integer = next_.accept("True") ? 1 : 0;
                if (value.integer == 0) next_.expect("False");
                break;
            case Kind::text: value.text = text(); break;
            case Kind::integers: value.integers = list<int64_t>([this] { return integer(); }); break;
            case Kind::numbers: value.numbers = list<double>([this] { return number(); }); break;
            default: next_.fail("None, the only valid default of a tensor");
        }
    }

    // "[1, 2]", or one number for all of a list with a length.
    template <class Number, class Read>
    std::vector<Number> list(Read&& read) {
        if (!next_.accept("[")) return std::vector<Number>(static_cast<size_t>(item_.length ? item_.length : 1), read());
        std::vector<Number> values;
        while (!next_.accept("]")) values.push_back(read()), next_.accept(",");
        return values;
    }

    int64_t integer() {
        next_.skip_spaces();
        char* end = nullptr;
        const long long value = std::strtoll(next_.rest(), &end, 10);
        if (end == next_.rest()) next_.fail("an integer");
        next_.advance(static_cast<size_t>(end - next_.rest()));
        return value;
    }

    double number() {
        next_.skip_spaces();
        char* end = nullptr;
        const double value = std::strtod(next_.rest(), &end);
        if (end == next_.rest()) next_.fail("a number");
        next_.advance(static_cast<size_t>(end - next_.rest()));
        return value;
    }

    std::string text() {
        next_.skip_spaces();
        const char quote = next_.peek();
        if (quote != '"' && quote != '\'') next_.fail("a quoted string");
        std::string value;
        for (next_.advance(); next_.peek() != '\0' && next_.peek() != quote; next_.advance()) {
            if (next_.peek() == '\\' && next_.rest()[1]) next_.advance();
            value += next_.peek();
        }
        if (next_.peek() != quote) next_.fail("the closing quote");
        next_.advance();
        return value;
    }

    const SchemaItem& item_;
    SchemaCursor next_;
};

inline Kind single_kind(const std::string& type) {
    if (type == "Tensor") return Kind::tensor;
    if (type == "int" || type == "SymInt") return Kind::integer;
    if (type == "float") return Kind::number;
    if (type == "bool") return Kind::boolean;
    if (type == "str") return Kind::text;
    return Kind::context;  // none of an argument
}

inline ArgumentSchema read_argument(const std::string& text, const SchemaItem& item) {
    const auto fail = [&](size_t at, const char* expected) { SchemaCursor(text, at).fail(expected); };
    ArgumentSchema argument;
    const std::string type = without_optional(item.type);
    std::string element = type;
    const bool list = is_list(type, &element);
    argument.kind = single_kind(element);
    if (argument.kind == Kind::context) {
        fail(item.type_at,
             "one of the types Tensor, int, SymInt, float, bool, str, which may be followed by ? or, but for bool and str, by []");
    }
    if (item.aliases) fail(item.alias_at, "a type without annotations, because a kernel cannot write to its inputs");
    if (list) {
        argument.kind = argument.kind == Kind::tensor    ? Kind::tensors
                        : argument.kind == Kind::integer ? Kind::integers
                        : argument.kind == Kind::number  ? Kind::numbers
                                                         : Kind::context;
        if (argument.kind == Kind::context) fail(item.type_at, "no list, because an ONNX attribute cannot store a list of this type");
    }
    argument.optional = type != item.type;
    if (argument.optional && argument.kind == Kind::tensors) {
        fail(item.type_end, "a list instead of an optional list");
    }
    if (item.name.empty()) fail(item.type_end, "an argument name");
    argument.name = item.name;
    argument.has_default = item.has_default;
    if (item.has_default) argument.default_value = DefaultReader(text, item).read(argument.kind);
    return argument;
}

// Throws std::invalid_argument for what is no schema, or has types that kernels do not take.
inline Schema read_schema(const std::string& text) {
    const FunctionSchema parsed = parse_schema(text);
    Schema schema;
    schema.text = text;
    schema.domain = parsed.name_space;
    schema.name = parsed.name;
    schema.overload = parsed.overload;
    schema.returns = parsed.results.size();
    for (const SchemaItem& item : parsed.arguments) schema.arguments.push_back(read_argument(text, item));
    for (const SchemaItem& item : parsed.results) {
        if ((item.type != "Tensor" && item.type != "Tensor[]") || item.aliases) {
            SchemaCursor(text, item.type_at).fail("Tensor or Tensor[], the only return types of kernels");
        }
        if (schema.returns_list) {
            SchemaCursor(text, item.type_at).fail("the end of the results: a list of tensors must be the last result of a kernel");
        }
        schema.returns_list = item.type == "Tensor[]";
    }
    return schema;
}

}  // namespace detail
}  // namespace opbridge
