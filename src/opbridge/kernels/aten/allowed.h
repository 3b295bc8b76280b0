// Which operators run: a model file is data from somebody else.
#pragma once

#include <string>
#include <vector>

#include <opbridge/adapter/function_schema.h>

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

using detail::FunctionSchema;

class Allowed {
  public:
    // Patterns as "torchvision::*" or "aten::empty.memory_format", separated by commas or spaces. They add to the default list.
    explicit Allowed(const std::string& patterns);

    // Throws std::invalid_argument for an operator that is not allowed, with the reason and with what to pass.
    void check(const FunctionSchema& schema) const;

  private:
    std::vector<std::string> patterns_;
};

// Why an operator never runs without being named, whatever it does with its arguments; "" where that is a matter of evidence.
std::string rule(const FunctionSchema& schema);

// Why an operator is not on the default list of the libtorch that is loaded; "" where it is.
std::string refusal(const FunctionSchema& schema);

// Whether a name fits a pattern, in which "*" stands for any text.
bool matches(const char* pattern, const char* name);

}  // namespace aten
}  // namespace opbridge
