// The attributes of a node, read when its kernel is made: read(api, info, name, value) is false where the node has none of that name and
// type.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ort_calls.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace ort {

inline bool read(const OrtApi* api, const OrtKernelInfo* info, const char* name, int64_t& value) {
    return succeeds(api, KernelInfoGetAttribute_int64, info, name, &value);
}

inline bool read(const OrtApi* api, const OrtKernelInfo* info, const char* name, std::string& value) {
    size_t size = 0;
    if (!succeeds(api, KernelInfoGetAttribute_string, info, name, static_cast<char*>(nullptr), &size)) return false;
    value.resize(size);
    const bool found = succeeds(api, KernelInfoGetAttribute_string, info, name, &value[0], &size);
    value.resize(size > 0 ? size - 1 : 0);  // it counts the zero at the end
    return found;
}

template <class Number, class Function>
bool read_array(const OrtApi* api, const OrtKernelInfo* info, Entry<Function> entry, const char* name, std::vector<Number>& values) {
    size_t size = 0;
    if (!succeeds(api, entry, info, name, static_cast<Number*>(nullptr), &size)) return false;
    values.resize(size);
    return size == 0 || succeeds(api, entry, info, name, values.data(), &size);
}

inline bool read(const OrtApi* api, const OrtKernelInfo* info, const char* name, std::vector<int64_t>& values) {
    return read_array(api, info, KernelInfoGetAttributeArray_int64, name, values);
}

inline bool read(const OrtApi* api, const OrtKernelInfo* info, const char* name, std::vector<float>& values) {
    return read_array(api, info, KernelInfoGetAttributeArray_float, name, values);
}

// Doubles that a float does not hold are kept in an attribute that is a tensor.
inline bool read(const OrtApi* api, const OrtKernelInfo* info, const char* name, std::vector<double>& values) {
    OrtAllocator* allocator = nullptr;
    OrtValue* value = nullptr;
    call(api, GetAllocatorWithDefaultOptions, &allocator);
    if (!succeeds(api, KernelInfoGetAttribute_tensor, info, name, allocator, &value)) return false;
    OrtTensorTypeAndShapeInfo* described = nullptr;
    constexpr int32_t float64 = 11;
    int32_t type = 0;
    size_t count = 0;
    void* data = nullptr;
    bool found = succeeds(api, GetTensorTypeAndShape, value, &described) && succeeds(api, GetTensorElementType, described, &type) &&
                 succeeds(api, GetTensorShapeElementCount, described, &count) && succeeds(api, GetTensorMutableData, value, &data) &&
                 type == float64;
    if (found) values.assign(static_cast<const double*>(data), static_cast<const double*>(data) + count);
    if (described) function(api, ReleaseTensorTypeAndShapeInfo)(described);
    function(api, ReleaseValue)(value);
    return found;
}

}  // namespace ort
}  // namespace opbridge
