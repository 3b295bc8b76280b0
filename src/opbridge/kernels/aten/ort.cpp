#include "ort.h"

namespace opbridge {
namespace aten {

using Text = char*;
using Integers = int64_t*;

static std::invalid_argument lacking(const std::string& name, const char* type) {
    return std::invalid_argument("the node has no attribute '" + name + "' of the type " + type);
}

bool Attributes::has_text(const std::string& name) const {
    size_t size = 0;
    return succeeds(api_, KernelInfoGetAttribute_string, info_, name.c_str(), Text(nullptr), &size);
}

std::string Attributes::text(const std::string& name) const {
    size_t size = 0;
    if (!succeeds(api_, KernelInfoGetAttribute_string, info_, name.c_str(), Text(nullptr), &size)) throw lacking(name, "STRING");
    std::string text(size, '\0');
    if (!succeeds(api_, KernelInfoGetAttribute_string, info_, name.c_str(), &text[0], &size)) throw lacking(name, "STRING");
    text.resize(size > 0 ? size - 1 : 0);  // it counts the zero at the end
    return text;
}

int64_t Attributes::integer(const std::string& name) const {
    int64_t value = 0;
    if (!succeeds(api_, KernelInfoGetAttribute_int64, info_, name.c_str(), &value)) throw lacking(name, "INT");
    return value;
}

std::vector<int64_t> Attributes::integers(const std::string& name) const {
    size_t size = 0;
    if (!succeeds(api_, KernelInfoGetAttributeArray_int64, info_, name.c_str(), Integers(nullptr), &size)) throw lacking(name, "INTS");
    std::vector<int64_t> values(size);
    if (size == 0) return values;
    if (!succeeds(api_, KernelInfoGetAttributeArray_int64, info_, name.c_str(), values.data(), &size)) throw lacking(name, "INTS");
    return values;
}

std::vector<double> Attributes::doubles(const std::string& name) const {
    constexpr int32_t float64 = 11;
    OrtAllocator* allocator = nullptr;
    OrtValue* value = nullptr;
    call(api_, GetAllocatorWithDefaultOptions, &allocator);
    if (!succeeds(api_, KernelInfoGetAttribute_tensor, info_, name.c_str(), allocator, &value)) throw lacking(name, "TENSOR");
    OrtTensorTypeAndShapeInfo* described = nullptr;
    int32_t type = 0;
    size_t count = 0;
    void* data = nullptr;
    std::vector<double> values;
    const bool found = succeeds(api_, GetTensorTypeAndShape, value, &described) && succeeds(api_, GetTensorElementType, described, &type) &&
                       succeeds(api_, GetTensorShapeElementCount, described, &count) &&
                       succeeds(api_, GetTensorMutableData, value, &data) && type == float64;
    if (found) values.assign(static_cast<const double*>(data), static_cast<const double*>(data) + count);
    if (described) function(api_, ReleaseTensorTypeAndShapeInfo)(described);
    function(api_, ReleaseValue)(value);
    if (!found) throw lacking(name, "TENSOR of doubles");
    return values;
}

std::string config_entry(const OrtApi* api, const OrtSessionOptions* options, const char* key) {
    int has = 0;
    if (!succeeds(api, HasSessionConfigEntry, options, key, &has) || !has) return "";
    size_t size = 0;
    succeeds(api, GetSessionConfigEntry, options, key, Text(nullptr), &size);
    std::string text(size, '\0');
    if (size == 0 || !succeeds(api, GetSessionConfigEntry, options, key, &text[0], &size)) return "";
    text.resize(size - 1);
    return text;
}

}  // namespace aten
}  // namespace opbridge
