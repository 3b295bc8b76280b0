// Calls of ONNX Runtime's C interface: a status becomes an exception, and a tensor tells what it is.
#pragma once

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "../platform.h"
#include "guarded.h"
#include "ort_api.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace ort {

// An entry of the table, called; a status becomes an exception.
template <class... P, class... Q>
void call(const OrtApi* api, Entry<OrtStatus*(P...)> entry, Q... arguments) {
    if (OrtStatus* status = function(api, entry)(arguments...)) {
        const std::string message = function(api, GetErrorMessage)(status);
        function(api, ReleaseStatus)(status);
        throw std::runtime_error(message);
    }
}

// The same where failing is an answer.
template <class... P, class... Q>
bool succeeds(const OrtApi* api, Entry<OrtStatus*(P...)> entry, Q... arguments) {
    OrtStatus* status = function(api, entry)(arguments...);
    if (status) function(api, ReleaseStatus)(status);
    return status == nullptr;
}

// Runs `body`. What it throws becomes a status, whose message message_for(const char*) makes of the exception's.
template <class Body, class MessageFor>
OrtStatus* guarded(const OrtApi* api, Body&& body, MessageFor&& message_for) {
    OrtStatus* status = nullptr;
    detail::guarded(body, [&](detail::Thrown thrown, const char* message) {
        const int32_t code = thrown == detail::Thrown::invalid_argument ? invalid_argument : failed;
        status = function(api, CreateStatus)(code, message_for(message).c_str());
    });
    return status;
}

// Whether this ONNX Runtime shows a tensor's sizes where it keeps them: each copy costs some memory that is allocated and freed again.
inline bool& has_shape_reference() {
    static bool shows = false;
    return shows;
}

// ONNX Runtime's interface, for a library that is being registered; null where it is older than any that has what is used of it.
inline const OrtApi* connect(const OrtApiBase* base) {
    const char* number = std::strchr(base->GetVersionString(), '.');  // "1.31.1"
    has_shape_reference() = number && std::strtol(number + 1, nullptr, 10) >= shape_reference_since;
    return base->GetApi(version);
}

// What a tensor is.
struct TensorDescription {
    int32_t type = 0;
    size_t rank = 0;
    const int64_t* sizes = nullptr;
};

// Describes a tensor; `size_storage` holds the sizes where ONNX Runtime gives only a copy.
inline TensorDescription describe_tensor(const OrtApi* api, const OrtValue* value, std::vector<int64_t>& size_storage) {
    TensorDescription found;
    if (has_shape_reference()) {
        call(api, GetTensorElementTypeAndShapeDataReference, value, &found.type, &found.sizes, &found.rank);
        return found;
    }
    OrtTensorTypeAndShapeInfo* info = nullptr;
    call(api, GetTensorTypeAndShape, value, &info);
    bool ok = succeeds(api, GetTensorElementType, info, &found.type) && succeeds(api, GetDimensionsCount, info, &found.rank);
    if (ok) size_storage.resize(found.rank);
    ok = ok && succeeds(api, GetDimensions, info, size_storage.data(), found.rank);
    function(api, ReleaseTensorTypeAndShapeInfo)(info);
    if (!ok) throw std::runtime_error("ONNX Runtime did not return a tensor's shape");
    found.sizes = size_storage.data();
    return found;
}

inline void* data_of(const OrtApi* api, const OrtValue* value) {
    void* data = nullptr;
    call(api, GetTensorMutableData, value, &data);
    return data;
}

}  // namespace ort
}  // namespace opbridge
