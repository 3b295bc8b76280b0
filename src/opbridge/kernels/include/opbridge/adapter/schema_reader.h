// Reads a schema.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

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
        default: return "a context";
    }
}

class SchemaReader {
  public:
    explicit SchemaReader(const char* text) : text_(text), next_(text) {}

    Schema read() {
        Schema schema;
        schema.text = text_;
        schema.domain = word("a namespace");
        expect("::");
        schema.name = word("a name");
        if (take(".")) schema.overload = word("an overload's name");
        expect("(");
        if (!take(")")) {
            do {
                if (take("*")) continue;
                schema.arguments.push_back(argument());
            } while (take(","));
            expect(")");
        }
        expect("->");
        if (take("(")) {
            if (!take(")")) {
                do returned(schema);
                while (take(","));
                expect(")");
            }
        } else {
            returned(schema);
        }
        skip();
        if (*next_ != 0) fail("its end");
        return schema;
    }

  private:
    void skip() {
        while (std::isspace(static_cast<unsigned char>(*next_))) ++next_;
    }

    bool take(const char* token) {
        skip();
        const char* here = next_;
        for (; *token; ++token, ++here) {
            if (*here != *token) return false;
        }
        next_ = here;
        return true;
    }

    void expect(const char* token) {
        if (!take(token)) fail(std::string("'") + token + "'");
    }

    [[noreturn]] void fail(const std::string& expected) const {
        throw std::invalid_argument("The schema \"" + std::string(text_) + "\" has to go on with " + expected + " where it says \"" +
                                    next_ + "\".");
    }

    static bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

    std::string word(const char* what) {
        skip();
        const char* begin = next_;
        while (in_word(*next_)) ++next_;
        if (begin == next_) fail(what);
        return std::string(begin, next_);
    }

    void returned(Schema& schema) {
        skip();
        if (!take("Tensor") || *next_ == '[' || *next_ == '(' || *next_ == '?') fail("Tensor, which is what kernels return");
        skip();
        if (in_word(*next_)) word("a name");
        ++schema.returns;
    }

    Declared argument() {
        Declared declared;
        skip();
        const char* begin = next_;
        const std::string type = word("a type");
        declared.kind = type == "Tensor"                    ? Kind::tensor
                        : type == "int" || type == "SymInt" ? Kind::integer
                        : type == "float"                   ? Kind::number
                        : type == "bool"                    ? Kind::boolean
                        : type == "str"                     ? Kind::text
                                                            : Kind::context;
        if (declared.kind == Kind::context) {
            next_ = begin;
            fail("one of the types Tensor, int, SymInt, float, bool, str, which may be followed by ? or, but for bool and str, by []");
        }
        if (*next_ == '(') fail("a type without annotations: a kernel writes to no input");
        if (take("[")) {
            skip();
            while (std::isdigit(static_cast<unsigned char>(*next_))) declared.length = declared.length * 10 + (*next_++ - '0');
            declared.kind = declared.kind == Kind::tensor    ? Kind::tensors
                            : declared.kind == Kind::integer ? Kind::integers
                            : declared.kind == Kind::number  ? Kind::numbers
                                                             : Kind::context;
            if (declared.kind == Kind::context) fail("no list: an ONNX attribute cannot hold one of this type");
            expect("]");
        }
        declared.optional = take("?");
        if (declared.optional && declared.kind == Kind::tensors) fail("a list that may be empty, in place of one that may be left out");
        declared.name = word("an argument's name");
        if (take("=")) {
            declared.has_default = true;
            declared.standard = standard(declared);
        }
        return declared;
    }

    Attribute standard(const Declared& declared) {
        Attribute value;
        if (take("None")) return value;
        value.given = true;
        switch (declared.kind) {
            case Kind::integer: value.integer = integer(); break;
            case Kind::number: value.number = number(); break;
            case Kind::boolean:
                value.integer = take("True") ? 1 : 0;
                if (value.integer == 0) expect("False");
                break;
            case Kind::text: value.text = text(); break;
            case Kind::integers:
                if (take("[")) {
                    while (!take("]")) value.integers.push_back(integer()), take(",");
                } else {
                    value.integers.assign(static_cast<size_t>(declared.length ? declared.length : 1), integer());
                }
                break;
            case Kind::numbers:
                if (take("[")) {
                    while (!take("]")) value.numbers.push_back(number()), take(",");
                } else {
                    value.numbers.assign(static_cast<size_t>(declared.length ? declared.length : 1), number());
                }
                break;
            default: fail("None, the only default that a tensor can have");
        }
        return value;
    }

    int64_t integer() {
        skip();
        char* end = nullptr;
        const long long value = std::strtoll(next_, &end, 10);
        if (end == next_) fail("an integer");
        next_ = end;
        return value;
    }

    double number() {
        skip();
        char* end = nullptr;
        const double value = std::strtod(next_, &end);
        if (end == next_) fail("a number");
        next_ = end;
        return value;
    }

    std::string text() {
        skip();
        const char quote = *next_;
        if (quote != '"' && quote != '\'') fail("a text in quotes");
        std::string value;
        for (++next_; *next_ && *next_ != quote; ++next_) {
            if (*next_ == '\\' && next_[1]) ++next_;
            value += *next_;
        }
        if (*next_ != quote) fail("the closing quote");
        ++next_;
        return value;
    }

    const char* text_;
    const char* next_;
};

}  // namespace detail
}  // namespace opbridge
