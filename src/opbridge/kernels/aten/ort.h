// ONNX Runtime's interface as this library uses it: a node's attributes, and what a session's options say.
#pragma once

#include <string>
#include <vector>

#include <opbridge/adapter/ort_calls.h>

namespace opbridge OPBRIDGE_HIDDEN {
namespace aten {

using namespace opbridge::ort;

constexpr Checked<const OrtSessionOptions*, const char*, int*> HasSessionConfigEntry{237};
constexpr Checked<const OrtSessionOptions*, const char*, char*, size_t*> GetSessionConfigEntry{238};
constexpr Checked<const OrtKernelInfo*, size_t*> KernelInfo_GetInputCount{230};
constexpr Checked<const OrtKernelInfo*, size_t*> KernelInfo_GetOutputCount{231};

// A node's attributes; all but the first throw std::invalid_argument where there is none of that name and type.
class Attributes {
  public:
    Attributes(const OrtApi* api, const OrtKernelInfo* info) : api_(api), info_(info) {}

    bool has_text(const std::string& name) const;
    std::string text(const std::string& name) const;
    int64_t integer(const std::string& name) const;
    std::vector<int64_t> integers(const std::string& name) const;
    std::vector<double> doubles(const std::string& name) const;  // of a TENSOR of type DOUBLE

  private:
    const OrtApi* api_;
    const OrtKernelInfo* info_;
};

// What a session's options say under a key; "" where they say nothing.
std::string config_entry(const OrtApi* api, const OrtSessionOptions* options, const char* key);

}  // namespace aten
}  // namespace opbridge
