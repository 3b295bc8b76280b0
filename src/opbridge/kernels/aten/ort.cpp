#include "ort.h"

#include <stdexcept>

#include <opbridge/adapter/ort_attributes.h>

namespace opbridge {
namespace aten {

namespace {

template <class T>
T attribute(const OrtApi* api, const OrtKernelInfo* info, const std::string& name, const char* type) {
    T value{};
    if (read(api, info, name.c_str(), value)) return value;
    throw std::invalid_argument("the node has no attribute '" + name + "' of the type " + type);
}

}  // namespace

bool Attributes::has_text(const std::string& name) const {
    std::string text;
    return read(api_, info_, name.c_str(), text);
}

std::string Attributes::text(const std::string& name) const { return attribute<std::string>(api_, info_, name, "STRING"); }

int64_t Attributes::integer(const std::string& name) const { return attribute<int64_t>(api_, info_, name, "INT"); }

std::vector<int64_t> Attributes::integers(const std::string& name) const {
    return attribute<std::vector<int64_t>>(api_, info_, name, "INTS");
}

std::vector<double> Attributes::doubles(const std::string& name) const {
    return attribute<std::vector<double>>(api_, info_, name, "TENSOR of doubles");
}

std::string config_entry(const OrtApi* api, const OrtSessionOptions* options, const char* key) {
    int has = 0;
    if (!succeeds(api, HasSessionConfigEntry, options, key, &has) || !has) return "";
    size_t size = 0;
    succeeds(api, GetSessionConfigEntry, options, key, static_cast<char*>(nullptr), &size);
    std::string text(size, '\0');
    if (size == 0 || !succeeds(api, GetSessionConfigEntry, options, key, &text[0], &size)) return "";
    text.resize(size - 1);
    return text;
}

}  // namespace aten
}  // namespace opbridge
