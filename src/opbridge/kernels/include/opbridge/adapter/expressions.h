// Arithmetic over the sizes of an operator's inputs, which a node has as text: "(x[0] + 1023) // 1024". A name with an index is a size of
// that input; there are integers, + - * // %, min(a, b), max(a, b) and parentheses. Divisions round down.
#pragma once

#include <cctype>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "../platform.h"
#include "../shape.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace detail {

// Reads numbers that are separated by commas. `size(name, axis)` is asked for the sizes.
template <class Size>
class Expressions {
  public:
    Expressions(const std::string& text, Size size) : text_(text), size_(size) {}

    std::vector<Dim> read() {
        std::vector<Dim> found;
        if (next() == '\0') return found;
        do found.push_back(sum());
        while (take(','));
        if (next() != '\0') fail();
        return found;
    }

  private:
    char next() {
        while (place_ < text_.size() && text_[place_] == ' ') ++place_;
        return place_ < text_.size() ? text_[place_] : '\0';
    }

    bool take(char wanted) {
        if (next() != wanted) return false;
        ++place_;
        return true;
    }

    void expect(char wanted) {
        if (!take(wanted)) fail();
    }

    [[noreturn]] void fail() const {
        throw std::invalid_argument("the attribute '" + text_ + "' is no arithmetic over the sizes of the inputs");
    }

    Dim sum() {
        Dim value = product();
        for (;;) {
            if (take('+')) value += product();
            else if (take('-')) value -= product();
            else return value;
        }
    }

    Dim product() {
        Dim value = operand();
        for (;;) {
            if (take('*')) {
                value *= operand();
            } else if (take('/')) {
                expect('/');
                value /= divisor();
            } else if (take('%')) {
                value = value % divisor();
            } else {
                return value;
            }
        }
    }

    Dim divisor() {
        const Dim value = operand();
        if (value.is_known() && value.known == 0) throw std::invalid_argument("the attribute '" + text_ + "' divides by zero");
        return value;
    }

    Dim operand() {
        if (take('(')) {
            if (++depth_ > 200) fail();
            const Dim value = sum();
            expect(')');
            --depth_;
            return value;
        }
        if (std::isdigit(static_cast<unsigned char>(next()))) return integer();
        std::string name;
        while (place_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[place_])) || text_[place_] == '_')) {
            name += text_[place_++];
        }
        if (name.empty()) fail();
        if (take('[')) {
            const int64_t axis = integer();
            expect(']');
            return size_(name, axis);
        }
        if (name != "min" && name != "max") fail();
        expect('(');
        const Dim first = sum();
        expect(',');
        const Dim second = sum();
        expect(')');
        return name == "min" ? min(first, second) : max(first, second);
    }

    int64_t integer() {
        int64_t value = 0;
        if (!std::isdigit(static_cast<unsigned char>(next()))) fail();
        while (place_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[place_]))) {
            if (value > (INT64_MAX - 9) / 10) fail();
            value = value * 10 + (text_[place_++] - '0');
        }
        return value;
    }

    const std::string& text_;
    Size size_;
    size_t place_ = 0;
    int depth_ = 0;
};

template <class Size>
std::vector<Dim> read_expressions(const std::string& text, Size size) {
    return Expressions<Size>(text, size).read();
}

}  // namespace detail
}  // namespace opbridge
