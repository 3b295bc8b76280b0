// Parses schemas in PyTorch's language: "mylib::my_add.overload(Tensor a, Tensor(b!)? b, *, float alpha=2.0) -> (Tensor, Tensor)".
#pragma once

#include <cctype>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../platform.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// An argument or a result.
struct SchemaItem {
    std::string type;      // without aliases and lengths: "Tensor?[]"
    std::string name;      // "" where a result has none
    bool aliases = false;  // it may share memory with another one: "Tensor(a)"
    bool written = false;  // the operator writes to it: "Tensor(a!)"
    int64_t length = 0;    // of "int[2]", for which one number stands for two
    bool has_default = false;

    // Where they are in the text, for errors.
    size_t type_at = 0, alias_at = 0, type_end = 0, default_at = 0, default_end = 0;
};

struct FunctionSchema {
    std::string text, name_space, name, overload;
    std::vector<SchemaItem> arguments, results;

    // "mylib::my_add"
    std::string qualified_name() const { return name_space + "::" + name; }

    // "mylib::my_add.overload"
    std::string full_name() const { return qualified_name() + (overload.empty() ? "" : "." + overload); }

    // Whether the operator writes to an argument.
    bool is_mutable() const {
        for (const SchemaItem& argument : arguments) {
            if (argument.written) return true;
        }
        return false;
    }
};

// "Tensor?" -> "Tensor"; "int[]?" -> "int[]".
inline std::string without_optional(const std::string& type) {
    return !type.empty() && type.back() == '?' ? type.substr(0, type.size() - 1) : type;
}

// Whether a type is a list, and of what.
inline bool is_list(const std::string& type, std::string* item) {
    if (type.size() < 2 || type.compare(type.size() - 2, 2, "[]") != 0) return false;
    *item = type.substr(0, type.size() - 2);
    return true;
}

// A place in a schema's text, between whose tokens there may be spaces.
class SchemaCursor {
  public:
    explicit SchemaCursor(const std::string& text, size_t at = 0) : text_(text), at_(at) {}

    size_t at() const { return at_; }
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    const char* rest() const { return text_.c_str() + at_; }
    // Not beyond the end of the text.
    void advance(size_t count = 1) { at_ += count < text_.size() - at_ ? count : text_.size() - at_; }

    void skip_spaces() {
        while (std::isspace(static_cast<unsigned char>(peek()))) ++at_;
    }

    bool accept(const char* token) {
        skip_spaces();
        const size_t size = std::char_traits<char>::length(token);
        if (text_.compare(at_, size, token) != 0) return false;
        at_ += size;
        return true;
    }

    void expect(const char* token) {
        if (!accept(token)) fail(std::string("'") + token + "'");
    }

    static bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

    std::string word(const char* what) {
        skip_spaces();
        const size_t begin = at_;
        while (in_word(peek())) ++at_;
        if (begin == at_) fail(what);
        return text_.substr(begin, at_ - begin);
    }

    [[noreturn]] void fail(const std::string& expected) const {
        throw std::invalid_argument("Invalid schema \"" + text_ + "\": expected " + expected + " at \"" + rest() + "\".");
    }

  private:
    const std::string& text_;
    size_t at_;
};

class SchemaParser {
  public:
    explicit SchemaParser(const std::string& text) : text_(text), next_(text) {}

    FunctionSchema parse() {
        FunctionSchema schema;
        schema.text = text_;
        schema.name_space = next_.word("a namespace");
        next_.expect("::");
        schema.name = next_.word("a name");
        if (next_.accept(".")) schema.overload = next_.word("an overload's name");
        next_.expect("(");
        schema.arguments = items();
        next_.expect("->");
        if (next_.accept("(")) schema.results = items();
        else schema.results.push_back(item());
        next_.skip_spaces();
        if (next_.peek() != '\0') next_.fail("the end of the text");
        return schema;
    }

  private:
    // Up to the closing parenthesis.
    std::vector<SchemaItem> items() {
        std::vector<SchemaItem> found;
        if (next_.accept(")")) return found;
        do {
            if (next_.accept("*")) continue;
            found.push_back(item());
        } while (next_.accept(","));
        next_.expect(")");
        return found;
    }

    SchemaItem item() {
        SchemaItem item;
        next_.skip_spaces();
        item.type_at = next_.at();
        if (next_.peek() == '(') item.type = parenthesized();  // a tuple
        while (SchemaCursor::in_word(next_.peek()) || next_.peek() == '.') item.type += advanced();
        if (item.type.empty()) next_.fail("a type");
        if (item.type == "Dict" && next_.peek() == '(') item.type += parenthesized();
        while (annotation(item)) {
        }
        item.type_end = next_.at();
        next_.skip_spaces();
        while (SchemaCursor::in_word(next_.peek())) item.name += advanced();
        if (next_.accept("=")) skip_default(item);
        return item;
    }

    char advanced() {
        const char c = next_.peek();
        next_.advance();
        return c;
    }

    std::string parenthesized() {
        const size_t begin = next_.at(), end = text_.find(')', begin);
        if (end == std::string::npos) next_.fail("a closing parenthesis");
        next_.advance(end + 1 - begin);
        return text_.substr(begin, end + 1 - begin);
    }

    // One of "(a!)", "[2]" and "?" behind a type; whether there is one.
    bool annotation(SchemaItem& item) {
        if (next_.peek() == '(') {
            if (!item.aliases) item.alias_at = next_.at();
            item.aliases = true;
            item.written = parenthesized().find('!') != std::string::npos || item.written;
        } else if (next_.accept("[")) {
            next_.skip_spaces();
            while (std::isdigit(static_cast<unsigned char>(next_.peek()))) {
                item.length = item.length * 10 + (advanced() - '0');
                if (item.length > INT32_MAX) next_.fail("a valid list length");
            }
            next_.expect("]");
            item.type += "[]";
        } else if (next_.accept("?")) {
            item.type += '?';
        } else {
            return false;
        }
        return true;
    }

    void skip_default(SchemaItem& item) {
        item.has_default = true;
        item.default_at = next_.at();
        int depth = 0;
        char quote = '\0';
        for (; next_.peek() != '\0'; next_.advance()) {
            const char c = next_.peek();
            if (quote != '\0') {
                if (c == '\\') next_.advance();
                else if (c == quote) quote = '\0';
            } else if (c == '"' || c == '\'') {
                quote = c;
            } else if (c == '[' || c == '(') {
                ++depth;
            } else if (depth == 0 && (c == ',' || c == ')')) {
                break;
            } else if (c == ']' || c == ')') {
                --depth;
            }
        }
        item.default_end = next_.at();
    }

    const std::string& text_;
    SchemaCursor next_;
};

// Throws std::invalid_argument where the text is not a schema, with the place.
inline FunctionSchema parse_schema(const std::string& text) { return SchemaParser(text).parse(); }

}  // namespace detail
}  // namespace opbridge
