#include "schema.h"

#include <cctype>
#include <stdexcept>

namespace opbridge {
namespace aten {

namespace {

class Reader {
  public:
    explicit Reader(const std::string& text) : text_(text) {}

    Schema schema() {
        Schema schema;
        const size_t open = text_.find('(');
        if (open == std::string::npos) throw error();
        const std::string full = text_.substr(0, open);
        const size_t dot = full.find('.', full.find("::") == std::string::npos ? 0 : full.find("::"));
        schema.name = full.substr(0, dot);
        if (dot != std::string::npos) schema.overload = full.substr(dot + 1);
        at_ = open + 1;
        schema.arguments = list();
        skip(" -> ");
        if (peek() == '(') {
            ++at_;
            schema.results = list();
        } else {
            schema.results.push_back(declared());
        }
        if (at_ != text_.size()) throw error();
        return schema;
    }

  private:
    std::invalid_argument error() const { return std::invalid_argument("torch's schema '" + text_ + "' is in a form that is not known"); }
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    void skip(const std::string& expected) {
        if (text_.compare(at_, expected.size(), expected) != 0) throw error();
        at_ += expected.size();
    }

    // What stands up to the closing parenthesis.
    std::vector<Declared> list() {
        std::vector<Declared> found;
        while (peek() != ')') {
            if (!found.empty() || star_) skip(", ");
            if (text_.compare(at_, 1, "*") == 0) {
                ++at_;
                star_ = true;
                continue;
            }
            found.push_back(declared());
        }
        ++at_;
        star_ = false;
        return found;
    }

    // Type, aliasing, name and default; the last two may be missing.
    Declared declared() {
        Declared found;
        while (at_ < text_.size() && text_[at_] != ' ' && text_[at_] != ',' && text_[at_] != ')') {
            const char letter = text_[at_];
            const size_t end = text_.find(letter == '(' ? ')' : ']', at_);
            if ((letter == '(' || letter == '[') && end == std::string::npos) throw error();
            if (letter == '(' && found.type == "Dict") {
                found.type += text_.substr(at_, end + 1 - at_);
                at_ = end + 1;
            } else if (letter == '(') {
                found.aliases = true;
                found.written = found.written || text_.substr(at_, end - at_).find('!') != std::string::npos;
                at_ = end + 1;
            } else if (letter == '[') {
                found.type += "[]";
                at_ = end + 1;
            } else {
                found.type += letter;
                ++at_;
            }
        }
        if (found.type.empty()) throw error();
        if (peek() != ' ' || text_.compare(at_, 4, " -> ") == 0) return found;
        ++at_;
        while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_') found.name += text_[at_++];
        if (peek() == '=') skip_default();
        return found;
    }

    void skip_default() {
        int depth = 0;
        char quote = '\0';
        for (; at_ < text_.size(); ++at_) {
            const char letter = text_[at_];
            if (quote) {
                if (letter == '\\') ++at_;
                else if (letter == quote) quote = '\0';
            } else if (letter == '"' || letter == '\'') {
                quote = letter;
            } else if (letter == '[' || letter == '(') {
                ++depth;
            } else if (depth == 0 && (letter == ',' || letter == ')')) {
                return;
            } else if (letter == ']' || letter == ')') {
                --depth;
            }
        }
    }

    const std::string& text_;
    size_t at_ = 0;
    bool star_ = false;
};

}  // namespace

bool Schema::is_mutable() const {
    for (const Declared& each : arguments) {
        if (each.written) return true;
    }
    return false;
}

Schema parse_schema(const std::string& text) { return Reader(text).schema(); }

std::string without_optional(const std::string& type) {
    return !type.empty() && type.back() == '?' ? type.substr(0, type.size() - 1) : type;
}

bool is_list(const std::string& type, std::string* item) {
    if (type.size() < 2 || type.compare(type.size() - 2, 2, "[]") != 0) return false;
    *item = type.substr(0, type.size() - 2);
    return true;
}

}  // namespace aten
}  // namespace opbridge
